//! The README's commands for operators, carried out as they stand there, and its examples.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

use selvedge_tests::patience::Patience;
use selvedge_tests::server::Server;

const README: &str = include_str!("../../README.md");

/// What the README calls these, and what they are here.
struct Scene {
    store: String,
    listen: String,
    flow: String,
    execution: String,
}

#[test]
fn the_commands_for_operators_work_as_written() {
    let server = Server::valkey().unwrap_or_else(|error| panic!("{error}"));
    let listen = TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr());
    let mut scene = Scene {
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
        let words = words.replace("FLOW", &scene.flow).replace("EXECUTION", &scene.execution);
        let words = words.replace(RUN_EXAMPLE, &format!("{}/", examples().display()));
        if let Some(url) = words.strip_prefix("curl http://localhost:9180") {
            let ready = Patience::of(LONG).until(|| get(&scene.listen, url));
            assert!(ready.is_some(), "{line}");
        } else if let Some(words) = words.strip_suffix('&') {
            daemons.push(Daemon(shell(&scene, words).spawn().expect("bash is there")));
        } else if !words.starts_with("export ") {
            let ran = shell(&scene, &words).output().expect("bash is there");
            let told = told(&ran);
            assert!(ran.status.success(), "{line}: {told}");
            scene.note(&told);
        }
        carried_out += 1;
    }
    assert_eq!(carried_out, 9, "a command was added: is it carried out?");
    assert_eq!(daemons.len(), 2);
}

#[test]
fn the_examples_end_well_without_a_server_and_with_one() {
    let server = Server::valkey().unwrap_or_else(|error| panic!("{error}"));
    let store = format!("valkey://127.0.0.1:{}", server.port());
    let run = |name: &str, url: &str| {
        let mut run = Command::new(examples().join(name));
        let ran = run.env("SELVEDGE_URL", url).output().expect("it was built");
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
fn the_library_is_taken_by_a_server_as_the_readme_pipes_it() {
    let server = Server::valkey().unwrap_or_else(|error| panic!("{error}"));
    let text = Command::new(env!("CARGO_BIN_EXE_selvedge")).arg("library").output();
    let text = String::from_utf8(text.expect("the binary is built").stdout).expect("plain text");
    let mut connection = server.connect().expect("it is up");
    let reply = connection.call(&["FUNCTION", "LOAD", "REPLACE", &text]).expect("it answers");
    assert_eq!(reply, selvedge_core::value::Value::Bulk(b"flowfabric".to_vec()));
}

impl Scene {
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

fn shell(scene: &Scene, words: &str) -> Command {
    let bin = Path::new(env!("CARGO_BIN_EXE_selvedge")).parent().expect("it is in a folder");
    let mut path = vec![bin.to_path_buf()];
    path.extend(std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()));
    let mut command = Command::new("bash");
    command
        .args(["-c", &format!("exec {words}")])
        .current_dir(root())
        .env("PATH", std::env::join_paths(path).expect("no colon in them"))
        .env("SELVEDGE_URL", &scene.store)
        .env("SELVEDGE_LISTEN", &scene.listen)
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

/// What the README says. By itself cargo would build half of the workspace once more for it, with the
/// features that one package alone asks for.
const RUN_EXAMPLE: &str = "cargo run --example ";

/// The folder of the examples, built with all else and in the profile of this test.
fn examples() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        let mut build = Command::new("cargo");
        build.args(["build", "--quiet", "--workspace", "--examples"]).current_dir(root());
        build.args(if cfg!(debug_assertions) { &[][..] } else { &["--release"] });
        let built = build.output().expect("cargo is there");
        assert!(built.status.success(), "{}", told(&built));
        Path::new(env!("CARGO_BIN_EXE_selvedge")).with_file_name("examples")
    })
}
