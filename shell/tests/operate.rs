//! The command line as an operator uses it, on a real server.

use std::io::Write as _;
use std::process::{Command, Output, Stdio};

use selvedge_tests::server::Server;
use serde_json::Value;

/// The command with its store.
struct Operator {
    server: Server,
}

impl Operator {
    fn new() -> Self {
        Self { server: Server::valkey().unwrap_or_else(|error| panic!("{error}")) }
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_selvedge"));
        command
            .args(arguments)
            .env("SELVEDGE_URL", format!("valkey://127.0.0.1:{}", self.server.port()));
        command
    }

    fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().expect("the binary is built")
    }

    /// Runs a command that must succeed, and reads the objects that it prints.
    fn json(&self, arguments: &[&str]) -> Vec<Value> {
        let arguments = [arguments, &["--json"]].concat();
        let ran = self.run(&arguments);
        assert!(ran.status.success(), "{arguments:?}: {}", text(&ran.stderr));
        let lines = text(&ran.stdout);
        lines.lines().map(|line| serde_json::from_str(line).expect("an object per line")).collect()
    }

    /// Submits a flow through the standard input.
    fn submit(&self, flow: &str) -> Output {
        let mut child = self
            .command(&["flow", "submit", "-", "--json"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary is built");
        child.stdin.take().expect("piped").write_all(flow.as_bytes()).expect("it reads its input");
        child.wait_with_output().expect("it ends")
    }

    fn submitted(&self, flow: &str) -> Value {
        let ran = self.submit(flow);
        assert!(ran.status.success(), "{}", text(&ran.stderr));
        serde_json::from_slice(&ran.stdout).expect("an object")
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

const REPORT: &str = r#"
    kind = "report"
    tasks = [
      { name = "fetch", kind = "http.get" },
      { name = "mirror", kind = "http.get" },
      { name = "render", kind = "pdf", after = { any = ["fetch", "mirror"] } },
    ]"#;

#[test]
fn a_flow_is_submitted_shown_listed_and_cancelled() {
    let operator = Operator::new();
    let submitted = operator.submitted(REPORT);
    let flow = submitted["flow_id"].as_str().expect("an id");

    let shown = text(&operator.run(&["flow", "show", flow]).stdout);
    assert!(shown.contains("render  waiting_children  (after any of fetch, mirror)"), "{shown}");
    let mermaid = text(&operator.run(&["flow", "show", flow, "--mermaid"]).stdout);
    assert!(mermaid.starts_with("graph TD") && mermaid.contains("-->|any|"), "{mermaid}");
    assert_eq!(operator.json(&["flow", "list"])[0]["flow"], flow);
    assert_eq!(operator.json(&["lanes"])[0]["ready"], 2);

    let would = &operator.json(&["flow", "cancel", flow, "--dry-run"])[0];
    assert_eq!((&would["open"], &would["of"]), (&Value::from(3), &Value::from(3)));
    let done = &operator.json(&["flow", "cancel", flow])[0];
    assert_eq!(done["cancelled"], 3, "{done}");
    let shown = &operator.json(&["flow", "show", flow])[0];
    for task in shown["tasks"].as_array().expect("a list") {
        assert_eq!(task["state"], "cancelled", "{task}");
    }
}

#[test]
fn an_execution_tells_what_it_waits_for_until_it_is_cancelled_and_replayed() {
    let operator = Operator::new();
    let tasks = &operator.submitted(REPORT)["tasks"];
    let (render, fetch) = (tasks["render"].as_str().unwrap(), tasks["fetch"].as_str().unwrap());

    let why = &operator.json(&["why", render])[0];
    let movers: Vec<&str> =
        why["waits"].as_array().unwrap().iter().filter_map(|wait| wait["mover"].as_str()).collect();
    assert_eq!(movers, ["upstream", "upstream"], "{why}");
    let why = text(&operator.run(&["why", fetch]).stdout);
    assert!(why.contains("waits for any worker of lane default"), "{why}");

    operator.json(&["exec", "cancel", fetch, "--dry-run"]);
    assert_eq!(operator.json(&["exec", "show", fetch])[0]["state"], "waiting");
    operator.json(&["exec", "cancel", fetch, "--reason", "not needed"]);
    let shown = &operator.json(&["exec", "show", fetch])[0];
    assert_eq!((&shown["state"], &shown["reason"]), (&"cancelled".into(), &"not needed".into()));
    operator.json(&["exec", "replay", fetch]);
    assert_eq!(operator.json(&["exec", "show", fetch])[0]["state"], "waiting");

    let ran = operator.run(&["exec", "signal", fetch, "approved"]);
    assert_eq!(ran.status.code(), Some(4), "it is not suspended: {}", text(&ran.stderr));
}

#[test]
fn fsck_finds_what_is_wrong_and_lets_the_engine_mend_it() {
    let operator = Operator::new();
    let tasks = &operator.submitted(REPORT)["tasks"];
    let fetch = tasks["fetch"].as_str().unwrap();
    let sound = operator.json(&["fsck"]);
    assert_eq!(sound.last().unwrap()["violations"], 0, "{sound:?}");

    // An index entry is lost, as an eviction or a hand could lose it.
    let tag = &fetch[..=fetch.find('}').unwrap()];
    let mut connection = operator.server.connect().expect("the server is up");
    let index = format!("ff:idx:{tag}:lane:default:eligible");
    connection.call(&["ZREM", &index, fetch]).expect("it answers");

    let broken = operator.run(&["fsck"]);
    assert_eq!(broken.status.code(), Some(5), "{}", text(&broken.stdout));
    assert!(text(&broken.stdout).contains("OneHome"), "{}", text(&broken.stdout));
    let mended = operator.run(&["fsck", "--repair"]);
    assert!(mended.status.success(), "{}{}", text(&mended.stdout), text(&mended.stderr));
    assert_eq!(operator.json(&["lanes"])[0]["ready"], 2);
}

#[test]
fn one_round_of_all_scanners_names_each_of_them() {
    let operator = Operator::new();
    operator.submitted(REPORT);
    let round = operator.json(&["scan", "--once"]);
    assert_eq!(round.len(), selvedge_core::engine::ScannerName::ALL.len());
    let projector = round.iter().find(|row| row["scanner"] == "flow_projector").unwrap();
    assert_eq!(projector["processed"], 1, "{projector}");
}

#[test]
fn bad_input_is_told_apart_by_exit_codes() {
    let operator = Operator::new();
    let nobody = "{fp:1}:550e8400-e29b-41d4-a716-446655440000";
    let no_flow = "550e8400-e29b-41d4-a716-446655440000";
    for (arguments, code, says) in [
        (&["exec", "show", nobody][..], 3, "there is no execution"),
        (&["why", nobody], 3, "there is no execution"),
        (&["flow", "show", no_flow], 3, "there is no flow"),
        (&["flow", "cancel", no_flow], 3, "there is no flow"),
        (&["why", "nonsense"], 2, "no execution id"),
        (&["flow", "show", "nonsense"], 2, "nonsense"),
        (&["flow", "submit", "/no/such/file"], 2, "/no/such/file"),
        (&["lanes", "--store", "valkey://host:port"], 2, "the store URL is not usable"),
        (&["lanes", "--store", "memory://"], 2, "SELVEDGE_URL"),
        (&["lanes", "--store", "valkey://127.0.0.1:1"], 1, "cannot reach"),
        (&["lanes", "--no-such-flag"], 2, "--no-such-flag"),
    ] {
        let ran = operator.run(arguments);
        let told = text(&ran.stderr);
        assert_eq!(ran.status.code(), Some(code), "{arguments:?}: {told}");
        assert!(told.contains(says), "{arguments:?}: {told}");
    }
    let circle = r#"{"kind":"f","tasks":[{"name":"a","kind":"k","after":["a"]}]}"#;
    let ran = operator.submit(circle);
    assert_eq!(ran.status.code(), Some(2));
    assert!(text(&ran.stderr).contains("wait for each other"), "{}", text(&ran.stderr));
}

#[test]
fn signing_keys_are_rotated_and_never_shown() {
    let operator = Operator::new();
    let secret = "ab".repeat(32);
    let file = std::env::temp_dir().join(format!("selvedge-secret-{}", operator.server.port()));
    std::fs::write(&file, &secret).expect("the temporary folder takes a file");
    let path = file.to_string_lossy();
    let rotated = operator.run(&["secret", "rotate", "--secret-file", &path, "--grace", "1h"]);
    std::fs::remove_file(&file).expect("it is there");
    assert!(rotated.status.success(), "{}", text(&rotated.stderr));
    let told = format!("{}{}", text(&rotated.stdout), text(&rotated.stderr));
    assert!(told.contains("signs on 256 partitions") && !told.contains(&secret[..8]), "{told}");
    let first = operator.json(&["secret", "list"]);
    assert_eq!(first.len(), 256);
    operator.json(&["secret", "rotate"]);
    assert_ne!(operator.json(&["secret", "list"]), first, "another key signs now");

    let shown =
        operator.command(&["config", "show"]).env("SELVEDGE_WAITPOINT_SECRET", &secret).output();
    let shown = text(&shown.expect("the binary is built").stdout);
    assert!(shown.contains("given") && !shown.contains(&secret[..8]), "{shown}");
    assert!(shown.contains("lease_expiry every"), "{shown}");
}

#[test]
fn shells_get_their_completions() {
    let operator = Operator::new();
    for shell in ["bash", "zsh", "fish"] {
        let script = text(&operator.run(&["completions", shell]).stdout);
        assert!(script.contains("fsck") && script.contains("flow"), "{shell}: {script}");
    }
}
