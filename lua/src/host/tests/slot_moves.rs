//! A slot that moves key by key: what the node that gives it away answers, and the one that gets
//! it.

use selvedge_core::partition::slot;
use selvedge_core::value::Value;

use super::super::{SlotMove, Snapshot};
use super::{Host, HostConfig, Session, bulk, call, error, load, ok};

const TRY_AGAIN: &str = "TRYAGAIN Multiple keys request during rehashing of slot";
const NON_LOCAL: &str = "ERR Attempted to access a non local key in a cluster node";

/// A node with the keys `{t}:a` and `{t}:b` and a function `f`, before anything moves.
fn node() -> Host {
    let mut host = Host::new(HostConfig { cluster: true, ..HostConfig::default() });
    load(
        &mut host,
        "local reply = redis.pcall(unpack(ARGV)) \
         return type(reply) == 'table' and reply.err or reply",
    );
    call(&mut host, "MSET {t}:a 1 {t}:b 2");
    host
}

fn migrating() -> Host {
    let mut host = node();
    host.set_slot_move(slot(b"{t}"), Some(SlotMove::Migrating { to: "h:2".to_owned() }));
    host
}

fn importing() -> Host {
    let mut host = node();
    host.set_slot_move(slot(b"{t}"), Some(SlotMove::Importing { from: "h:1".to_owned() }));
    host
}

fn redirect(word: &str, to: &str) -> Value {
    error(&format!("{word} {} {to}", slot(b"{t}")))
}

/// Each reply to these lines.
fn replies(host: &mut Host, lines: &[&str]) -> Vec<Value> {
    lines.iter().map(|line| call(host, line)).collect()
}

#[test]
fn a_slot_that_leaves_serves_what_it_has_and_sends_on_what_it_has_not() {
    let mut host = migrating();
    assert_eq!(call(&mut host, "GET {t}:a"), bulk("1"));
    assert_eq!(call(&mut host, "EXISTS {t}:a {t}:b"), Value::Int(2));
    let ask = redirect("ASK", "h:2");
    for line in ["GET {t}:x", "SET {t}:x 1", "MGET {t}:x {t}:y", "FCALL f 1 {t}:x time"] {
        assert_eq!(call(&mut host, line), ask, "{line}");
    }
    for line in ["MGET {t}:a {t}:x", "FCALL f 2 {t}:a {t}:x time", "EVAL x 2 {t}:a {t}:x"] {
        assert_eq!(call(&mut host, line), error(TRY_AGAIN), "{line}");
    }
    // Other slots and commands without keys are none of its business.
    assert_eq!(replies(&mut host, &["SET {u}:x 1", "DBSIZE"]), [ok(), Value::Int(3)]);
    host.set_slot_move(slot(b"{t}"), None);
    assert_eq!(call(&mut host, "GET {t}:x"), Value::Nil);
}

#[test]
fn a_key_that_has_expired_is_missing() {
    let mut host = migrating();
    call(&mut host, "PEXPIRE {t}:a 1");
    host.set_now_us(9_000);
    assert_eq!(call(&mut host, "GET {t}:a"), redirect("ASK", "h:2"));
}

#[test]
fn a_script_fails_where_a_client_would_be_sent_elsewhere() {
    let mut host = migrating();
    let inner = |host: &mut Host, line: &str| call(host, &format!("FCALL f 1 {{t}}:a {line}"));
    assert_eq!(inner(&mut host, "get {t}:b"), bulk("2"));
    for line in ["get {t}:x", "set {t}:x 1", "exists {t}:a {t}:x", "del {t}:x"] {
        assert_eq!(inner(&mut host, line), bulk(NON_LOCAL), "{line}");
    }
    assert_eq!(call(&mut host, "FCALL f 0 get {t}:x"), bulk(NON_LOCAL));
    assert_eq!(host.fcall("f", &["{t}:a"], &["get", "{t}:x"]), bulk(NON_LOCAL));
    assert_eq!(host.fcall("f", &["{t}:x"], &["time"]), redirect("ASK", "h:2"));
    // What the script itself has removed is missing too.
    load(&mut host, "redis.call('del', KEYS[1]) return redis.call('get', KEYS[1])");
    let Value::Error(text) = call(&mut host, "FCALL f 1 {t}:a") else { panic!("no error") };
    assert!(text.starts_with(NON_LOCAL), "{text}");
}

