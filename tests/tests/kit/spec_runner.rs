//! The spec runner: each kind of expectation passes when it should and fails when it should.

use std::path::Path;

use selvedge_tests::spec::runner::Tally;
use selvedge_tests::spec::store::SpecStore;
use selvedge_tests::spec::suite::Suite;
use selvedge_tests::spec::{STORES, parser, run_on, start};

/// Does what its arguments say, as a command, and answers with them.
const PROBE: &str = "#!lua name=probe
redis.register_function('ff_probe', function(keys, args)
  if args[1] == 'REFUSE' then return { 0, 'refused' } end
  if args[1] then redis.call(unpack(args)) end
  return { 1, 'OK', tostring(#keys), unpack(args) }
end)";

/// The file around the cases.
const FILE: &str = "function ff_probe
keys
  k key
setup the world
  run HSET h a 1 b 2
  run SADD s x y
  run ZADD z 5 m 1.5 n
  run SET t text PX 600000
  run XADD q 1-1 f v g w
  run XADD q 1-2 f last
";

/// What is called, a line that holds after it, and one that does not.
const TABLE: [(&str, &str, &str); 39] = [
    ("", "reply 1 OK 1", "reply 1 OK"),
    ("", "reply 1 OK ...", "reply 1 OK 2 ..."),
    ("", "reply 1 ... 1", "reply 0 ... 1"),
    ("", "reply :1 * ~integer", "reply 1 * ~uuid"),
    ("", "reply 1 ~starts:O ~text", "reply 1 ~starts:K ~text"),
    ("extra PING", "reply 1 OK 1 PING", "reply 1 OK 1 PONG"),
    ("extra REFUSE", "reply 0 refused", "reply 1 refused"),
    ("extra NOSUCH", "error ERR", "error WRONGTYPE"),
    ("", "hash h a=1", "hash h a=2"),
    ("", "hash h a=*", "hash h c=*"),
    ("", "hash-exactly h a=1 b=2", "hash-exactly h a=1"),
    ("", "field h a = 1", "field h a = \"\""),
    ("", "absent-field h c", "absent-field h a"),
    ("", "set-exactly s y x", "set-exactly s x"),
    ("", "set-exactly nothing", "set-exactly s"),
    ("", "zset z m=5.0 n=1.5", "zset z m=5"),
    ("", "zset z m=* n=*", "zset z m=5 n=2"),
    ("", "holds z m=5", "holds z m=6"),
    ("", "holds s x", "holds s z"),
    ("", "lacks s z", "lacks s x"),
    ("", "lacks z o", "lacks z m"),
    ("", "string t text", "string t tex"),
    ("", "stream q (f=v g=w) (f=last)", "stream q (f=v) (f=last)"),
    ("", "last-entry q f=last", "last-entry q f=v"),
    ("", "ttl t ~600000", "ttl t 500000"),
    ("", "no-ttl h s", "no-ttl h t"),
    ("", "gone nothing none", "gone nothing h"),
    ("", "exists h s", "exists h nothing"),
    ("extra HSET h a 2", "unchanged but h", "unchanged"),
    ("extra PEXPIRE h 9000", "unchanged but h", "unchanged"),
    ("extra SET new 1", "unchanged but new", "unchanged but h"),
    ("extra DEL h", "unchanged but h", "unchanged but s"),
    ("extra PUBLISH c hi", "published c hi", "published c ho"),
    ("extra PUBLISH c hi", "published c *", "published"),
    (
        "extra PUBLISH c '{\"a\":\"b\",\"n\":[1]}'",
        "published c ~json(n=(:1) a=b)",
        "published c ~json(a=b)",
    ),
    ("extra PUBLISH c '{\"t\":true}'", "published c ~json(t=~true)", "published c ~json(t=true)"),
    ("extra SET x $now", "string x ~now-2000..+0", "string x ~now+1000..+9000"),
    ("omit k", "reply 1 OK 0", "reply 1 OK 1"),
    ("extra-keys k2", "reply 1 OK 2", "reply 1 OK 1"),
];

#[test]
fn expectations_pass_and_fail_as_they_should_on_every_store() {
    for store in STORES {
        let mut probe = Probe::on(store);
        for (call, holds, fails) in TABLE {
            let tally = probe.run(&format!("  perform the world\n  call {call}\n  {holds}\n"));
            assert_eq!(told(&tally), Vec::<String>::new(), "call {call} / {holds}");
            let tally = probe.run(&format!("  perform the world\n  call {call}\n  {fails}\n"));
            let [failure] = &tally.failures[..] else {
                panic!("on {store}, call {call} / {fails} holds")
            };
            assert_eq!((failure.line, failure.expected.as_str()), (14, fails), "{failure}");
        }
    }
}

#[test]
fn a_preparation_that_does_not_work_ends_its_case() {
    let mut probe = Probe::on("valkey");
    for step in ["run NOSUCH", "fcall ff_probe -- REFUSE", "call extra REFUSE", "perform magic"] {
        let tally = probe.run(&format!("  {step}\n  run SET reached 1\n  gone reached\n"));
        let [failure] = &tally.failures[..] else { panic!("{step} went through") };
        assert_eq!(failure.expected, step);
    }
}

#[test]
fn a_call_that_publishes_must_say_so_but_a_preparation_need_not() {
    let mut probe = Probe::on("valkey");
    assert_eq!(told(&probe.run("  call extra PUBLISH c hi\n")).len(), 1);
    assert_eq!(told(&probe.run("  fcall ff_probe -- PUBLISH c hi\n")).len(), 0);
}

#[test]
fn variables_have_the_values_that_the_case_gave_them() {
    let mut probe = Probe::on("valkey");
    let kept = "  set k mine\n  call extra SET a b\n  reply 1 OK 1 SET ~keep:a ~keep:b\n  \
                run SET $k $a$b\n  string mine ab\n  read back GET mine\n  run SET copy $back\n  \
                string copy ab\n  default k other\n  run SET seen $k\n  string seen mine\n";
    assert_eq!(told(&probe.run(kept)), Vec::<String>::new());
    for unknown in ["run SET $nobody 1", "call kk=1", "do ff_other"] {
        assert_eq!(told(&probe.run(&format!("  {unknown}\n"))).len(), 1, "{unknown}");
    }
}

#[test]
fn every_case_starts_from_nothing() {
    let tally = Probe::on("valkey").run("  run SET left 1\ncase second\n  run PING\n  gone left\n");
    assert_eq!((tally.cases, told(&tally)), (2, Vec::new()));
}

/// A store with the probe function in it.
struct Probe {
    store: Box<dyn SpecStore>,
}

impl Probe {
    fn on(store: &str) -> Self {
        Self { store: start(store, PROBE).unwrap_or_else(|error| panic!("{error}")) }
    }

    fn run(&mut self, case: &str) -> Tally {
        let text = format!("{FILE}case the probe\n{case}");
        let mut suite = Suite::default();
        let file = parser::parse(Path::new("probe.spec"), &text);
        suite.add(file.expect("the case is well-formed")).expect("there is no other file");
        run_on(&suite, "", &mut *self.store)
    }
}

fn told(tally: &Tally) -> Vec<String> {
    tally.failures.iter().map(ToString::to_string).collect()
}
