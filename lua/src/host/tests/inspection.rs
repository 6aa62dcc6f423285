//! What a host tells about its calls: inner commands, snapshots, sessions, messages.

use super::*;

#[test]
fn an_inner_command_fails_when_told_to() {
    let mut host = host();
    load(&mut host, "redis.call('set', 'a', '1') redis.call('set', 'b', '2') return 1");
    host.fail_at(2, "OOM pretended");
    assert_eq!(call(&mut host, "FCALL f 0"), error("OOM pretended script: on @user_function:2."));
    assert_eq!(host.last_inner_commands(), 2);
    assert_eq!(host.last_writes(), [words("set a 1")]);
    assert_eq!(call(&mut host, "GET b"), Value::Nil);
    assert_eq!(call(&mut host, "FCALL f 0"), Value::Int(1));
    assert_eq!(host.last_writes(), [words("set a 1"), words("set b 2")]);
    host.fail_at(3, "OOM pretended");
    assert_eq!(call(&mut host, "FCALL f 0"), Value::Int(1));
    assert!(host.clear_failure());
    assert!(!host.clear_failure());
}

#[test]
fn inner_commands_are_told_when_asked_for() {
    let mut host = host();
    load(&mut host, "redis.call('set', 'a', '1') redis.call('get', 'a') redis.pcall('incr')");
    call(&mut host, "FCALL f 0");
    assert_eq!(host.last_inner_log(), []);
    host.log_inner_commands(true);
    call(&mut host, "FCALL f 0");
    let refusal = "ERR Wrong number of args calling command from script";
    let told = [
        ("set a 1", Outcome::Wrote),
        ("get a", Outcome::Read),
        ("incr", Outcome::Failed(refusal.to_owned())),
    ]
    .map(|(line, outcome)| InnerCommand { argv: words(line), outcome });
    assert_eq!(host.last_inner_log(), told);
    call(&mut host, "GET a");
    assert_eq!(host.last_inner_log(), []);
}

#[test]
fn a_snapshot_brings_everything_back() {
    let mut host = host();
    load(&mut host, "return redis.call('incr', 'n')");
    call(&mut host, "FCALL f 0");
    let (snapshot, digest, dump) = (host.snapshot(), host.digest(), host.dump());
    call(&mut host, "FCALL f 0");
    call(&mut host, "FUNCTION FLUSH");
    assert_ne!(host.digest(), digest);
    assert_ne!(host.dump(), dump);
    host.restore(&snapshot);
    assert_eq!(host.digest(), digest);
    assert_eq!(call(&mut host, "FCALL f 0"), Value::Int(2));
}

#[test]
fn a_transaction_runs_whole_or_not_at_all() {
    let mut host = host();
    let queued = Value::Status("QUEUED".to_owned());
    assert_eq!(call(&mut host, "MULTI"), ok());
    assert_eq!(call(&mut host, "SET k v"), queued);
    assert!(matches!(call(&mut host, "GET"), Value::Error(_)));
    assert_eq!(
        call(&mut host, "EXEC"),
        error("EXECABORT Transaction discarded because of previous errors.")
    );
    assert_eq!(call(&mut host, "GET k"), Value::Nil);
    for line in ["MULTI", "SET k v", "INCR k", "SET l w"] {
        call(&mut host, line);
    }
    let refusal = error("ERR value is not an integer or out of range");
    assert_eq!(call(&mut host, "EXEC"), Value::Array(vec![ok(), refusal, ok()]));
    assert_eq!(host.last_writes(), [words("SET k v"), words("SET l w")]);
    assert_eq!(call(&mut host, "EXEC"), error("ERR EXEC without MULTI"));
    assert_eq!(call(&mut host, "DISCARD"), error("ERR DISCARD without MULTI"));
}

#[test]
fn sessions_do_not_see_each_others_transactions() {
    let mut host = host();
    let (mut one, mut other) = (Session::new(), Session::new());
    host.call_as(&mut one, &["MULTI"]);
    assert_eq!(host.call_as(&mut other, &["SET", "k", "1"]), ok());
    host.call_as(&mut one, &["INCR", "k"]);
    assert!(one.in_transaction() && !other.in_transaction());
    assert_eq!(host.call_as(&mut other, &["GET", "k"]), bulk("1"));
    assert_eq!(host.call_as(&mut one, &["EXEC"]), Value::Array(vec![Value::Int(2)]));
}

#[test]
fn published_messages_are_kept_until_taken() {
    let mut host = host();
    load(&mut host, "return redis.call('publish', 'c', 'm')");
    assert_eq!(call(&mut host, "FCALL f 0"), Value::Int(0));
    let message = Message { channel: b"c".to_vec(), payload: b"m".to_vec() };
    assert_eq!(host.take_published(), [message]);
    assert!(host.take_published().is_empty());
}
