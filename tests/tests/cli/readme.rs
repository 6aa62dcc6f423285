//! The README's commands for operators, carried out as they stand there, and its examples.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use selvedge::{Client, Context, Engine, Failed, Task, Worker};
use selvedge_core::value::Value;
use selvedge_tests::bounded_output::BoundedOutput as _;
use selvedge_tests::server::Server;
use selvedge_tests::wait::Wait;
use tempfile::TempDir;

const README: &str = include_str!("../../../README.md");

/// What the README calls these, and what they are here.
struct ConsoleSession {
    /// A folder in which the command has its name.
    bin: TempDir,
    store: String,
    listen: String,
    flow: String,
    execution: String,
}

#[test]
fn the_commands_for_operators_work_as_written() {
    let server = Server::valkey().unwrap_or_else(|error| panic!("{error}"));
    let listen = TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr());
    let bin = TempDir::new().expect("there is room for a folder");
    symlink(env!("CARGO_BIN_EXE_command"), bin.path().join("selvedge")).expect("it is empty");
    let mut session = ConsoleSession {
        bin,
        store: format!("valkey://127.0.0.1:{}", server.port()),
        listen: listen.expect("there is a free port").to_string(),
        flow: String::new(),
        execution: String::new(),
    };
    let block = blocks().find(|block| block.contains("selvedge serve")).expect("it is there");
    let mut daemons = Vec::new();
    let mut carried_out = 0;
    for line in block.lines().filter_map(|line| line.strip_prefix("$ ")) {
        let words = line.split('#').next().unwrap_or_default().trim();
        let words = words.replace("FLOW", &session.flow).replace("EXECUTION", &session.execution);
        let words = match words.strip_prefix(RUN_EXAMPLE).and_then(|rest| rest.split_once(' ')) {
            Some((name, rest)) => format!("{} {rest}", example(name)),
            None => words,
        };
        if let Some(url) = words.strip_prefix("curl http://localhost:9180") {
            let ready = Wait::at_most(LONG).until(|| get(&session.listen, url));
            assert!(ready.is_some(), "{line}");
        } else if let Some(words) = words.strip_suffix('&') {
            daemons.push(Daemon(shell(&session, words).spawn().expect("bash is there")));
        } else if !words.starts_with("export ") {
            let ran = shell(&session, &words).bounded_output();
            let told = told(&ran);
            assert!(ran.status.success(), "{line}: {told}");
            session.note(&told);
        }
        carried_out += 1;
    }
    assert_eq!(carried_out, 10, "a command was added: is it carried out?");
    assert_eq!(daemons.len(), 2);
}

#[test]
fn the_examples_end_well_without_a_server_and_with_one() {
    let server = Server::valkey().unwrap_or_else(|error| panic!("{error}"));
    let store = format!("valkey://127.0.0.1:{}", server.port());
    let run = |name: &str, url: &str| {
        let ran = Command::new(example(name)).env("SELVEDGE_URL", url).bounded_output();
        let told = told(&ran);
        assert!(ran.status.success(), "{name} on {url}: {told}");
        told
    };
    assert!(run("embed_engine", "memory://").contains("ended with 42"));
    assert!(run("embed_engine", &store).contains("ended with 42"));
    assert!(run("submit_flow", "memory://").contains("report: an answer after 20 ms"));
    assert!(run("submit_flow", &store).contains("report: an answer after 20 ms"));
    // With a server it runs until it is told to stop; the other test does that.
    assert!(run("worker_service", "memory://").contains("Hello, world!"));
}

#[test]
fn sigterm_ends_every_example_well() {
    let server = Server::valkey().unwrap_or_else(|error| panic!("{error}"));
    let store = format!("valkey://127.0.0.1:{}", server.port());
    for name in ["embed_engine", "submit_flow", "worker_service"] {
        // Nothing is answered, so that it cannot end by itself.
        let child = Command::new(example(name))
            .env("SELVEDGE_URL", &store)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn();
        let child = child.expect("it is built");
        let subscribed = || {
            let reply = server.connect().ok()?.call(&["PUBSUB", "CHANNELS"]).ok()?;
            (reply != Value::Array(Vec::new())).then_some(())
        };
        assert!(Wait::at_most(LONG).until(subscribed).is_some(), "{name} does not begin");
        let mut admin = server.connect().expect("it is up");
        admin.call(&["CLIENT", "PAUSE", "1500", "ALL"]).expect("it answers");
        let pid = child.id().to_string();
        let sent = Command::new("kill").args(["-TERM", &pid]).status().expect("kill is there");
        assert!(sent.success(), "{name} had ended");
        let ended = child.bounded_output();
        assert_eq!(ended.status.code(), Some(0), "{name}: {}", told(&ended));
    }
}

