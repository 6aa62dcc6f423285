//! The rights that an ACL user needs, as probes for `ACL DRYRUN` and as a rule for `ACL SETUSER`.
//!
//! A server checks the commands inside of a function against the user that calls it. The commands
//! are therefore read off the text of the library, and the lists cannot grow apart.

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::Finding;
use super::facts::ServerFacts;

wire_enum! {
    /// Who connects to the store.
    pub enum Role {
        /// An engine: it also installs the library.
        Engine = "engine",
        /// A worker.
        Worker = "worker",
        /// A client that submits, waits and signals.
        Client = "client",
    }
}

/// What a user may do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Access {
    /// The user; empty when the server did not say.
    pub user: String,
    /// Needed rights that it lacks, as in a rule.
    pub missing: Vec<String>,
    /// Rights that nothing of ours needs, as in a rule.
    pub excess: Vec<String>,
    /// Why its rights could not be checked; none when they were.
    pub unknown: Option<String>,
}

/// One right, and a command that needs it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Probe {
    /// The right, as in a rule.
    pub right: String,
    /// A command that only a user with this right may run.
    pub argv: Vec<String>,
}

impl Probe {
    fn new(right: impl Into<String>, words: &[&str]) -> Self {
        Self { right: right.into(), argv: words.iter().map(ToString::to_string).collect() }
    }
}

/// What a role needs, with a command for each right. `library` is the text of the function library.
#[must_use]
pub fn needed_probes(role: Role, library: &str) -> Vec<Probe> {
    let mut probes = Vec::from([
        Probe::new("~ff:*", &["GET", KEY]),
        Probe::new("&ff:*", &["PUBLISH", CHANNEL, "probe"]),
    ]);
    for name in commands(role, library) {
        let words = sample(name).unwrap_or(&[KEY]);
        let argv = [&[name], words].concat();
        probes.push(Probe::new(format!("+{}", rule_name(name)), &argv));
    }
    probes
}

/// Rights that no role needs, with a command for each.
#[must_use]
pub fn excess_probes() -> Vec<Probe> {
    [
        ("+flushall", &["FLUSHALL"][..]),
        ("+shutdown", &["SHUTDOWN"]),
        ("+config|set", &["CONFIG", "SET", "maxmemory", "0"]),
        ("+acl|setuser", &["ACL", "SETUSER", "probe"]),
        ("+keys", &["KEYS", "ff:*"]),
        ("~*", &["GET", "not-a-key-of-selvedge"]),
    ]
    .into_iter()
    .map(|(right, words)| Probe::new(right, words))
    .collect()
}

/// The command that makes a user with just the rights that a role needs.
#[must_use]
pub fn acl_rule(role: Role, library: &str) -> String {
    let mut rule = format!(
        "ACL SETUSER selvedge-{} on >PASSWORD resetkeys ~ff:* resetchannels &ff:* -@all",
        role.as_str()
    );
    for name in commands(role, library) {
        rule.push_str(" +");
        rule.push_str(&rule_name(name));
    }
    rule
}

pub(super) fn check(server: &ServerFacts) -> Vec<Finding> {
    const CHECK: &str = "access";
    let Access { user, missing, excess, unknown } = &server.access;
    let mut findings = Vec::new();
    match unknown {
        // The server's words for a user that it does not have.
        Some(why) if why.ends_with("not found") => {
            let why = "nobody can connect as this user";
            let finding = Finding::error(CHECK, format!("there is no user {user:?}"));
            findings.push(finding.because(why).run("selvedge doctor --print-acl engine"));
        }
        Some(why) => {
            let what = format!("the rights of user {user:?} cannot be checked: {why}");
            let why = "only a user that may run ACL DRYRUN can check it";
            let command = format!("selvedge doctor --user {user}");
            findings.push(Finding::note(CHECK, what).because(why).run(command));
        }
        None => {}
    }
    if !missing.is_empty() {
        let what = format!("user {user:?} lacks {}", by_kind(missing));
        let why = "functions run with the rights of the user that calls them, and fail halfway \
                   through their work without these";
        let rights = missing.iter().map(String::as_str);
        let command: Vec<&str> = ["ACL", "SETUSER", user].into_iter().chain(rights).collect();
        let finding = Finding::error(CHECK, what).because(why);
        findings.push(finding.run_on(&server.address, &command));
    }
    if !excess.is_empty() {
        let what = format!("user {user:?} may do more than is needed: {}", by_kind(excess));
        let why = "a leaked password of a service would expose the whole server; engine, worker \
                   and client each have a minimal user";
        let command = "selvedge doctor --print-acl engine";
        findings.push(Finding::note(CHECK, what).because(why).run(command));
    }
    if findings.is_empty() {
        findings.push(Finding::ok(CHECK, format!("user {user:?} has the rights it needs")));
    }
    findings
}

/// Rights in words: what each kind of right is for, then the rights as in a rule.
fn by_kind(rights: &[String]) -> String {
    let kinds = [("keys", '~'), ("channels", '&'), ("commands", '+')];
    let of_kind = kinds.into_iter().filter_map(|(kind, mark)| {
        let some: Vec<&str> =
            rights.iter().map(String::as_str).filter(|right| right.starts_with(mark)).collect();
        (!some.is_empty()).then(|| format!("{kind} {}", some.join(" ")))
    });
    of_kind.collect::<Vec<_>>().join(", ")
}

/// The commands that a role sends itself, and those that the library's functions run for it.
fn commands(role: Role, library: &str) -> BTreeSet<&'static str> {
    let in_library = |name: &str| library.contains(&format!("\"{name}\""));
    let mut all: BTreeSet<&'static str> =
        SAMPLES.iter().map(|(name, _)| *name).filter(|name| in_library(name)).collect();
    all.extend(DIRECT.iter().copied());
    if role == Role::Engine {
        all.insert("FUNCTION LOAD");
    }
    all
}

