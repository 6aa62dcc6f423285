//! Each check on facts that are in order, and with one thing wrong.

use alloc::collections::BTreeMap;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;

use super::*;
use crate::partition::PartitionCounts;

fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect()
}

fn library(revision: u32) -> InstalledLibrary {
    let (version, digest) = ("34".to_string(), "0123456789".to_string());
    InstalledLibrary { version, revision: Some(revision), digest }
}

fn server(address: &str) -> ServerFacts {
    ServerFacts {
        address: address.to_string(),
        silent: None,
        settings: Ok(map(&[
            ("maxmemory-policy", "noeviction"),
            ("maxmemory", "1000000"),
            ("appendonly", "yes"),
            ("appendfsync", "everysec"),
            ("save", ""),
            ("min-replicas-to-write", "1"),
            ("stream-node-max-bytes", "1024"),
            ("timeout", "0"),
        ])),
        info: Ok(map(&[("used_memory", "1000"), ("role", "master"), ("connected_slaves", "1")])),
        clock: Some(ClockReading { ahead_ms: 3, uncertainty_ms: 1 }),
        library: Ok(Some(library(7))),
        access: Access { user: "engine".to_string(), ..Access::default() },
    }
}

fn sound() -> Facts {
    Facts {
        servers: vec![server("one:1"), server("two:2")],
        cluster: None,
        own_library: library(7),
        stored_partitions: Ok(Some(PartitionCounts::DEFAULT)),
        configured_partitions: None,
    }
}

/// What is not in order, as severity, check and whether a command is named.
fn wrong(facts: &Facts) -> Vec<(Severity, &'static str)> {
    let findings = examine(facts).into_iter().filter(|finding| finding.severity != Severity::Ok);
    findings.map(|finding| (finding.severity, finding.check)).collect()
}

fn with_setting(name: &str, value: &str) -> Facts {
    let mut facts = sound();
    let settings = facts.servers[0].settings.as_mut().unwrap();
    settings.insert(name.to_string(), value.to_string());
    facts
}

fn with_info(name: &str, value: &str) -> Facts {
    let mut facts = sound();
    facts.servers[0].info.as_mut().unwrap().insert(name.to_string(), value.to_string());
    facts
}

#[test]
fn sound_servers_have_no_findings_but_say_what_was_checked() {
    assert_eq!(wrong(&sound()), []);
    let checks: Vec<_> = examine(&sound()).iter().map(|finding| finding.check).collect();
    for check in ["eviction policy", "memory", "persistence", "library", "clocks", "access"] {
        assert!(checks.contains(&check), "{check}");
    }
}

#[test]
fn every_setting_is_judged() {
    use Severity::{Error, Note, Warning};
    for (name, value, expected) in [
        ("maxmemory-policy", "allkeys-lru", (Error, "eviction policy")),
        ("maxmemory-policy", "volatile-ttl", (Warning, "eviction policy")),
        ("maxmemory", "1100", (Warning, "memory")),
        ("appendfsync", "no", (Warning, "persistence")),
        ("appendonly", "no", (Error, "persistence")),
        ("min-replicas-to-write", "0", (Warning, "replication")),
        ("stream-node-max-bytes", "4096", (Note, "stream nodes")),
        ("stream-node-max-bytes", "0", (Note, "stream nodes")),
        ("timeout", "5", (Warning, "idle timeout")),
    ] {
        assert_eq!(wrong(&with_setting(name, value)), [expected], "{name} {value}");
    }
    let mut snapshots = with_setting("appendonly", "no");
    let settings = snapshots.servers[0].settings.as_mut().unwrap();
    settings.insert("save".to_string(), "3600 1".to_string());
    assert_eq!(wrong(&snapshots), [(Warning, "persistence")]);
}

#[test]
fn the_state_of_a_server_is_judged() {
    use Severity::{Error, Note};
    for (name, value, expected) in [
        ("rdb_last_bgsave_status", "err", (Error, "persistence")),
        ("aof_last_write_status", "err", (Error, "persistence")),
        ("connected_slaves", "0", (Note, "replication")),
        ("role", "slave", (Error, "replication")),
    ] {
        assert_eq!(wrong(&with_info(name, value)), [expected], "{name} {value}");
    }
}

