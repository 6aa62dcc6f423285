//! What cannot be meant, and stores that cannot be used: clear words, and exit codes to sort by.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;

use crate::kit::{Operator, text};

#[test]
fn bad_input_is_told_apart_by_exit_codes() {
    let operator = Operator::new();
    let long = "x".repeat(257);
    let nobody = "{fp:1}:550e8400-e29b-41d4-a716-446655440000";
    let no_flow = "550e8400-e29b-41d4-a716-446655440000";
    for (arguments, code, says) in [
        (&["exec", "show", nobody][..], 3, "there is no execution"),
        (&["why", nobody], 3, "there is no execution"),
        (&["flow", "show", no_flow], 3, "there is no flow"),
        (&["flow", "cancel", no_flow], 3, "there is no flow"),
        (&["why", "nonsense"], 2, "and not one of a flow"),
        (&["why", no_flow], 3, "there is no flow"),
        (&["why"], 2, "--all"),
        (&["why", nobody, "--all"], 2, "cannot be used with"),
        (&["exec", "show", no_flow], 2, "`selvedge flow show` lists the executions of a flow"),
        (&["flow", "show", "nonsense"], 2, "nonsense"),
        (&["flow", "submit", "/no/such/file"], 2, "/no/such/file"),
        (&["lanes", "--store", "valkey://host:port"], 2, "invalid store URL"),
        (&["lanes", "--store", "memory://"], 2, "SELVEDGE_URL"),
        (&["lanes", "--store", "valkey://127.0.0.1:1"], 1, "cannot reach"),
        (&["lanes", "--no-such-flag"], 2, "--no-such-flag"),
        (&["flow", "list", "--limit", "0"], 2, "0 is not in 1..="),
        (&["flow", "submit", "/dev/zero"], 2, "more than 67108864 bytes"),
        (&["secret", "rotate", "--secret-file", "/dev/zero"], 2, "more than 65536 bytes"),
        (&["exec", "show", "{fp:70000}:550e8400-e29b-41d4-a716-446655440000"], 2, "partition"),
        (&["secret", "rotate", "--grace", "5"], 2, "time unit needed"),
        (&["serve", "--listen", "nowhere"], 2, "nowhere"),
        (&["serve", "--store", "memory://"], 2, "name one with --store"),
        (&["lanes", "--namespace", ""], 2, "the namespace cannot be used: it is empty"),
        (&["lanes", "--namespace", &long], 2, "the limit is 256"),
        (&["demo", "--namespace", ""], 2, "the namespace cannot be used: it is empty"),
        (&["flow", "submit", "-", "--wait", "--timeout", "0s"], 2, "it is zero"),
        (&["completions", "bash", "--json"], 2, "--json does not apply"),
    ] {
        operator.fails(&mut operator.command(arguments), code, &[says]);
    }
    let mut lanes = operator.command(&["lanes"]);
    operator.fails(lanes.env("FF_LANES", "mail,mail"), 2, &["FF_LANES", "named twice"]);
    let mut why = operator.command(&["why", nobody]);
    let typo = "SELVEDGE_LSITEN is not a setting; did you mean SELVEDGE_LISTEN?";
    operator.fails(why.env("SELVEDGE_LSITEN", "127.0.0.1:1"), 3, &[typo]);
    assert!(operator.json(&["flow", "list"]).is_empty(), "nothing was half done");
}

#[test]
fn a_wait_that_times_out_says_that_the_flow_goes_on() {
    let operator = Operator::new();
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../shell/examples/greeting.toml");
    let arguments = ["flow", "submit", file, "--wait", "--timeout", "50ms"];
    let told = ["timed out after 50ms", "the flow goes on; `selvedge flow show"];
    operator.fails(&mut operator.command(&arguments), 1, &told);
}

