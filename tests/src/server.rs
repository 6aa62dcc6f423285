//! [`Server`]: one real Valkey or Redis process, on a loopback port of its own.

use std::fmt::{self, Write as _};
use std::fs;
use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::time::Duration;

use selvedge_core::value::Value;
use tempfile::TempDir;

use crate::binary;
use crate::connection::Connection;
use crate::keeper::Keeper;
use crate::patience::Patience;

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
}

impl Options {
    /// Adds one line of server configuration, such as `appendonly yes`. Later lines win.
    #[must_use]
    pub fn line(mut self, line: impl Into<String>) -> Self {
        self.lines.push(line.into());
        self
    }
}

/// Why there is no server. Its text is meant for the person who runs the tests.
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
    #[error("{variable} names {}, where there is no file", path.display())]
    NamedWrongly {
        /// The environment variable.
        variable: &'static str,
        /// What it says.
        path: PathBuf,
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
    kind: Kind,
    executable: PathBuf,
    port: u16,
    options: Options,
    // Before the folder: the process ends first.
    keeper: Keeper,
    folder: TempDir,
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
    /// anybody may take it first: then the server ends at once, and another port is tried.
    pub fn start(kind: Kind, options: Options) -> Result<Self, ServerError> {
        let executable = binary::find(kind)?;
        let folder = tempfile::Builder::new().prefix("selvedge-").tempdir()?;
        for attempts_left in (0..PORTS_TRIED).rev() {
            let port = free_port()?;
            let mut keeper = launch(&executable, port, &options, folder.path())?;
            match await_ready(kind, &executable, port, &mut keeper, folder.path()) {
                Ok(()) => return Ok(Self { kind, executable, port, options, keeper, folder }),
                Err(ServerError::NotReady { log, .. })
                    if attempts_left > 0 && log.contains("Address already in use") =>
                {
                    // The old log must not be taken for the next attempt's. A server that ended
                    // by itself leaves the folder in place.
                    fs::remove_file(log_path(folder.path()))?;
                }
                Err(error) => return Err(error),
            }
        }
        Err(ServerError::Io(io::Error::other("every free port was taken by somebody else")))
    }

    /// Kills the process with SIGKILL and returns when it is gone. Its folder stays.
    pub fn kill_9(&mut self) -> Result<(), ServerError> {
        Ok(self.keeper.kill()?)
    }

    /// Starts the process again, on the same port and folder, killing it first if it still runs.
    pub fn restart(&mut self) -> Result<(), ServerError> {
        self.keeper.kill()?;
        self.keeper = launch(&self.executable, self.port, &self.options, self.folder.path())?;
        let folder = self.folder.path();
        await_ready(self.kind, &self.executable, self.port, &mut self.keeper, folder)
    }

    /// Opens a connection to it.
    pub fn connect(&self) -> io::Result<Connection> {
        Connection::open(self.port)
    }

    /// Which server this is.
    #[must_use]
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// The loopback port it listens on.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The folder it lives in: configuration, log, and whatever it persists.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The process, as the operating system knows it.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.keeper.server_pid()
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

/// Asks the system for a loopback port that nobody listens on at this moment.
pub(crate) fn free_port() -> io::Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
}

fn launch(
    executable: &Path,
    port: u16,
    options: &Options,
    folder: &Path,
) -> Result<Keeper, ServerError> {
    let mut config = format!("bind 127.0.0.1\nport {port}\nsave \"\"\nappendonly no\n");
    for line in &options.lines {
        let _ = writeln!(config, "{line}");
    }
    let path = folder.join("server.conf");
    fs::write(&path, config)?;
    Ok(Keeper::start(executable, &path, folder, &log_path(folder))?)
}

/// Returns when the process that we started, and no other on its port, answers and is done loading.
fn await_ready(
    kind: Kind,
    executable: &Path,
    port: u16,
    keeper: &mut Keeper,
    folder: &Path,
) -> Result<(), ServerError> {
    let pid = keeper.server_pid();
    let answer = Patience::of(READY_WITHIN).until(|| match keeper.ended() {
        Ok(None) => identify(port).filter(|identity| identity.pid == pid).map(Ok),
        Ok(Some(status)) => Some(Err(format!("ended with {status}"))),
        Err(error) => Some(Err(format!("could not be watched: {error}"))),
    });
    let not_ready = |why| {
        let log = fs::read(log_path(folder)).unwrap_or_default();
        let log = String::from_utf8_lossy(&log[log.len().saturating_sub(LOG_TAIL)..]).into_owned();
        ServerError::NotReady { kind, why, log }
    };
    let identity = answer
        .ok_or_else(|| not_ready(format!("did not answer within {READY_WITHIN:?}")))?
        .map_err(not_ready)?;
    if kind.accepts(&identity) {
        return Ok(());
    }
    let found = format!("{} {}", identity.product, identity.version);
    Err(ServerError::WrongVersion { kind, path: executable.to_owned(), found })
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

fn log_path(folder: &Path) -> PathBuf {
    folder.join("server.log")
}

/// A start takes some 50 ms; a busy machine with two cores may take far longer.
const READY_WITHIN: Duration = Duration::from_secs(30);

/// Bytes of log shown when a server does not start.
const LOG_TAIL: usize = 2_000;

/// Losing the race for a port three times in a row means that something else is wrong.
const PORTS_TRIED: u32 = 4;
