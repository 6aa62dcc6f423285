//! `selvedge serve` as the system that starts and ends it sees it.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use selvedge_core::value::Value;
use selvedge_tests::server::Server;
use selvedge_tests::wait::Wait;

struct Daemon {
    child: Child,
    /// Where it listens.
    address: String,
}

impl Daemon {
    /// Starts it, and returns when it listens.
    fn start(server: &Server) -> Self {
        Self::start_as("", server)
    }

    /// The same for a user of the server, `name@`.
    fn start_as(user: &str, server: &Server) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_command"))
            .args(["serve", "--listen", "127.0.0.1:0"])
            .env("SELVEDGE_URL", format!("valkey://{user}127.0.0.1:{}", server.port()))
            .env("SELVEDGE_WAITPOINT_SECRET", "5e".repeat(32))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary is built");
        let mut line = String::new();
        let out = child.stdout.take().expect("piped");
        BufReader::new(out).read_line(&mut line).expect("it speaks");
        let address = line.trim().strip_prefix("listening on http://").expect("an address");
        Self { address: address.to_owned(), child }
    }

    /// What /readyz says.
    fn readiness(&self) -> Option<String> {
        let mut stream = TcpStream::connect(&self.address).ok()?;
        write!(stream, "GET /readyz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").ok()?;
        let mut reply = String::new();
        stream.read_to_string(&mut reply).ok()?;
        Some(reply)
    }

    /// Waits until /readyz says all of this.
    fn says(&self, words: &[&str]) {
        let mut last = None;
        let said = Wait::at_most(Duration::from_secs(60)).until(|| {
            last = self.readiness();
            let page = last.as_ref()?;
            words.iter().all(|word| page.contains(word)).then_some(())
        });
        assert!(said.is_some(), "{words:?}: {last:?}");
    }

    fn signal(&self, name: &str) {
        let sent = Command::new("kill").args([name, &self.child.id().to_string()]).status();
        assert!(sent.expect("kill is there").success());
    }

    fn has_ended(&mut self) -> Option<i32> {
        self.child.try_wait().expect("it is ours").map(|status| status.code().unwrap_or(-1))
    }

    /// Its exit code and what it logged.
    fn end(mut self) -> (i32, String) {
        let code = Wait::at_most(Duration::from_secs(30)).until(|| self.has_ended());
        // One that does not end keeps its log open.
        let _ = self.child.kill();
        let mut log = String::new();
        self.child.stderr.take().expect("piped").read_to_string(&mut log).expect("plain text");
        (code.unwrap_or_else(|| panic!("it does not end: {log}")), log)
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // It may be gone already, which is as good.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Waits until the engine has visited every partition more than once.
fn is_working(server: &Server) {
    let mut connection = server.connect().expect("it is up");
    let works = Wait::at_most(Duration::from_secs(60)).until(|| {
        let Value::Bulk(stats) = connection.call(&["INFO", "commandstats"]).ok()? else {
            return None;
        };
        let stats = String::from_utf8_lossy(&stats).into_owned();
        let calls = stats.split("cmdstat_fcall:calls=").nth(1)?.split(',').next()?;
        (calls.parse::<u32>().ok()? > 1_000).then_some(())
    });
    assert!(works.is_some(), "the engine does nothing");
}

#[test]
fn a_daemon_drains_on_sigterm_and_exits_with_0() {
    let server = Server::valkey().unwrap_or_else(|error| panic!("{error}"));
    for signal in ["-TERM", "-INT"] {
        let mut daemon = Daemon::start(&server);
        is_working(&server);
        // Nothing is answered for a while, so that something is in flight whenever it is told.
        let mut admin = server.connect().expect("it is up");
        admin.call(&["CLIENT", "PAUSE", "2500", "ALL"]).expect("it answers");
        let wait = Wait::at_most(Duration::from_millis(1_500));
        assert_eq!(wait.until(|| daemon.has_ended()), None, "nobody told it to end");
        daemon.signal(signal);
        let wait = Wait::at_most(Duration::from_millis(300));
        assert_eq!(wait.until(|| daemon.has_ended()), None, "it does not wait for answers");
        let (code, log) = daemon.end();
        assert_eq!(code, 0, "{signal}: {log}");
        assert!(log.contains("stopping") && log.contains("engine stopped"), "{log}");
        assert!(!log.contains("before everything was answered"), "{log}");
        admin.call(&["CONFIG", "RESETSTAT"]).expect("it answers");
    }
}

#[test]
fn a_second_signal_ends_a_daemon_at_once() {
    let server = Server::valkey().unwrap_or_else(|error| panic!("{error}"));
    let mut daemon = Daemon::start(&server);
    is_working(&server);
    let mut admin = server.connect().expect("it is up");
    admin.call(&["CLIENT", "PAUSE", "20000", "ALL"]).expect("it answers");
    let wait = Wait::at_most(Duration::from_millis(1_500));
    assert_eq!(wait.until(|| daemon.has_ended()), None);
    daemon.signal("-TERM");
    let wait = Wait::at_most(Duration::from_millis(300));
    assert_eq!(wait.until(|| daemon.has_ended()), None);
    daemon.signal("-TERM");
    let ended = Wait::at_most(Duration::from_secs(5)).until(|| daemon.has_ended());
    assert_eq!(ended, Some(1), "a second signal ends it at once, and says that it is unclean");
}

#[test]
fn an_empty_store_is_initialised_again_and_a_foreign_one_refused() {
    let server = Server::valkey().unwrap_or_else(|error| panic!("{error}"));
    let daemon = Daemon::start(&server);
    is_working(&server);
    let mut admin = server.connect().expect("it is up");
    let mut count = || match admin.call(&["HGET", "ff:config:partitions", "num_flow_partitions"]) {
        Ok(Value::Bulk(count)) => Some(count),
        _ => None,
    };
    assert_eq!(count(), Some(b"256".to_vec()));
    server.connect().expect("it is up").call(&["FLUSHALL"]).expect("it answers");
    let again = Wait::at_most(Duration::from_secs(30)).until(&mut count);
    assert_eq!(again, Some(b"256".to_vec()), "what a deployment agrees on is not written again");
    // Now it is somebody else's.
    let other = ["HSET", "ff:config:partitions", "num_flow_partitions", "16"];
    server.connect().expect("it is up").call(&other).expect("it answers");
    let wait = Wait::at_most(Duration::from_millis(4_500));
    assert_eq!(wait.until(|| None::<()>), None);
    daemon.signal("-TERM");
    let (_, log) = daemon.end();
    assert!(log.contains("16 flow") && log.contains("256 flow"), "{log}");
}

#[test]
fn an_interrupted_initialisation_is_completed() {
    let server = Server::valkey().unwrap_or_else(|error| panic!("{error}"));
    let mut admin = server.connect().expect("it is up");
    let mut call = |words: &[&str]| admin.call(words).expect("it answers");
    let user = ["ACL", "SETUSER", "app", "on", "nopass", "resetkeys", "&*", "+@all"];
    call(&[&user[..], &["~*"]].concat());
    let daemon = Daemon::start_as("app@", &server);
    is_working(&server);
    // The counts can be written, the secrets cannot: as if it died, or lost the server, in between.
    call(&[&user[..], &["~ff:config:*", "~ff:idx:*"]].concat());
    call(&["FLUSHALL"]);
    let counts = ["EXISTS", "ff:config:partitions"];
    let wrote = || (call(&counts) == Value::Int(1)).then_some(());
    assert!(Wait::at_most(Duration::from_secs(30)).until(wrote).is_some(), "no counts");
    let wait = Wait::at_most(Duration::from_secs(3));
    assert_eq!(wait.until(|| None::<()>), None);
    let secret = ["EXISTS", "ff:sec:{fp:7}:waitpoint_hmac"];
    assert_eq!(call(&secret), Value::Int(0), "it could not have been written");
    call(&[&user[..], &["~*"]].concat());
    let signs = || (call(&secret) == Value::Int(1)).then_some(());
    assert!(Wait::at_most(Duration::from_secs(30)).until(signs).is_some(), "no secret");
    daemon.signal("-TERM");
    let (code, log) = daemon.end();
    assert_eq!(code, 0, "{log}");
}

#[test]
fn a_right_that_a_function_lacks_is_named_and_waited_for() {
    let server = Server::valkey().unwrap_or_else(|error| panic!("{error}"));
    let mut admin = server.connect().expect("it is up");
    let mut call = |words: &[&str]| admin.call(words).expect("it answers");
    call(&["ACL", "SETUSER", "app", "on", "nopass", "~*", "&*", "+@all", "-hset"]);
    let daemon = Daemon::start_as("app@", &server);
    daemon.says(&["503", "no permissions to run the 'hset' command", "missing right: +hset"]);
    call(&["ACL", "SETUSER", "app", "+hset"]);
    daemon.says(&["200 OK"]);
    daemon.signal("-TERM");
    let (code, log) = daemon.end();
    assert_eq!(code, 0, "{log}");
    assert!(log.contains("missing right: +hset"), "{log}");
}

#[test]
fn a_push_connection_that_is_refused_says_why() {
    let server = Server::valkey().unwrap_or_else(|error| panic!("{error}"));
    let mut admin = server.connect().expect("it is up");
    let mut call = |words: &[&str]| admin.call(words).expect("it answers");
    for (takes, gives, right) in [
        (&["-subscribe"][..], &["+subscribe"][..], "missing right: +subscribe"),
        (&["resetchannels"], &["&*"], "missing right: &ff:*"),
    ] {
        let user = ["ACL", "SETUSER", "app", "on", "nopass", "~*", "&*", "+@all"];
        call(&[&user[..], takes].concat());
        // Functions publish, which the second case forbids too; so it comes when all is prepared.
        let daemon = Daemon::start_as("app@", &server);
        daemon.says(&["503", "NOPERM", right]);
        call(&[&user[..3], gives].concat());
        daemon.says(&["200 OK"]);
        daemon.signal("-TERM");
        assert_eq!(daemon.end().0, 0);
    }
}