#[test]
fn no_store_at_all_is_told_apart_from_a_store_in_memory() {
    let operator = Operator::new();
    let mut lanes = operator.command(&["lanes"]);
    operator.fails(lanes.env_remove("SELVEDGE_URL"), 2, &["no store is named"]);
    let mut lanes = operator.command(&["lanes"]);
    operator.fails(lanes.env("SELVEDGE_URL", "memory://"), 2, &["inside one process"]);
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
        (two(a_after_b, b_after_a), "wait for each other, or for those that do: a, b"),
        (one(r#","after":["a"]"#), "wait for each other"),
        (two(b_alone, b_alone), "two tasks are named `b`"),
        (one(r#","after":["c"]"#), "`c`, which is not a task"),
        (one(r#","colour":"red""#), "unknown field `colour`"),
        (one(r#","delay":"5""#), "invalid duration"),
        (one(r#","delay":5"#), "expected a duration with its unit, such as"),
        (one(r#","delay":"10s","deadline":"5s""#), "deadline of task `a` is over before its delay"),
        (one(r#","delay":"99999y""#), "the limit is 1000 years"),
        (one(r#","priority":9001"#), "highest is 9000"),
        (one(r#","deadline":"0s""#), "deadline of task `a` is zero"),
        (one(r#","attempt_timeout":"0ms""#), "attempt timeout of task `a` is zero"),
        (one(r#","after":{"any":[]}"#), "joins an empty list"),
        (r#"{"kind":"","tasks":[{"name":"a","kind":"k"}]}"#.to_owned(), "the kind of a flow"),
        (
            r#"{"kind":"f","idempotency_key":"","tasks":[{"name":"a","kind":"k"}]}"#.to_owned(),
            "the idempotency key `` cannot be used: it is empty",
        ),
        (two("3", b_alone), "a task: an object with name and kind"),
        (one(r#","lane":"a\nb""#), "printable ASCII"),
        (one(&format!(r#","payload":"{}""#, "x".repeat(17 << 20))), "the limit is 16777216"),
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
fn a_file_may_begin_with_a_byte_order_mark() {
    let operator = Operator::new();
    operator.submitted("\u{feff}{\"kind\":\"f\",\"tasks\":[{\"name\":\"a\",\"kind\":\"k\"}]}");
    operator.submitted("\u{feff}kind = \"f\"\ntasks = [{ name = \"a\", kind = \"k\" }]");
    let ran = operator.submit("kind = 3");
    let told: serde_json::Value = serde_json::from_slice(&ran.stderr).expect("an object");
    let error = told["error"].as_str().expect("a text");
    assert_eq!(error, error.trim_end(), "no empty line follows");
}

#[test]
fn missing_certificates_are_a_configuration_error() {
    let operator = Operator::new();
    for arguments in [&["lanes"][..], &["serve", "--listen", "127.0.0.1:0"], &["demo"]] {
        let mut command = operator.command(arguments);
        command.args(["--store", "valkeys://127.0.0.1:1"]);
        command.env("SELVEDGE_TLS_CA_FILE", "/no/such/ca.pem");
        operator.fails(&mut command, 2, &["/no/such/ca.pem"]);
    }
}

#[test]
fn an_unreachable_server_is_reported_once() {
    let operator = Operator::new();
    let mut lanes = operator.command(&["lanes", "--store", "valkey://127.0.0.1:1"]);
    let told = operator.fails(&mut lanes, 1, &["cannot reach 127.0.0.1:1"]);
    assert_eq!(told.matches("127.0.0.1:1").count(), 1, "{told}");
}

#[test]
fn a_web_server_is_not_mistaken_for_a_store() {
    let operator = Operator::new();
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = listener.local_addr().expect("it is bound").port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.expect("somebody came");
            let _ = stream.read(&mut [0; 1_024]);
            let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n");
        }
    });
    let url = format!("valkey://127.0.0.1:{port}");
    for arguments in [&["lanes"][..], &["secret", "rotate"]] {
        let mut command = operator.command(arguments);
        let told = operator.fails(
            command.args(["--store", &url]),
            2,
            &["not a Valkey or Redis server", "is the port in the URL right?"],
        );
        assert!(!told.contains("does not answer"), "{told}");
    }
}