#[test]
fn memory_without_a_limit_is_compared_with_the_machine() {
    let mut facts = with_setting("maxmemory", "0");
    assert_eq!(wrong(&facts), [], "nothing is known of the machine");
    let info = facts.servers[0].info.as_mut().unwrap();
    info.insert("total_system_memory".to_string(), "1100".to_string());
    assert_eq!(wrong(&facts), [(Severity::Warning, "memory")]);
}

#[test]
fn what_cannot_be_read_is_said() {
    let mut facts = sound();
    facts.servers[0].settings = Err("NOPERM".to_string());
    facts.servers[0].info = Err("NOPERM".to_string());
    facts.servers[0].library = Err("NOPERM".to_string());
    facts.servers[0].access.unknown = Some("NOPERM".to_string());
    let notes = ["settings", "state", "access", "library"].map(|check| (Severity::Note, check));
    assert_eq!(wrong(&facts), notes);
}

#[test]
fn libraries_are_compared_with_each_other_and_with_ours() {
    use Severity::{Error, Note, Warning};
    let judged = |installed: [Option<InstalledLibrary>; 2]| {
        let mut facts = sound();
        for (server, installed) in facts.servers.iter_mut().zip(installed) {
            server.library = Ok(installed);
        }
        wrong(&facts)
    };
    let foreign = InstalledLibrary { version: "34".to_string(), ..InstalledLibrary::default() };
    let warning = (Warning, "library");
    assert_eq!(judged([None, None]), [warning, warning]);
    assert_eq!(judged([Some(foreign.clone()), Some(foreign)]), [warning, warning]);
    assert_eq!(judged([Some(library(8)), Some(library(8))]), [(Note, "library"); 2]);
    assert_eq!(
        judged([Some(library(7)), Some(library(6))]),
        [(Error, "library"), (Note, "library")]
    );
}

#[test]
fn clocks_are_compared_within_what_the_readings_can_tell() {
    use Severity::{Error, Note, Warning};
    let judged = |ahead_ms: [i64; 2], uncertainty_ms: u64| {
        let mut facts = sound();
        for (server, ahead_ms) in facts.servers.iter_mut().zip(ahead_ms) {
            server.clock = Some(ClockReading { ahead_ms, uncertainty_ms });
        }
        wrong(&facts)
    };
    assert_eq!(judged([0, 499], 0), []);
    assert_eq!(judged([0, 500], 0), [(Warning, "clocks")]);
    assert_eq!(judged([0, -600], 60), [], "the readings took as long as they differ");
    assert_eq!(judged([5_000, 0], 0), [(Error, "clocks")]);
    assert_eq!(judged([9_000, 9_000], 0), [(Note, "clocks")], "only this machine differs");
    assert_eq!(judged([i64::MIN, i64::MAX], u64::MAX), []);
}

#[test]
fn partition_counts_are_compared() {
    let mut facts = sound();
    facts.stored_partitions = Ok(None);
    assert_eq!(wrong(&facts), [(Severity::Note, "partitions")]);
    facts.stored_partitions = Err("CLUSTERDOWN".to_string());
    assert_eq!(wrong(&facts), [(Severity::Note, "partitions")]);
    facts = sound();
    facts.configured_partitions = Some(PartitionCounts::DEFAULT);
    assert_eq!(wrong(&facts), []);
    let other = core::num::NonZeroU16::new(3).unwrap();
    facts.configured_partitions = Some(PartitionCounts { flow: other, ..PartitionCounts::DEFAULT });
    assert_eq!(wrong(&facts), [(Severity::Error, "partitions")]);
}

const NODES: &str = "\
aaa 127.0.0.1:7001@17001 myself,master - 0 0 1 connected 0-5460 [5461->-bbb]
bbb 127.0.0.1:7002@17002 master - 0 1 2 connected 5461-16383
ccc 127.0.0.1:7003@17003,host slave aaa 0 1 1 connected
ddd 127.0.0.1:7004@17004 slave bbb 0 1 2 connected
not a node
";

fn cluster(nodes: &str) -> Facts {
    let info = map(&[("cluster_state", "ok"), ("cluster_slots_ok", "16384")]);
    let nodes = ClusterNode::read_all(nodes);
    let cluster = Some(ClusterFacts { info, nodes, requires_full_coverage: Some(false) });
    Facts { cluster, ..sound() }
}

