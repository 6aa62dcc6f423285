//! The command line as a newcomer meets it.

use std::process::{Command, Output};

use selvedge_tests::bounded_output::BoundedOutput as _;
use selvedge_tests::cluster::Cluster;
use selvedge_tests::server::Server;

fn selvedge(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_command")).args(arguments).bounded_output()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("plain text")
}

/// Runs the demo, which must end well and soon.
fn demo(arguments: &[&str]) {
    let ran = selvedge(&[&["demo"], arguments].concat());
    let told = text(&ran.stdout);
    assert!(ran.status.success(), "{told}{}", text(&ran.stderr));
    for shown in ["is killed in the middle", "finishes `recover`, attempt 2", "3 cancelled"] {
        assert!(told.contains(shown), "{shown}: {told}");
    }
    let (_, verdict) = told.split_once("All ended as expected, in ").expect("it says so");
    let seconds: f64 = verdict.split(' ').next().and_then(|word| word.parse().ok()).expect("s");
    assert!(seconds < 30.0, "it took {seconds} s");
}

#[test]
fn the_demo_ends_as_expected_without_a_server() {
    demo(&[]);
}

#[test]
fn the_demo_ends_as_expected_on_a_server_and_again() {
    let server = Server::valkey().unwrap_or_else(|error| panic!("{error}"));
    let url = format!("valkey://127.0.0.1:{}", server.port());
    demo(&["--store", &url]);
    demo(&["--store", &url]);
}

#[test]
fn the_demo_ends_as_expected_on_a_cluster_however_it_is_named() {
    let cluster = Cluster::start(3).unwrap_or_else(|error| panic!("{error}"));
    let hosts: Vec<String> =
        cluster.primaries().iter().map(|node| format!("127.0.0.1:{}", node.port())).collect();
    demo(&["--store", &format!("valkey://{}?cluster=true", hosts[0])]);
    demo(&["--store", &format!("valkey://{}", hosts.join(","))]);
}

#[test]
fn the_library_is_printed_as_servers_take_it() {
    let whole = text(&selvedge(&["library"]).stdout);
    assert_eq!(whole, selvedge_lua::library::SOURCE);
    let body = text(&selvedge(&["library", "--no-header"]).stdout);
    assert_eq!(format!("#!lua name=flowfabric\n{body}"), whole);
}

#[test]
fn the_library_is_printed_as_json_for_programs() {
    let told = text(&selvedge(&["library", "--json"]).stdout);
    let told: serde_json::Value = serde_json::from_str(&told).expect("one object");
    assert_eq!(told["source"], selvedge_lua::library::SOURCE);
    assert_eq!(told["revision"], selvedge_lua::library::REVISION);
}

#[test]
fn a_dry_run_of_the_demo_lists_its_flows() {
    let ran = selvedge(&["demo", "--dry-run"]);
    assert!(ran.status.success(), "{}", text(&ran.stderr));
    let told = text(&ran.stdout);
    for shown in ["fan-out", "render-de", "mirror-5", "flaky", "approval", "recover"] {
        assert!(told.contains(shown), "{shown}: {told}");
    }
    assert!(text(&ran.stderr).contains("nothing was submitted"), "{}", text(&ran.stderr));
    let rows = text(&selvedge(&["demo", "--dry-run", "--json"]).stdout);
    assert_eq!(rows.lines().count(), 5, "{rows}");
}

#[test]
fn an_unknown_word_gets_a_suggestion() {
    let ran = selvedge(&["libary"]);
    assert_eq!(ran.status.code(), Some(2));
    assert!(text(&ran.stderr).contains("library"), "{}", text(&ran.stderr));
}
