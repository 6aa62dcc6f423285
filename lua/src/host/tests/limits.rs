//! What a host refuses, stops or cuts off.

use super::*;

#[test]
fn a_loop_is_stopped_and_the_host_goes_on() {
    let config = HostConfig { instruction_budget: 200_000, ..HostConfig::default() };
    let mut host = Host::new(config);
    let bodies = [
        "redis.call('set', 'k', 'v') while true do end",
        "redis.call('set', 'k', 'v') while true do pcall(function() while true do end end) end",
        "redis.call('set', 'k', 'v') \
         while true do coroutine.wrap(function() while true do end end)() end",
    ];
    for body in bodies {
        call(&mut host, "DEL k");
        load(&mut host, body);
        let Value::Error(text) = call(&mut host, "FCALL f 0") else { panic!("{body}") };
        assert!(text.starts_with("ERR ") && text.contains("instruction budget"), "{text}");
        assert_eq!(call(&mut host, "GET k"), bulk("v"));
        load(&mut host, "local n = 0 for i = 1, 1000 do n = n + i end return n");
        assert_eq!(call(&mut host, "FCALL f 0"), Value::Int(500_500));
    }
}

#[test]
fn a_runaway_string_ends_in_an_error() {
    let config = HostConfig { lua_memory_max: 16 << 20, ..HostConfig::default() };
    let mut host = Host::new(config);
    load(&mut host, "local s = 'x' while true do s = s .. s end");
    let Value::Error(text) = call(&mut host, "FCALL f 0") else { panic!("no error") };
    assert!(text.contains("not enough memory"), "{text}");
    load(&mut host, "return 1");
    assert_eq!(call(&mut host, "FCALL f 0"), Value::Int(1));
}

#[test]
fn a_value_of_64_mib_comes_back_whole() {
    let mut host = host();
    load(&mut host, "redis.call('set', KEYS[1], ARGV[1]) return redis.call('get', KEYS[1])");
    let value = vec![b'v'; 64 << 20];
    let reply = host.fcall("f", &["big"], &[&value]);
    assert!(reply == Value::Bulk(value.clone()));
    assert!(host.call(&["GET", "big"]) == Value::Bulk(value));
    let config = HostConfig { value_bytes_max: 10, ..HostConfig::default() };
    let refusal = Host::new(config).call(&["SET", "k", "longer than ten"]);
    assert_eq!(refusal, error("ERR Protocol error: invalid bulk length"));
}

#[test]
fn keys_are_bytes() {
    let mut host = host();
    load(
        &mut host,
        "redis.call('set', KEYS[1], ARGV[1]) return KEYS[1] .. redis.call('get', KEYS[1])",
    );
    let reply = host.fcall("f", &[b"k\xff\x00"], &[b"\xfe"]);
    assert_eq!(reply, Value::Bulk(b"k\xff\x00\xfe".to_vec()));
}

#[test]
fn strange_commands_are_refused_by_name() {
    let mut host = host();
    let none: [&str; 0] = [];
    assert!(matches!(host.call(&none), Value::Error(_)));
    assert_eq!(
        call(&mut host, "nope a b"),
        error("ERR unknown command 'nope', with args beginning with: 'a' 'b' ")
    );
    assert_eq!(call(&mut host, "GET"), error("ERR wrong number of arguments for 'get' command"));
    assert_eq!(
        call(&mut host, "FCALL"),
        error("ERR wrong number of arguments for 'fcall' command")
    );
    assert_eq!(call(&mut host, "FCALL f 0"), error("ERR Function not found"));
    load(&mut host, "return redis.call(unpack(ARGV))");
    let inner = |host: &mut Host, line: &str| call(host, &format!("FCALL f 0 {line}"));
    let place = "script: on @user_function:2.";
    assert_eq!(
        inner(&mut host, "nope"),
        error(&format!("ERR Unknown command called from script {place}"))
    );
    assert_eq!(
        inner(&mut host, "get"),
        error(&format!("ERR Wrong number of args calling command from script {place}"))
    );
    assert_eq!(
        inner(&mut host, "multi"),
        error(&format!("ERR This Valkey command is not allowed from script {place}"))
    );
    assert_eq!(call(&mut host, "FCALL f x"), error("ERR Bad number of keys provided"));
    assert_eq!(call(&mut host, "FCALL f -1"), error("ERR Number of keys can't be negative"));
    assert_eq!(
        call(&mut host, "FCALL f 1"),
        error("ERR Number of keys can't be greater than number of args")
    );
}

