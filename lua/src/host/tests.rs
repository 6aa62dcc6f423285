//! The host as its callers see it.

use selvedge_core::value::Value;

use super::{Host, HostConfig, InnerCommand, Message, Outcome, Session};

fn host() -> Host {
    Host::new(HostConfig::default())
}

fn call(host: &mut Host, line: &str) -> Value {
    host.call(&line.split(' ').collect::<Vec<_>>())
}

/// Loads a library with one function `f` of this body.
fn load(host: &mut Host, body: &str) {
    load_with(host, body, "");
}

fn load_with(host: &mut Host, body: &str, flags: &str) {
    let code = format!(
        "#!lua name=lib\nredis.register_function{{function_name='f', flags={{{flags}}}, \
         callback=function(KEYS, ARGV) {body} end}}"
    );
    assert_eq!(host.call(&["FUNCTION", "LOAD", "REPLACE", &code]), bulk("lib"));
}

fn eval(body: &str) -> Value {
    host().call(&["EVAL", body, "0"])
}

fn bulk(text: &str) -> Value {
    Value::Bulk(text.as_bytes().to_vec())
}

fn error(text: &str) -> Value {
    Value::Error(text.to_owned())
}

fn ok() -> Value {
    Value::Status("OK".to_owned())
}

fn words(line: &str) -> Vec<Vec<u8>> {
    line.split(' ').map(|word| word.as_bytes().to_vec()).collect()
}

#[test]
fn the_library_answers_its_version() {
    let mut host = host();
    let source = crate::library::SOURCE;
    assert_eq!(host.call(&["FUNCTION", "LOAD", source]), bulk(crate::library::NAME));
    let none: [&str; 0] = [];
    let version = host.fcall("ff_version", &none, &none);
    assert_eq!(version, host.call(&["FCALL", "ff_version", "0"]));
    assert_eq!(version, bulk(crate::library::VERSION));
}

#[test]
fn values_become_replies() {
    let cases = [
        ("return nil", Value::Nil),
        ("return false", Value::Nil),
        ("return true", Value::Int(1)),
        ("return 3.99", Value::Int(3)),
        ("return -3.99", Value::Int(-3)),
        ("return 2^63", Value::Int(i64::MIN)),
        ("return 0/0", Value::Int(i64::MIN)),
        ("return {1,2,nil,4}", Value::Array(vec![Value::Int(1), Value::Int(2)])),
        ("return {ok='fine'}", Value::Status("fine".into())),
        ("return {err='E a\\r\\nb'}", error("E a  b")),
        ("return {double=0.1}", bulk("0.1")),
        ("return {map={a=1}}", Value::Array(vec![bulk("a"), Value::Int(1)])),
        ("return {set={a=true}}", Value::Array(vec![bulk("a")])),
        ("return {ok=1}", Value::Array(vec![])),
        ("return function() end", Value::Nil),
        ("return redis.error_reply('x')", error("ERR x")),
        ("return redis.error_reply('-X y')", error("X y")),
        ("return redis.status_reply('x')", Value::Status("x".into())),
        ("return redis.sha1hex('')", bulk("da39a3ee5e6b4b0d3255bfef95601890afd80709")),
    ];
    for (body, reply) in cases {
        assert_eq!(eval(body), reply, "{body}");
    }
}

#[test]
fn a_table_nested_without_end_is_cut_off() {
    let mut reply = eval("local t = {} t[1] = t return t");
    let mut depth = 0;
    while let Value::Array(mut items) = reply {
        depth += 1;
        reply = items.pop().expect("one item");
    }
    assert!((7500..8000).contains(&depth), "{depth}");
    assert_eq!(reply, error("ERR reached lua stack limit"));
    let twice = eval("local t = {} t[1] = t t[2] = t return t");
    assert_eq!(twice, error("ERR the reply of the script is too large"));
}

#[test]
fn errors_name_their_place() {
    let cases = [
        ("error('boom')", "ERR user_script:1: boom script: on @user_script:1."),
        ("error({err='E x'})", "E x script: on @user_script:1."),
        ("error({})", "ERR unknown error script: on @user_script:1."),
        ("error()", "ERR nil script: on @user_script:1."),
        (
            "\n\nreturn redis.call('nope')",
            "ERR Unknown command called from script script: on @user_script:3.",
        ),
        (
            "return nope",
            "ERR user_script:1: Script attempted to access nonexistent global variable 'nope' \
             script: on @user_script:1.",
        ),
        (
            "nope = 1",
            "ERR user_script:1: Attempt to modify a readonly table script: on @user_script:1.",
        ),
        (
            "string.x = 1",
            "ERR user_script:1: Attempt to modify a readonly table script: on @user_script:1.",
        ),
        (
            "return cjson.decode('[1,')",
            "ERR user_script:1: Expected value but found T_END at character 4 \
             script: on @user_script:1.",
        ),
        ("x x", "ERR Error compiling script (new function): user_script:1: '=' expected near 'x'"),
        (
            "local function f() return f() + 1 end return f()",
            "ERR user_script:1: stack overflow script: on @user_script:1.",
        ),
    ];
    for (body, text) in cases {
        assert_eq!(eval(body), error(text), "{body}");
    }
}

