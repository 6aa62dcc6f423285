//! What a script sees and what a client gets for it.

use super::*;

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
