//! [`Server`]: one real Valkey or Redis process, on a loopback port of its own.

use std::fmt;
use std::fs;
use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::Duration;

use selvedge_core::value::Value;
use tempfile::TempDir;

use crate::connection::Connection;
use crate::process_guard::ProcessGuard;
use crate::server_binary;
use crate::wait::Wait;

/// Which server to start. The suites hold the library and the host to both.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Valkey, 9 or later.
    Valkey,
    /// Redis 7.0, the oldest server that the library promises to run on.
    Redis,
}

/// What a server is started with beyond the defaults: no persistence, loopback only.
#[derive(Clone, Debug, Default)]
pub struct Options {
    lines: Vec<String>,
    cluster: bool,
}

impl Options {
    /// A node of a cluster. It gets a bus port of its own: the usual one, 10,000 above, may lie
    /// beyond the last port.
    #[must_use]
    pub fn cluster_node() -> Self {
        Self { cluster: true, ..Self::default() }.line("cluster-enabled yes")
    }

    /// Adds one line of server configuration, such as `appendonly yes`. Later lines win.
    #[must_use]
    pub fn line(mut self, line: impl Into<String>) -> Self {
        self.lines.push(line.into());
        self
    }
}

/// Why there is no server, with advice for the person who runs the tests.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// No executable anywhere; the text says how to get one.
    #[error("no {kind} server found: {advice}")]
    NotFound {
        /// The server looked for.
        kind: Kind,
        /// How to get one.
        advice: &'static str,
    },
    /// The environment names an executable that is not there.
    #[error("{variable} names {}, where there is no file: {advice}", path.display())]
    NamedWrongly {
        /// The environment variable.
        variable: &'static str,
        /// What it says.
        path: PathBuf,
        /// How to get one.
        advice: &'static str,
    },
    /// The executable is another server, or another version, than the suites are written for.
    #[error("{} is {found}; the tests need {kind} {}", path.display(), kind.wanted())]
    WrongVersion {
        /// The server looked for.
        kind: Kind,
        /// The executable found.
        path: PathBuf,
        /// What it says it is.
        found: String,
    },
    /// The process ended, or did not answer in time; its log tells more.
    #[error("the {kind} server {why}; its log ends:\n{log}")]
    NotReady {
        /// The server started.
        kind: Kind,
        /// What happened.
        why: String,
        /// The end of its log.
        log: String,
    },
    /// A cluster did not come together.
    #[error("the cluster {0}")]
    Cluster(String),
    /// The system refused a file, a process or a socket.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// A running server. Dropping it kills exactly this process and removes its folder; so does the
/// end of the process that started it, however it comes.
#[derive(Debug)]
pub struct Server {
    // Before the site: the process ends before its folder goes.
    guard: ProcessGuard,
    ports: Ports,
    site: Site,
}

impl Server {
    /// Starts a Valkey with the defaults.
    pub fn valkey() -> Result<Self, ServerError> {
        Self::start(Kind::Valkey, Options::default())
    }

    /// Starts a Redis with the defaults.
    pub fn redis() -> Result<Self, ServerError> {
        Self::start(Kind::Redis, Options::default())
    }

    /// Starts a server and returns when it answers. Between finding a free port and taking it,
    /// another process may take it: then the server exits at once, and another port is tried.
    pub fn start(kind: Kind, options: Options) -> Result<Self, ServerError> {
        let site = Site::prepare(kind, options)?;
        let mut attempts_left = PORTS_TRIED;
        loop {
            let ports = Ports::free()?;
            attempts_left -= 1;
            match site.launch(ports) {
                Ok(guard) => return Ok(Self { guard, ports, site }),
                Err(ServerError::NotReady { log, .. })
                    if attempts_left > 0 && log.contains("Address already in use") =>
                {
                    // The old log must not be taken for the next attempt's.
                    fs::remove_file(site.log_path())?;
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Kills the process with SIGKILL and returns when it is gone. Its folder stays.
    pub fn kill_9(&mut self) -> Result<(), ServerError> {
        Ok(self.guard.kill()?)
    }

    /// Starts the process again, on the same port and folder, killing it first if it still runs.
    pub fn restart(&mut self) -> Result<(), ServerError> {
        self.guard.kill()?;
        self.guard = self.site.launch(self.ports)?;
        Ok(())
    }

    /// How the process ended, if it has.
    pub fn ended(&mut self) -> io::Result<Option<ExitStatus>> {
        self.guard.ended()
    }

    /// Opens a connection to it.
    pub fn connect(&self) -> io::Result<Connection> {
        Connection::open(self.ports.client)
    }

    /// Which server this is.
    #[must_use]
    pub fn kind(&self) -> Kind {
        self.site.kind
    }

    /// The loopback port it listens on.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.ports.client
    }

    /// The port on which a cluster's nodes talk to it.
    #[must_use]
    pub fn bus_port(&self) -> u16 {
        self.ports.bus
    }

    /// The folder it lives in: configuration, log, and whatever it persists.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.site.folder.path()
    }

    /// The process, as the operating system knows it.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.guard.server_pid()
    }
}

impl Kind {
    fn wanted(self) -> &'static str {
        match self {
            Self::Valkey => "9 or later",
            Self::Redis => "7.0",
        }
    }