/// The README says that `memory://` may be replaced by the URL of a server.
#[test]
fn the_first_example_works_on_an_empty_server() {
    let server = Server::valkey().unwrap_or_else(|error| panic!("{error}"));
    let url = format!("valkey://127.0.0.1:{}", server.port());
    assert!(README.contains("Engine::builder(client.store().clone()).start().await?"), "changed");
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let result = runtime.expect("a runtime").block_on(async {
        let client = Client::connect(&url).await.expect("it is up");
        let engine = Engine::builder(client.store().clone()).start().await.expect("it starts");
        let worker = Worker::builder(client.clone()).handler("word", |task: Context| async move {
            Ok::<_, Failed>(task.payload().to_vec())
        });
        let worker = tokio::spawn(worker.run_until(std::future::pending()));
        let id = client.start(Task::new("hello", "word").payload("Hello")).await.expect("taken");
        let ended = client.wait_within(&id, LONG).await.expect("it ends");
        worker.abort();
        engine.shutdown(LONG).await.expect("it stops");
        ended.result
    });
    assert_eq!(result, b"Hello");
    let mut connection = server.connect().expect("it is up");
    let there = connection.call(&["EXISTS", "ff:sec:{fp:7}:waitpoint_hmac"]).expect("it answers");
    assert_eq!(there, Value::Int(1), "the secret is generated and stored");
}

#[test]
fn the_library_is_taken_by_a_server_as_the_readme_pipes_it() {
    let server = Server::valkey().unwrap_or_else(|error| panic!("{error}"));
    let text = Command::new(env!("CARGO_BIN_EXE_command")).arg("library").bounded_output();
    let text = String::from_utf8(text.stdout).expect("plain text");
    let mut connection = server.connect().expect("it is up");
    let reply = connection.call(&["FUNCTION", "LOAD", "REPLACE", &text]).expect("it answers");
    assert_eq!(reply, Value::Bulk(b"flowfabric".to_vec()));
}

impl ConsoleSession {
    /// Remembers what a command printed: the flow, and an execution of it.
    fn note(&mut self, told: &str) {
        if let Some((_, rest)) = told.split_once("flow ")
            && self.flow.is_empty()
        {
            self.flow = rest.split_whitespace().next().unwrap_or_default().to_owned();
        }
        if let Some(at) = told.find("{fp:") {
            let id = told[at..].split_whitespace().next().unwrap_or_default();
            // Braces mean something to a shell.
            self.execution = format!("'{id}'");
        }
    }
}

/// A process in the background, which the end of the test ends.
struct Daemon(Child);

impl Drop for Daemon {
    fn drop(&mut self) {
        // It may be gone already, which is as good.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The blocks of commands.
fn blocks() -> impl Iterator<Item = &'static str> {
    README.split("```console\n").skip(1).filter_map(|rest| rest.split("```").next())
}

fn shell(session: &ConsoleSession, words: &str) -> Command {
    let mut path = vec![session.bin.path().to_path_buf()];
    path.extend(std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()));
    let mut command = Command::new("bash");
    command
        .args(["-c", &format!("exec {words}")])
        .current_dir(root())
        .env("PATH", std::env::join_paths(path).expect("no colon in them"))
        .env("SELVEDGE_URL", &session.store)
        .env("SELVEDGE_LISTEN", &session.listen)
        .stdin(Stdio::null());
    command
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The body of a page, once it is 200.
fn get(address: &str, path: &str) -> Option<String> {
    let mut stream = TcpStream::connect(address).ok()?;
    write!(stream, "GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").ok()?;
    let mut reply = String::new();
    stream.read_to_string(&mut reply).ok()?;
    reply.starts_with("HTTP/1.1 200 ").then_some(reply)
}

fn told(ran: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr))
}

const LONG: Duration = Duration::from_secs(60);

/// How the README runs an example. A nested cargo would contend for the build folder with the one
/// that runs this test, so the examples are programs of this package.
const RUN_EXAMPLE: &str = "cargo run -p selvedge --example ";

/// The executable of an example.
fn example(name: &str) -> &'static str {
    match name {
        "embed_engine" => env!("CARGO_BIN_EXE_embed_engine"),
        "submit_flow" => env!("CARGO_BIN_EXE_submit_flow"),
        "worker_service" => env!("CARGO_BIN_EXE_worker_service"),
        _ => panic!("there is no example {name}"),
    }
}