#[test]
fn what_only_reads_cannot_write() {
    let mut host = host();
    load_with(&mut host, "return redis.call(unpack(ARGV))", "'no-writes'");
    let refusal = error(
        "ERR Write commands are not allowed from read-only scripts. script: on @user_function:2.",
    );
    assert_eq!(call(&mut host, "FCALL f 0 set k v"), refusal);
    assert_eq!(call(&mut host, "FCALL_RO f 0 set k v"), refusal);
    assert_eq!(call(&mut host, "FCALL_RO f 0 publish k v"), refusal);
    assert_eq!(call(&mut host, "FCALL_RO f 0 get k"), Value::Nil);
    load(&mut host, "return 1");
    assert_eq!(
        call(&mut host, "FCALL_RO f 0"),
        error("ERR Can not execute a script with write flag using *_ro command.")
    );
}

#[test]
fn refused_writes_are_refused_before_the_first() {
    let mut host = host();
    load(&mut host, "return 1");
    host.refuse_writes(Some("READONLY no".to_owned()));
    assert_eq!(call(&mut host, "SET k v"), error("READONLY no"));
    assert_eq!(call(&mut host, "FCALL f 0"), error("READONLY no"));
    assert_eq!(call(&mut host, "GET k"), Value::Nil);
    assert_eq!(
        host.call(&["EVAL", "return redis.call('set', 'k', 'v')", "0"]),
        error("READONLY no script: on @user_script:1.")
    );
    load_with(&mut host, "return redis.call('get', 'k')", "'no-writes'");
    assert_eq!(call(&mut host, "FCALL f 0"), Value::Nil);
    host.refuse_writes(None);
    assert_eq!(call(&mut host, "SET k v"), ok());
}

#[test]
fn a_cluster_refuses_keys_of_several_slots() {
    let mut host = Host::new(HostConfig { cluster: true, ..HostConfig::default() });
    let cross = error("CROSSSLOT Keys in request don't hash to the same slot");
    assert_eq!(call(&mut host, "MGET a b"), cross);
    assert_eq!(call(&mut host, "MSET {t}a 1 {t}b 2"), ok());
    load(&mut host, "return redis.call(unpack(ARGV))");
    assert_eq!(call(&mut host, "FCALL f 2 a b time"), cross);
    let place = "script: on @user_function:2.";
    assert_eq!(
        call(&mut host, "FCALL f 1 a get b"),
        error(&format!(
            "ERR Script attempted to access keys that do not hash to the same slot {place}"
        ))
    );
    assert_eq!(
        call(&mut host, "FCALL f 1 a mget a b"),
        error(&format!("ERR Attempted to access a non local key in a cluster node {place}"))
    );
    assert_eq!(call(&mut host, "FCALL f 1 {t}x get {t}a"), bulk("1"));
    load_with(&mut host, "return redis.call(unpack(ARGV))", "'allow-cross-slot-keys'");
    assert_eq!(call(&mut host, "FCALL f 1 a get {t}a"), bulk("1"));
    load_with(&mut host, "return 1", "'no-cluster'");
    assert_eq!(
        call(&mut host, "FCALL f 0"),
        error("ERR Can not run script on cluster, 'no-cluster' flag is set.")
    );
    for line in ["MULTI", "SET a 1", "SET b 1"] {
        call(&mut host, line);
    }
    assert_eq!(call(&mut host, "EXEC"), cross);
}

#[test]
fn instructions_are_counted_by_one_where_that_is_asked_for() {
    let mut host = Host::new(HostConfig { exact_instructions: true, ..HostConfig::default() });
    let mut count = |steps: u32| {
        load(&mut host, &format!("local n = 0 for i = 1, {steps} do n = n + i end return n"));
        call(&mut host, "FCALL f 0");
        host.last_instructions()
    };
    let (few, more) = (count(10), count(30));
    // An addition and the step of the loop.
    assert_eq!(more - few, 40, "{few} and {more}");
}