#[test]
fn a_slot_that_arrives_serves_those_who_ask_for_one_key_or_for_what_is_here() {
    let mut host = importing();
    let moved = redirect("MOVED", "h:1");
    for line in ["GET {t}:a", "GET {t}:x", "MGET {t}:a {t}:x", "FCALL f 1 {t}:a time"] {
        assert_eq!(call(&mut host, line), moved, "{line}");
    }
    let asked = |host: &mut Host, line: &str| replies(host, &["ASKING", line]).remove(1);
    assert_eq!(asked(&mut host, "GET {t}:a"), bulk("1"));
    assert_eq!(asked(&mut host, "GET {t}:x"), Value::Nil);
    assert_eq!(asked(&mut host, "EXISTS {t}:x {t}:x"), Value::Int(0));
    for line in ["MGET {t}:a {t}:x", "MGET {t}:x {t}:y", "FCALL f 2 {t}:a {t}:x time"] {
        assert_eq!(asked(&mut host, line), error(TRY_AGAIN), "{line}");
    }
    // A script sees what has not arrived as missing, but for commands with several keys.
    assert_eq!(asked(&mut host, "FCALL f 1 {t}:a get {t}:x"), Value::Nil);
    assert_eq!(asked(&mut host, "FCALL f 1 {t}:a exists {t}:a {t}:x"), bulk(NON_LOCAL));
    assert_eq!(call(&mut host, "FCALL f 0 get {t}:a"), bulk(NON_LOCAL));
}

#[test]
fn asking_lasts_for_one_command_or_one_transaction() {
    let mut host = importing();
    let moved = redirect("MOVED", "h:1");
    for between in ["PING", "NOSUCH", "GET", "GET {t}:a"] {
        assert_eq!(replies(&mut host, &["ASKING", between, "GET {t}:a"])[2], moved, "{between}");
    }
    assert_eq!(replies(&mut host, &["ASKING", "ASKING", "GET {t}:a"])[2], bulk("1"));
    let lines = ["ASKING", "MULTI", "GET {t}:a", "GET {t}:a", "EXEC", "GET {t}:a"];
    let both = Value::Array(vec![bulk("1"), bulk("1")]);
    assert_eq!(replies(&mut host, &lines)[4..], [both, moved.clone()]);
    let lines = ["ASKING", "MULTI", "GET {t}:a", "GET {t}:x", "EXEC"];
    assert_eq!(replies(&mut host, &lines)[4], error(TRY_AGAIN));
    // Too late inside of it.
    assert_eq!(replies(&mut host, &["MULTI", "ASKING", "GET {t}:a"])[2], moved);
    let mut other = Session::new();
    call(&mut host, "DISCARD");
    call(&mut host, "ASKING");
    assert_eq!(host.call_as(&mut other, &["GET", "{t}:a"]), moved);
    let none = Host::new(HostConfig::default()).call(&["ASKING"]);
    assert_eq!(none, error("ERR This instance has cluster support disabled"));
}

#[test]
fn a_transaction_is_judged_by_all_its_keys() {
    let mut host = migrating();
    let exec = |host: &mut Host, lines: [&str; 2]| {
        replies(host, &["MULTI", lines[0], lines[1], "EXEC"]).remove(3)
    };
    assert_eq!(exec(&mut host, ["GET {t}:a", "GET {t}:x"]), error(TRY_AGAIN));
    assert_eq!(exec(&mut host, ["GET {t}:y", "GET {t}:x"]), redirect("ASK", "h:2"));
    let both = Value::Array(vec![bulk("1"), bulk("2")]);
    assert_eq!(exec(&mut host, ["GET {t}:a", "GET {t}:b"]), both);
}

#[test]
fn keys_move_with_their_values_unless_the_other_node_has_them() {
    let mut host = migrating();
    call(&mut host, "PEXPIRE {t}:a 500");
    let before = host.dump();
    let mut other = Snapshot::default();
    let keys = host.snapshot().keys_in_slot(slot(b"{t}"));
    assert_eq!(keys, [b"{t}:a", b"{t}:b"]);
    assert!(host.migrate(&mut other, &keys).is_empty());
    assert_eq!(host.key_count(), 0);
    host.restore(&other);
    assert_eq!(host.dump(), before);
    assert_eq!(host.migrate(&mut other, &keys), keys, "they are on both nodes");
    assert_eq!(host.dump(), before);
}
