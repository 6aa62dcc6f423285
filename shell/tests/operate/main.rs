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
        self.submit_bytes(flow.as_bytes())
    }

    fn submit_bytes(&self, flow: &[u8]) -> Output {
        let mut child = self
            .command(&["flow", "submit", "-", "--json"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary is built");
        child.stdin.take().expect("piped").write_all(flow).expect("it reads its input");
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
fn a_ticket_signals_its_own_execution_only_and_its_token_is_never_shown() {
    let operator = Operator::new();
    let tasks = &operator.submitted(REPORT)["tasks"];
    let (render, fetch) = (tasks["render"].as_str().unwrap(), tasks["fetch"].as_str().unwrap());
    let token = format!("k1:{}", "ab".repeat(20));
    let ticket = format!("{render}/11111111-1111-4111-8111-111111111111/{token}");
    let ran = operator.run(&["exec", "signal", fetch, "approved", "--ticket", &ticket]);
    assert_eq!(ran.status.code(), Some(2));
    let told = text(&ran.stderr);
    assert!(told.contains(&format!("is for {render}, not for {fetch}")), "{told}");
    let ran = operator.run(&["exec", "show", &ticket]);
    assert_eq!(ran.status.code(), Some(2));
    assert!(!text(&ran.stderr).contains(&token), "{}", text(&ran.stderr));
}

#[test]
fn whoever_only_looks_loads_no_library() {
    let operator = Operator::new();
    let mut server = operator.server.connect().expect("it is up");
    let flow = "00000000-0000-4000-8000-000000000000";
    for look in [
        &["flow", "list"][..],
        &["lanes"],
        &["workers"],
        &["fsck"],
        &["secret", "list"],
        &["secret", "rotate", "--dry-run"],
        &["flow", "show", flow],
        &["flow", "cancel", flow, "--dry-run"],
    ] {
        operator.run(look);
        let libraries = server.call(&["FUNCTION", "LIST"]).expect("it answers");
        assert_eq!(libraries, selvedge_core::value::Value::Array(Vec::new()), "{look:?}");
    }
    operator.submitted(REPORT);
    assert_eq!(operator.json(&["flow", "list"]).len(), 1);
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
        (&["flow", "list", "--limit", "0"], 2, "0 is not in 1..="),
        (&["flow", "submit", "/dev/zero"], 2, "more than 67108864 bytes"),
        (&["secret", "rotate", "--secret-file", "/dev/zero"], 2, "more than 65536 bytes"),
        (&["exec", "show", "{fp:70000}:550e8400-e29b-41d4-a716-446655440000"], 2, "partition"),
        (&["secret", "rotate", "--grace", "5"], 2, "time unit needed"),
        (&["serve", "--listen", "nowhere"], 2, "nowhere"),
    ] {
        let ran = operator.run(arguments);
        let told = text(&ran.stderr);
        assert_eq!(ran.status.code(), Some(code), "{arguments:?}: {told}");
        assert!(told.contains(says), "{arguments:?}: {told}");
    }
    assert!(operator.json(&["flow", "list"]).is_empty(), "nothing was half done");
}

#[test]
fn a_bad_flow_is_refused_before_anything_is_sent() {
    let operator = Operator::new();
    let two = |first: &str, second: &str| format!(r#"{{"kind":"f","tasks":[{first},{second}]}}"#);
    let one = |more: &str| format!(r#"{{"kind":"f","tasks":[{{"name":"a","kind":"k"{more}}}]}}"#);
    let a_after_b = r#"{"name":"a","kind":"k","after":["b"]}"#;
    let b_after_a = r#"{"name":"b","kind":"k","after":["a"]}"#;
    let b_alone = r#"{"name":"b","kind":"k"}"#;
    for (flow, says) in [
        (two(a_after_b, b_after_a), "wait for each other, or for such: a, b"),
        (one(r#","after":["a"]"#), "wait for each other"),
        (two(b_alone, b_alone), "two tasks are named `b`"),
        (one(r#","after":["c"]"#), "`c`, which is no task"),
        (one(r#","colour":"red""#), "unknown field `colour`"),
        (one(r#","delay":"5""#), "is no duration"),
        (one(r#","delay":"99999y""#), "at most 1000 years"),
        (one(r#","priority":9001"#), "highest is 9000"),
        (one(r#","lane":"a\nb""#), "printable ASCII"),
        (one(&format!(r#","payload":"{}""#, "x".repeat(17 << 20))), "at most 16777216"),
        (r#"{"kind":"f","tasks":[]}"#.to_owned(), "at least one task"),
        (String::new(), "missing field `kind`"),
        ("[".repeat(100_000), "standard input:"),
    ] {
        let ran = operator.submit(&flow);
        let told = text(&ran.stderr);
        assert_eq!(ran.status.code(), Some(2), "{says}: {told}");
        assert!(told.contains(says), "{says}: {told}");
    }
    let ran = operator.submit_bytes(b"kind = \"\xff\xfe\"");
    assert_eq!(ran.status.code(), Some(2));
    assert!(text(&ran.stderr).contains("UTF-8"), "{}", text(&ran.stderr));
    assert!(operator.json(&["flow", "list"]).is_empty(), "nothing was half done");
}

#[test]
fn a_reader_that_goes_away_is_no_error_and_a_full_disk_is() {
    let operator = Operator::new();
    operator.submitted(REPORT);
    for arguments in [&["library"][..], &["config", "show"], &["lanes"], &["completions", "bash"]] {
        let mut child = operator
            .command(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary is built");
        drop(child.stdout.take());
        let ended = child.wait_with_output().expect("it ends");
        assert_eq!(ended.status.code(), Some(0), "{arguments:?}: {}", text(&ended.stderr));
        assert!(ended.stderr.is_empty(), "{arguments:?}: {}", text(&ended.stderr));

        let full = std::fs::File::options().write(true).open("/dev/full").expect("it is there");
        let ended = operator.command(arguments).stdout(full).output().expect("it ends");
        assert_eq!(ended.status.code(), Some(1), "{arguments:?}");
        assert!(text(&ended.stderr).contains("No space left"), "{}", text(&ended.stderr));
    }
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