#[test]
fn a_caught_error_is_its_text_and_a_handed_back_one_a_table() {
    let text = "ERR Unknown command called from script";
    assert_eq!(eval("local _, e = pcall(redis.call, 'nope') return e"), bulk(text));
    assert_eq!(eval("return redis.pcall('nope')"), error(text));
    assert_eq!(eval("return redis.pcall('nope').err"), bulk(text));
    let resumed = "return select(2, coroutine.resume(coroutine.create(\
                   function() redis.call('nope') end)))";
    assert_eq!(eval(resumed), error(text));
}

#[test]
fn nothing_of_the_outside_is_in_reach() {
    for name in ["io", "require", "loadfile", "dofile", "print", "debug", "package", "getfenv"] {
        let Value::Error(text) = eval(&format!("return {name}")) else { panic!("{name}") };
        assert!(text.contains("nonexistent global variable"), "{text}");
    }
    assert_eq!(eval("return os.time"), Value::Nil);
    let Value::Error(text) = eval("return cmsgpack.pack(1)") else { panic!("cmsgpack") };
    assert!(text.contains("cmsgpack"), "{text}");
    let Value::Error(text) = eval("return loadstring(string.dump(function() end))()") else {
        panic!("bytecode")
    };
    assert!(text.contains("attempt to call a nil value"), "{text}");
}

#[test]
fn loading_sees_nothing_but_the_registration() {
    let mut host = host();
    let load = |host: &mut Host, code: &str| host.call(&["FUNCTION", "LOAD", code]);
    assert_eq!(
        load(&mut host, "#!lua name=a\nlocal e = error"),
        error(
            "ERR Error registering functions: ERR user_function:2: Script attempted to access \
             nonexistent global variable 'error'"
        )
    );
    assert_eq!(load(&mut host, "#!lua name=a\nlocal x"), error("ERR No functions registered"));
    let code = "#!lua name=a\nredis.register_function('g', function() return redis.x end)";
    assert_eq!(load(&mut host, code), bulk("a"));
    assert_eq!(load(&mut host, code), error("ERR Library 'a' already exists"));
    assert_eq!(
        load(&mut host, &code.replace("name=a", "name=b")),
        error("ERR Function g already exists")
    );
    assert_eq!(call(&mut host, "FCALL G 0"), Value::Nil);
    assert_eq!(call(&mut host, "FUNCTION DELETE a"), ok());
    assert_eq!(call(&mut host, "FCALL g 0"), error("ERR Function not found"));
}

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
fn time_moves_only_when_told() {
    let mut host = host();
    host.set_now_us(1_500_000_000_123_456);
    load(
        &mut host,
        "local a = redis.call('time') for i = 1, 1e5 do end local b = redis.call('time') \
         return {a[1], a[2], b[1], b[2]}",
    );
    let now = [bulk("1500000000"), bulk("123456")];
    let twice = Value::Array([now.clone(), now].concat());
    assert_eq!(call(&mut host, "FCALL f 0"), twice);
    assert_eq!(call(&mut host, "FCALL f 0"), twice);
    assert_eq!(host.now_us(), 1_500_000_000_123_456);
}

#[test]
fn the_seed_decides_every_draw() {
    let draws = |seed| {
        let mut host = Host::new(HostConfig { seed, ..HostConfig::default() });
        load(&mut host, "return {tostring(math.random()), math.random(1000)}");
        [call(&mut host, "FCALL f 0"), call(&mut host, "FCALL f 0")]
    };
    assert_eq!(draws(7), draws(7));
    assert_ne!(draws(7), draws(8));
    assert_ne!(draws(7)[0], draws(7)[1]);
    assert_eq!(
        eval("math.randomseed(-1) return tostring(math.random())"),
        bulk("0.30002572727391")
    );
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

#[test]
fn many_values_pass_either_way() {
    let mut host = host();
    load(
        &mut host,
        "local t = {} for i = 1, ARGV[1] do t[i] = 'k' .. i end \
         return {t, redis.call('del', unpack(t, 1, ARGV[2]))}",
    );
    let Value::Array(items) = call(&mut host, "FCALL f 0 100000 7900") else { panic!("no array") };
    assert!(matches!(&items[0], Value::Array(items) if items.len() == 100_000));
    assert_eq!(items[1], Value::Int(0));
    let Value::Error(text) = call(&mut host, "FCALL f 0 100000 8100") else { panic!("no error") };
    assert!(text.contains("too many results to unpack"), "{text}");
}
