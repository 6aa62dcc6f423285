//! Servers of the kit start, answer, survive a kill, and never outlive their tests.

use std::env;
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::process::{Command, Stdio};
use std::time::Duration;

use selvedge_core::value::Value;
use selvedge_tests::bounded_output::BoundedOutput as _;
use selvedge_tests::cluster::Cluster;
use selvedge_tests::server::{Kind, Options, Server};
use selvedge_tests::shared_servers::{shared_redis, shared_valkey};
use selvedge_tests::wait::Wait;

/// Set for the child process that the orphan test starts from this very executable.
const LEAVE_A_SERVER: &str = "SELVEDGE_TEST_LEAVES_A_SERVER";

#[test]
fn replies_of_both_servers_are_returned_byte_for_byte() {
    for server in [shared_valkey(), shared_redis()] {
        let mut connection = server.connect().unwrap();
        let mut call = |command: &[&str]| connection.call(command).unwrap();
        assert_eq!(call(&["SET", "answers", "a\r\nb"]), Value::Status("OK".into()));
        assert_eq!(call(&["GET", "answers"]), Value::Bulk(b"a\r\nb".to_vec()));
        assert_eq!(call(&["GET", "answers:none"]), Value::Nil);
        let refused = call(&["INCR", "answers"]);
        assert_eq!(refused, Value::Error("ERR value is not an integer or out of range".into()));
        let nested = call(&["EVAL", "return {1, {'x', false}}", "0"]);
        let inner = Value::Array(vec![Value::Bulk(b"x".to_vec()), Value::Nil]);
        assert_eq!(nested, Value::Array(vec![Value::Int(1), inner]));
    }
}

#[test]
fn a_subscriber_hears_what_another_connection_publishes() {
    let server = shared_valkey();
    let mut ears = server.connect().unwrap();
    ears.subscribe("news:*").unwrap();
    server.connect().unwrap().call(&["PUBLISH", "news:now", "hello"]).unwrap();
    let message = ears.next_message().unwrap();
    assert_eq!((&message.channel[..], &message.payload[..]), (&b"news:now"[..], &b"hello"[..]));
}

#[test]
fn an_append_only_server_keeps_its_data_through_a_kill() {
    let options = Options::default().line("appendonly yes").line("appendfsync always");
    let mut server = Server::start(Kind::Valkey, options).unwrap();
    server.connect().unwrap().call(&["SET", "kept", "1"]).unwrap();
    let (port, pid) = (server.port(), server.pid());
    server.kill_9().unwrap();
    assert!(server.connect().is_err(), "it still listens after a kill");
    server.restart().unwrap();
    assert_eq!(server.port(), port);
    assert_ne!(server.pid(), pid);
    let kept = server.connect().unwrap().call(&["GET", "kept"]).unwrap();
    assert_eq!(kept, Value::Bulk(b"1".to_vec()));
}

#[test]
fn a_server_that_refuses_its_configuration_says_so() {
    let error = Server::start(Kind::Redis, Options::default().line("no-such-line 1")).unwrap_err();
    assert!(error.to_string().contains("no-such-line"), "{error}");
}

#[test]
fn a_port_that_stays_taken_is_given_up_in_the_end() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let line = format!("port {}", taken.local_addr().unwrap().port());
    for kind in [Kind::Valkey, Kind::Redis] {
        let error = Server::start(kind, Options::default().line(&line)).unwrap_err();
        assert!(error.to_string().contains("Address already in use"), "{error}");
    }
}