#[test]
fn a_cluster_is_judged_by_its_own_description() {
    use Severity::{Error, Note, Warning};
    assert_eq!(wrong(&cluster(NODES)), []);
    let failed = NODES.replace("slave bbb 0 1 2 connected", "slave,fail bbb 0 1 2 disconnected");
    let warnings = [(Warning, "cluster"), (Warning, "cluster replicas")];
    assert_eq!(wrong(&cluster(&failed)), warnings);
    let gone: String = NODES
        .lines()
        .filter(|line| !line.starts_with("ddd"))
        .flat_map(|line| [line, "\n"])
        .collect();
    assert_eq!(wrong(&cluster(&gone)), [(Warning, "cluster replicas")]);
    let none: String = gone
        .lines()
        .filter(|line| !line.starts_with("ccc"))
        .flat_map(|line| [line, "\n"])
        .collect();
    assert_eq!(wrong(&cluster(&none)), [(Note, "cluster replicas")]);
    let mut facts = cluster(NODES);
    let of = facts.cluster.as_mut().unwrap();
    of.requires_full_coverage = Some(true);
    of.info.insert("cluster_slots_ok".to_string(), "16000".to_string());
    assert_eq!(wrong(&facts), [(Error, "cluster state"), (Note, "cluster coverage")]);
}

#[test]
fn rights_come_from_the_text_of_the_library() {
    let text = r#"call("HSET", key) pcall("ZINTERCARD", 1, key) "NOT_A_COMMAND""#;
    let rule = acl_rule(Role::Worker, text);
    for part in ["selvedge-worker", "~ff:*", "&ff:*", "-@all", "+hset", "+zintercard", "+fcall"] {
        assert!(rule.split(' ').any(|word| word == part), "{part}: {rule}");
    }
    for part in ["+zadd", "+function|load", "+flushall"] {
        assert!(!rule.contains(part), "{part}: {rule}");
    }
    assert!(acl_rule(Role::Engine, text).contains("+function|load"));
    let access = Access {
        user: "app".to_string(),
        missing: vec!["+hset".to_string()],
        excess: vec!["+keys".to_string()],
        unknown: None,
    };
    let mut facts = sound();
    facts.servers[0].access = access;
    assert_eq!(wrong(&facts), [(Severity::Error, "access"), (Severity::Note, "access")]);
    facts.servers[0].access.unknown = Some("ERR User 'app' not found".to_string());
    assert_eq!(wrong(&facts)[0], (Severity::Error, "access"));
}

#[test]
fn commands_can_be_pasted_into_a_shell() {
    let run = |facts: &Facts| {
        let worst = examine(facts).into_iter().next().unwrap();
        worst.command
    };
    let mut evicts = with_setting("maxmemory-policy", "allkeys-lru");
    let set = "valkey-cli -h one -p 1 CONFIG SET maxmemory-policy noeviction";
    assert_eq!(run(&evicts), set);
    let info = evicts.servers[0].info.as_mut().unwrap();
    info.insert("config_file".to_string(), "/etc/valkey.conf".to_string());
    assert_eq!(run(&evicts), format!("{set} && valkey-cli -h one -p 1 CONFIG REWRITE"));
    let mut lacks = sound();
    lacks.servers[0].access.missing = ["&ff:*", "+config|get"].map(String::from).to_vec();
    let rights = "valkey-cli -h one -p 1 ACL SETUSER engine '&ff:*' '+config|get'";
    assert_eq!(run(&lacks), rights);
}

#[test]
fn a_server_that_does_not_answer_is_told_once() {
    let mut facts = sound();
    let silent = &mut facts.servers[0];
    silent.silent = Some("connection refused".to_string());
    silent.settings = Err("connection refused".to_string());
    silent.library = Ok(None);
    assert_eq!(wrong(&facts), [(Severity::Error, "connection")]);
    let nodes = NODES.replace("bbb 127.0.0.1:7002@17002 master", "bbb one:1@2 master,fail");
    let cluster = cluster(&nodes).cluster;
    assert_eq!(wrong(&Facts { cluster, ..facts }), [(Severity::Error, "connection")]);
}
