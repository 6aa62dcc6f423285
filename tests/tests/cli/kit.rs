//! The command line with a server of its own.

use std::io::Write as _;
use std::process::{Command, Output, Stdio};

use selvedge_tests::bounded_output::BoundedOutput as _;
use selvedge_tests::server::Server;
use serde_json::Value;

/// The command with its store.
pub(crate) struct Operator {
    pub(crate) server: Server,
}

impl Operator {
    pub(crate) fn new() -> Self {
        Self { server: Server::valkey().unwrap_or_else(|error| panic!("{error}")) }
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_command"));
        command.args(arguments).env("SELVEDGE_URL", self.url(""));
        command
    }

    /// The server's URL, for a user of it.
    pub(crate) fn url(&self, user: &str) -> String {
        format!("valkey://{user}127.0.0.1:{}", self.server.port())
    }

    /// Runs a command that must fail, with this code and these words.
    pub(crate) fn fails(&self, command: &mut Command, code: i32, says: &[&str]) -> String {
        let ran = command.bounded_output();
        let told = text(&ran.stderr);
        assert_eq!(ran.status.code(), Some(code), "{command:?}: {told}");
        for words in says {
            assert!(told.contains(words), "{command:?} / {words}: {told}");
        }
        told
    }

    /// Says something to the server itself.
    pub(crate) fn call(&self, words: &[&str]) -> selvedge_core::value::Value {
        self.server.connect().expect("it is up").call(words).expect("it answers")
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).bounded_output()
    }

    /// Runs a command that must succeed, and reads the objects that it prints.
    pub(crate) fn json(&self, arguments: &[&str]) -> Vec<Value> {
        let arguments = [arguments, &["--json"]].concat();
        let ran = self.run(&arguments);
        assert!(ran.status.success(), "{arguments:?}: {}", text(&ran.stderr));
        let lines = text(&ran.stdout);
        lines.lines().map(|line| serde_json::from_str(line).expect("an object per line")).collect()
    }

    /// Submits a flow through the standard input.
    pub(crate) fn submit(&self, flow: &str) -> Output {
        self.submit_bytes(flow.as_bytes())
    }

    pub(crate) fn submit_bytes(&self, flow: &[u8]) -> Output {
        fed(&mut self.command(&["flow", "submit", "-", "--json"]), flow)
    }

    pub(crate) fn submitted(&self, flow: &str) -> Value {
        let ran = self.submit(flow);
        assert!(ran.status.success(), "{}", text(&ran.stderr));
        serde_json::from_slice(&ran.stdout).expect("an object")
    }
}

/// Runs a command with this input.
pub(crate) fn fed(command: &mut Command, input: &[u8]) -> Output {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary is built");
    child.stdin.take().expect("piped").write_all(input).expect("it reads its input");
    child.bounded_output()
}

/// The same for a command that must succeed: what it prints.
pub(crate) fn with_input(command: &mut Command, input: &str) -> String {
    let ran = fed(command, input.as_bytes());
    assert!(ran.status.success(), "{command:?}: {}{}", text(&ran.stdout), text(&ran.stderr));
    text(&ran.stdout)
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Two tasks of which one suffices for a third.
pub(crate) const REPORT: &str = r#"
    kind = "report"
    tasks = [
      { name = "fetch", kind = "http.get" },
      { name = "mirror", kind = "http.get" },
      { name = "render", kind = "pdf", after = { any = ["fetch", "mirror"] } },
    ]"#;