    fn accepts(self, identity: &Identity) -> bool {
        match self {
            Self::Valkey => {
                identity.product == "Valkey"
                    && identity.version.split('.').next().and_then(|major| major.parse().ok())
                        >= Some(9_u32)
            }
            Self::Redis => identity.product == "Redis" && identity.version.starts_with("7.0."),
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Valkey => "Valkey",
            Self::Redis => "Redis",
        })
    }
}

/// The ports of one server; without a cluster the second is unused.
#[derive(Clone, Copy, Debug)]
struct Ports {
    client: u16,
    bus: u16,
}

impl Ports {
    /// Two loopback ports that are free at this moment. Both are held until both are
    /// found, so that they differ.
    fn free() -> io::Result<Self> {
        let listen = || TcpListener::bind((Ipv4Addr::LOCALHOST, 0));
        let (client, bus) = (listen()?, listen()?);
        Ok(Self { client: client.local_addr()?.port(), bus: bus.local_addr()?.port() })
    }
}

/// Where and how a server is started, again and again.
#[derive(Debug)]
struct Site {
    kind: Kind,
    executable: PathBuf,
    options: Options,
    folder: TempDir,
}

impl Site {
    fn prepare(kind: Kind, options: Options) -> Result<Self, ServerError> {
        let executable = server_binary::find(kind)?;
        let folder = tempfile::Builder::new().prefix("selvedge-").tempdir()?;
        Ok(Self { kind, executable, options, folder })
    }

    /// Starts the process and returns when it answers.
    fn launch(&self, ports: Ports) -> Result<ProcessGuard, ServerError> {
        let mut config =
            format!("bind 127.0.0.1\nport {}\nsave \"\"\nappendonly no\n", ports.client);
        if self.options.cluster {
            config += &format!("cluster-port {}\n", ports.bus);
        }
        config += &self.options.lines.join("\n");
        config.push('\n');
        let path = self.folder.path().join("server.conf");
        fs::write(&path, config)?;
        let log = self.log_path();
        let arguments = [path.into_os_string()];
        let folder = self.folder.path();
        let mut guard = ProcessGuard::start(&self.executable, &arguments, &[], folder, &log)?;
        match self.await_ready(ports, &mut guard) {
            Ok(()) => Ok(guard),
            Err(error) => {
                // Not by its drop, which would remove the folder as well.
                guard.kill()?;
                Err(error)
            }
        }
    }

    /// Returns when the process that we started, and no other on its port, answers and is done
    /// loading.
    fn await_ready(&self, ports: Ports, guard: &mut ProcessGuard) -> Result<(), ServerError> {
        let pid = guard.server_pid();
        let answer = Wait::at_most(READY_WITHIN).until(|| match guard.ended() {
            Ok(None) => identify(ports.client).filter(|identity| identity.pid == pid).map(Ok),
            Ok(Some(status)) => Some(Err(format!("ended with {status}"))),
            Err(error) => Some(Err(format!("could not be watched: {error}"))),
        });
        let not_ready =
            |why| ServerError::NotReady { kind: self.kind, why, log: self.end_of_log() };
        let identity = answer
            .ok_or_else(|| not_ready(format!("did not answer within {READY_WITHIN:?}")))?
            .map_err(not_ready)?;
        if self.kind.accepts(&identity) {
            return Ok(());
        }
        let found = format!("{} {}", identity.product, identity.version);
        Err(ServerError::WrongVersion { kind: self.kind, path: self.executable.clone(), found })
    }

    fn end_of_log(&self) -> String {
        let log = fs::read(self.log_path()).unwrap_or_default();
        String::from_utf8_lossy(&log[log.len().saturating_sub(LOG_TAIL)..]).into_owned()
    }

    fn log_path(&self) -> PathBuf {
        self.folder.path().join("server.log")
    }
}

/// What a listening server says about itself.
struct Identity {
    pid: u32,
    product: &'static str,
    version: String,
}

fn identify(port: u16) -> Option<Identity> {
    let mut connection = Connection::open(port).ok()?;
    connection.reply_within(Duration::from_secs(2)).ok()?;
    // While it loads its files it answers INFO, but nothing else.
    let Value::Status(_) = connection.call(&["PING"]).ok()? else { return None };
    let Value::Bulk(info) = connection.call(&["INFO", "server"]).ok()? else { return None };
    let info = String::from_utf8_lossy(&info).into_owned();
    let field = |name: &str| {
        info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::to_owned)
    };
    // Valkey reports a `redis_version` too, for the sake of old clients.
    let (product, version) = match field("valkey_version") {
        Some(version) => ("Valkey", version),
        None => ("Redis", field("redis_version")?),
    };
    Some(Identity { pid: field("process_id")?.parse().ok()?, product, version })
}

/// A start takes some 50 ms; a busy machine with two cores may take far longer.
const READY_WITHIN: Duration = Duration::from_secs(30);

/// Bytes of log shown when a server does not start.
const LOG_TAIL: usize = 2_000;

/// Losing the race for a port three times in a row means that something else is wrong.
const PORTS_TRIED: u32 = 4;