/// A subcommand is written with a bar in a rule.
fn rule_name(name: &str) -> String {
    name.to_ascii_lowercase().replace(' ', "|")
}

fn sample(name: &str) -> Option<&'static [&'static str]> {
    SAMPLES.iter().find(|(known, _)| *known == name).map(|(_, words)| *words)
}

const KEY: &str = "ff:doctor";
const CHANNEL: &str = "ff:doctor";

/// What programs send besides what functions run: function calls, reads, subscriptions, the lane
/// registry, and what a connection needs.
#[rustfmt::skip]
const DIRECT: &[&str] = &[
    "ASKING", "CLUSTER SLOTS", "DEL", "EXISTS", "FCALL", "FCALL_RO", "GET", "HGET", "HGETALL",
    "HMGET", "HSET", "PEXPIRE", "PEXPIREAT", "PING", "SADD", "SCARD", "SELECT", "SMEMBERS", "SRANDMEMBER", "SREM",
    "SSCAN", "SUBSCRIBE", "TIME", "TYPE", "UNSUBSCRIBE", "XRANGE", "ZCARD", "ZCOUNT", "ZRANGE",
    "ZRANGEBYSCORE", "ZSCORE",
];

/// Commands with the arguments of a valid call.
#[rustfmt::skip]
const SAMPLES: &[(&str, &[&str])] = &[
    ("ASKING", &[]),
    ("CLUSTER SLOTS", &[]),
    ("COPY", &[KEY, "ff:doctor:copy"]),
    ("DEL", &[KEY]),
    ("EXISTS", &[KEY]),
    ("EXPIRE", &[KEY, "1"]),
    ("FCALL", &["ff_version", "0"]),
    ("FCALL_RO", &["ff_version", "0"]),
    ("FUNCTION LOAD", &["REPLACE", "text"]),
    ("GET", &[KEY]),
    ("HDEL", &[KEY, "field"]),
    ("HEXISTS", &[KEY, "field"]),
    ("HGET", &[KEY, "field"]),
    ("HGETALL", &[KEY]),
    ("HINCRBY", &[KEY, "field", "1"]),
    ("HKEYS", &[KEY]),
    ("HLEN", &[KEY]),
    ("HMGET", &[KEY, "field"]),
    ("HSCAN", &[KEY, "0"]),
    ("HSET", &[KEY, "field", "value"]),
    ("HSETNX", &[KEY, "field", "value"]),
    ("HSTRLEN", &[KEY, "field"]),
    ("HVALS", &[KEY]),
    ("INCR", &[KEY]),
    ("INCRBY", &[KEY, "1"]),
    ("INFO", &[]),
    ("LLEN", &[KEY]),
    ("MGET", &[KEY]),
    ("PERSIST", &[KEY]),
    ("PEXPIRE", &[KEY, "1"]),
    ("PEXPIREAT", &[KEY, "1"]),
    ("PEXPIRETIME", &[KEY]),
    ("PING", &[]),
    ("PTTL", &[KEY]),
    ("PUBLISH", &[CHANNEL, "probe"]),
    ("RENAME", &[KEY, "ff:doctor:copy"]),
    ("SADD", &[KEY, "member"]),
    ("SCARD", &[KEY]),
    ("SDIFF", &[KEY]),
    ("SELECT", &["0"]),
    ("SET", &[KEY, "value"]),
    ("SINTERCARD", &["1", KEY]),
    ("SISMEMBER", &[KEY, "member"]),
    ("SMEMBERS", &[KEY]),
    ("SMISMEMBER", &[KEY, "member"]),
    ("SPOP", &[KEY]),
    ("SRANDMEMBER", &[KEY]),
    ("SREM", &[KEY, "member"]),
    ("SSCAN", &[KEY, "0"]),
    ("STRLEN", &[KEY]),
    ("SUBSCRIBE", &[CHANNEL]),
    ("SUNION", &[KEY]),
    ("TIME", &[]),
    ("TOUCH", &[KEY]),
    ("TTL", &[KEY]),
    ("TYPE", &[KEY]),
    ("UNLINK", &[KEY]),
    ("UNSUBSCRIBE", &[]),
    ("XADD", &[KEY, "*", "field", "value"]),
    ("XDEL", &[KEY, "1-1"]),
    ("XLEN", &[KEY]),
    ("XRANGE", &[KEY, "-", "+"]),
    ("XREVRANGE", &[KEY, "+", "-"]),
    ("XTRIM", &[KEY, "MAXLEN", "1"]),
    ("ZADD", &[KEY, "1", "member"]),
    ("ZCARD", &[KEY]),
    ("ZCOUNT", &[KEY, "-inf", "+inf"]),
    ("ZINCRBY", &[KEY, "1", "member"]),
    ("ZINTERCARD", &["1", KEY]),
    ("ZMSCORE", &[KEY, "member"]),
    ("ZPOPMIN", &[KEY]),
    ("ZRANGE", &[KEY, "0", "1"]),
    ("ZRANGEBYSCORE", &[KEY, "0", "1"]),
    ("ZRANK", &[KEY, "member"]),
    ("ZREM", &[KEY, "member"]),
    ("ZREMRANGEBYRANK", &[KEY, "0", "1"]),
    ("ZREMRANGEBYSCORE", &[KEY, "0", "1"]),
    ("ZREVRANGE", &[KEY, "0", "1"]),
    ("ZSCORE", &[KEY, "member"]),
];