#[test]
fn a_cluster_shares_the_slots_and_its_replicas_follow() {
    let cluster = Cluster::with_replicas(2, 1).unwrap();
    let mut first = cluster.primaries()[0].connect().unwrap();
    // CRC16 puts "foo" into slot 12182, in the second half.
    let Value::Error(moved) = first.call(&["SET", "foo", "1"]).unwrap() else {
        panic!("the first node took a key of the second")
    };
    assert_eq!(moved, format!("MOVED 12182 127.0.0.1:{}", cluster.primaries()[1].port()));
    let mut second = cluster.primaries()[1].connect().unwrap();
    assert_eq!(second.call(&["SET", "foo", "1"]).unwrap(), Value::Status("OK".into()));
    assert_eq!(second.call(&["WAIT", "1", "10000"]).unwrap(), Value::Int(1));
}

#[test]
fn no_server_outlives_a_dropped_handle() {
    let server = Server::valkey().unwrap();
    let port = server.port();
    drop(server);
    assert!(selvedge_tests::connection::Connection::open(port).is_err());
}

#[test]
fn no_server_outlives_a_finished_or_killed_test_run() {
    if env::var_os(LEAVE_A_SERVER).is_some() {
        return; // The child runs only the helper below.
    }
    for killed in [false, true] {
        let (mut child, pid, folder) = run_that_leaves_a_server();
        assert!(process_lives(pid), "the child's server does not even run");
        if killed {
            child.kill().unwrap();
        } else {
            drop(child.stdin.take()); // The child waits for this, then ends as a test run does.
        }
        child.wait().unwrap();
        let gone = Wait::at_most(Duration::from_secs(10))
            .until(|| (!process_lives(pid) && !folder.exists()).then_some(()));
        assert!(gone.is_some(), "server {pid} or its folder outlived its run; killed: {killed}");
    }
}

#[test]
fn a_missing_or_wrong_server_fails_with_advice() {
    let redis = which("redis-server").unwrap_or_else(|| {
        env::var("SELVEDGE_REDIS_SERVER").expect("./test says where Redis is").into()
    });
    for (value, advice) in [
        ("no/such/file".into(), "SELVEDGE_VALKEY_SERVER names no/such/file"),
        (redis, "the tests need Valkey 9 or later"),
    ] {
        let run = Command::new(env::current_exe().unwrap())
            .args(["--exact", "servers::helper_leaves_a_shared_server"])
            .env(LEAVE_A_SERVER, "1")
            .env("SELVEDGE_VALKEY_SERVER", value)
            .bounded_output();
        let said = String::from_utf8_lossy(&run.stdout);
        assert!(!run.status.success() && said.contains(advice), "{said}");
    }
}

/// Not a test of its own: what the runs started by the tests above do.
#[test]
fn helper_leaves_a_shared_server() {
    if env::var_os(LEAVE_A_SERVER).is_some() {
        let server = shared_valkey();
        eprintln!("left {} {}", server.pid(), server.folder().display());
        let _ = std::io::stdin().read_line(&mut String::new());
    }
}

fn run_that_leaves_a_server() -> (std::process::Child, u32, std::path::PathBuf) {
    let mut child = Command::new(env::current_exe().expect("a test knows its executable"))
        .args(["--exact", "servers::helper_leaves_a_shared_server", "--nocapture"])
        .env(LEAVE_A_SERVER, "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("this executable runs once more");
    let said = BufReader::new(child.stderr.take().expect("stderr is piped"));
    let left = said.lines().map_while(Result::ok).find_map(|line| {
        let (pid, folder) = line.strip_prefix("left ")?.split_once(' ')?;
        Some((pid.parse().ok()?, folder.into()))
    });
    let (pid, folder) = left.expect("the child announces its server");
    (child, pid, folder)
}

fn which(executable: &str) -> Option<std::path::PathBuf> {
    let path = env::var_os("PATH")?;
    env::split_paths(&path).map(|folder| folder.join(executable)).find(|file| file.is_file())
}

fn process_lives(pid: u32) -> bool {
    // Signal 0 asks without doing anything; a zombie would still count, but its guard reaps it.
    Command::new("kill")
        .args(["-0", &pid.to_string()])
        .stderr(Stdio::null())
        .status()
        .expect("there is a kill command")
        .success()
}
