//! Which settings are in force, and what is only looked at.

use std::time::Duration;

use selvedge_tests::bounded_output::BoundedOutput as _;
use selvedge_tests::wait::Wait;
use serde_json::Value;

use crate::kit::{Operator, REPORT, text};

/// The row of a setting, as an object.
fn setting(operator: &Operator, name: &str, environment: &[(&str, &str)], more: &[&str]) -> Value {
    let mut show = operator.command(&["config", "show", "--json"]);
    show.args(more).envs(environment.iter().copied());
    let ran = show.bounded_output();
    assert!(ran.status.success(), "{}", text(&ran.stderr));
    let rows = text(&ran.stdout);
    let rows = rows.lines().map(|line| serde_json::from_str::<Value>(line).expect("an object"));
    rows.into_iter().find(|row| row["setting"] == name).unwrap_or_else(|| panic!("no {name}"))
}

#[test]
fn config_shows_values_and_their_sources() {
    let operator = Operator::new();
    let elsewhere = operator.url("reader:s3cret@");
    let beside = [("SELVEDGE_USER", "writer"), ("SELVEDGE_PASSWORD", "s3cret")];
    let tls = [("SELVEDGE_TLS_CA_FILE", "ca.pem"), ("SELVEDGE_NAMESPACE", "tests")];
    for (name, environment, more, value, origin) in [
        ("store", &[][..], &[][..], operator.url("").as_str(), "environment"),
        ("store", &[], &["--store", "memory://"], "memory://", "flag"),
        ("user", &[], &[], "none", "default"),
        ("user", &beside, &[], "writer", "environment"),
        ("user", &beside, &["--store", &elsewhere], "reader", "URL"),
        ("password", &[], &[], "none", "default"),
        ("password", &beside, &[], "given", "environment"),
        ("password", &[], &["--store", &elsewhere], "given", "URL"),
        ("TLS", &[], &[], "off", "environment"),
        ("TLS", &tls, &["--store", "valkeys://127.0.0.1:1"], "on", "flag"),
        ("TLS authorities", &tls, &[], "ca.pem", "environment"),
        ("TLS certificate", &tls, &[], "none", "default"),
        ("namespace", &[], &[], "default", "default"),
        ("namespace", &tls, &[], "tests", "environment"),
        ("namespace", &tls, &["--namespace", "mine"], "mine", "flag"),
    ] {
        let row = setting(&operator, name, environment, more);
        assert_eq!((&row["value"], &row["origin"]), (&value.into(), &origin.into()), "{row}");
        assert!(!row.to_string().contains("s3cret"), "{row}");
    }
}

#[test]
fn a_mismatch_of_partition_counts_shows_both() {
    let operator = Operator::new();
    let other = [("FF_FLOW_PARTITIONS", "16")];
    assert_eq!(setting(&operator, "flow partitions", &other, &[])["stored"], Value::Null);
    operator.submitted(REPORT);
    let row = setting(&operator, "flow partitions", &other, &[]);
    assert_eq!((&row["value"], &row["stored"]), (&"16".into(), &"256".into()), "{row}");
    for arguments in [&["lanes"][..], &["flow", "list"], &["fsck"], &["scan", "--once"], &["demo"]]
    {
        let mut command = operator.command(arguments);
        operator.fails(command.envs(other), 4, &["256 flow", "16 flow", "FF_FLOW_PARTITIONS"]);
    }
    let mut same = operator.command(&["lanes"]);
    assert!(same.env("FF_FLOW_PARTITIONS", "256").bounded_output().status.success());
}

#[test]
fn a_dry_run_of_scan_needs_no_write_permission() {
    let operator = Operator::new();
    operator.submitted(REPORT);
    operator.call(&["ACL", "SETUSER", "looker", "on", "nopass", "~*", "+@read", "+time", "+info"]);
    let told = operator.json(&["scan", "--once", "--dry-run", "--store", &operator.url("looker@")]);
    let of = |scanner: &str| -> Vec<&Value> {
        told.iter().filter(|row| row["scanner"] == scanner).collect()
    };
    let [projector] = of("flow_projector")[..] else { panic!("{told:?}") };
    assert_eq!((&projector["to_visit"], &projector["due"]), (&1.into(), &0.into()));
    assert!(projector["partition"].as_str().is_some_and(|tag| tag.starts_with("{fp:")));
    assert_eq!(of("index_reconciler")[0]["to_visit"], 3, "{told:?}");
    assert!(of("delayed_promoter").is_empty(), "{told:?}");
    // What waits for its time is due when that has come.
    let late = r#"{"kind":"f","tasks":[{"name":"a","kind":"k","delay":"2s"}]}"#;
    operator.submitted(late);
    let due = Wait::at_most(Duration::from_secs(30)).until(|| {
        let told = operator.json(&["scan", "--once", "--dry-run"]);
        let promoter = told.into_iter().find(|row| row["scanner"] == "delayed_promoter");
        promoter.map(|row| row["due"].clone())
    });
    assert_eq!(due, Some(1.into()));
}

#[cfg(unix)]
#[test]
fn a_setting_that_is_not_utf8_is_refused() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;

    let operator = Operator::new();
    for name in ["SELVEDGE_URL", "SELVEDGE_PASSWORD", "FF_FLOW_PARTITIONS"] {
        let odd = OsStr::from_bytes(b"1\xff");
        let ran = operator.command(&["config", "show"]).env(name, odd).bounded_output();
        let told = text(&ran.stderr);
        assert_eq!(ran.status.code(), Some(2), "{told}");
        assert!(told.contains(&format!("{name} is not UTF-8 text")), "{told}");
    }
}

#[test]
fn a_flag_overrides_the_environment() {
    let row = setting(
        &Operator::new(),
        "store",
        &[("SELVEDGE_URL", "http://bad")],
        &["--store", "memory://"],
    );
    assert_eq!(row["value"], "memory://", "{row}");
}
