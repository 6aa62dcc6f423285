//! Checks of the servers: memory, persistence, replication, streams, timeouts, library, clocks.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;

use super::facts::{Facts, InstalledLibrary, ServerFacts};
use super::{Finding, server_command};

type Fields = BTreeMap<String, String>;

/// All checks of one server by itself.
pub(super) fn check(server: &ServerFacts) -> Vec<Finding> {
    let mut findings = Vec::new();
    let none = Fields::new();
    if let Err(why) = &server.settings {
        let what = format!("cannot read the settings: {why}");
        let why = "settings such as the eviction policy decide whether work can be lost";
        findings.push(Finding::note("settings", what).because(why));
    }
    if let Err(why) = &server.info {
        findings.push(Finding::note("state", format!("cannot read the state: {why}")));
    }
    let settings = server.settings.as_ref().unwrap_or(&none);
    let info = server.info.as_ref().unwrap_or(&none);
    findings.extend(eviction(server, settings));
    findings.extend(memory(server, settings, info));
    findings.extend(persistence(server, settings, info));
    findings.extend(replication(server, settings, info));
    findings.extend(stream_nodes(server, settings));
    findings.extend(idle_timeout(server, settings));
    findings
}

/// The finding for a server that does not answer; nothing else is known of it.
pub(super) fn silent(why: &str) -> Finding {
    Finding::error("connection", format!("the server does not answer: {why}"))
        .because("its partitions stand still until it is back, or a replica takes over")
}

fn eviction(server: &ServerFacts, settings: &Fields) -> Option<Finding> {
    const CHECK: &str = "eviction policy";
    let policy = settings.get("maxmemory-policy")?;
    if policy == "noeviction" {
        return Some(Finding::ok(CHECK, policy));
    }
    let volatile = policy.starts_with("volatile-");
    let why = match volatile {
        true => "a full server deletes keys that expire: locks, idempotency and claim records",
        false => "a full server deletes any key, records of unfinished work among them",
    };
    let finding =
        if volatile { Finding::warning(CHECK, policy) } else { Finding::error(CHECK, policy) };
    Some(finding.because(why).set(server, "maxmemory-policy", "noeviction"))
}

/// How full a server may be before it is worth a warning.
const MEMORY_USED_MAX_PERCENT: u64 = 80;

fn memory(server: &ServerFacts, settings: &Fields, info: &Fields) -> Option<Finding> {
    const CHECK: &str = "memory";
    let used = number(info, "used_memory")?;
    let limit = number(settings, "maxmemory").or_else(|| number(info, "maxmemory")).unwrap_or(0);
    let system = number(info, "total_system_memory").unwrap_or(0);
    let (limit, of) = match limit {
        0 if system == 0 => return None,
        0 => (system, "of the machine's memory; maxmemory is not set"),
        limit => (limit, "of maxmemory"),
    };
    let percent = used.saturating_mul(100) / limit.max(1);
    let what = format!("{} of {} used, {percent} % {of}", size(used), size(limit));
    if percent <= MEMORY_USED_MAX_PERCENT {
        return Some(Finding::ok(CHECK, what));
    }
    let why = "a full server refuses new work, completions and renewals of leases";
    Some(Finding::warning(CHECK, what).because(why).set(server, "maxmemory", "BYTES"))
}

fn persistence(server: &ServerFacts, settings: &Fields, info: &Fields) -> Vec<Finding> {
    const CHECK: &str = "persistence";
    let Some(append_only) = settings.get("appendonly") else { return Vec::new() };
    let snapshots = settings.get("save").is_some_and(|save| !save.trim().is_empty());
    let fsync = settings.get("appendfsync").map_or("", String::as_str);
    let mut findings = vec![match (append_only.as_str(), fsync) {
        ("yes", "no") => Finding::warning(CHECK, "append-only file, never synced by the server")
            .because("the operating system decides how much accepted work a power failure loses")
            .set(server, "appendfsync", "everysec"),
        ("yes", fsync) => Finding::ok(CHECK, format!("append-only file, appendfsync {fsync}")),
        _ if snapshots => Finding::warning(CHECK, "snapshots only, no append-only file")
            .because("a crash loses what was accepted since the last snapshot, minutes of work")
            .set(server, "appendonly", "yes"),
        _ => Finding::error(CHECK, "none: no append-only file and no snapshots")
            .because("a restart of the server loses everything")
            .set(server, "appendonly", "yes"),
    }];
    for (field, file) in
        [("rdb_last_bgsave_status", "snapshot"), ("aof_last_write_status", "append-only file")]
    {
        if info.get(field).is_some_and(|status| status != "ok") {
            let what = format!("the last write of the {file} failed");
            let why = "the server refuses writes while it cannot persist them; see its log";
            let finding = Finding::error(CHECK, what).because(why);
            findings.push(finding.run_on(&server.address, &["INFO", "persistence"]));
        }
    }
    findings
}

fn replication(server: &ServerFacts, settings: &Fields, info: &Fields) -> Option<Finding> {
    const CHECK: &str = "replication";
    if info.get("role").is_some_and(|role| role == "slave") {
        let why = "a replica refuses writes; name its primary in the URL";
        return Some(Finding::error(CHECK, "this server is a replica").because(why));
    }
    let replicas = number(info, "connected_slaves")?;
    let needed = number(settings, "min-replicas-to-write").unwrap_or(0);
    if replicas == 0 {
        let why = "nothing takes over when this server fails";
        return Some(Finding::note(CHECK, "no replica is connected").because(why));
    }
    let what = format!("{replicas} connected, min-replicas-to-write {needed}");
    if needed > 0 {
        return Some(Finding::ok(CHECK, what));
    }
    let why = "a primary that is cut off goes on accepting work, which the failover then loses";
    Some(Finding::warning(CHECK, what).because(why).set(server, "min-replicas-to-write", "1"))
}

/// Above this, most of an ended execution's memory is the unused rest of a stream node.
const STREAM_NODE_BYTES_ADVISED: u64 = 1_024;

fn stream_nodes(server: &ServerFacts, settings: &Fields) -> Option<Finding> {
    const CHECK: &str = "stream nodes";
    let bytes = number(settings, "stream-node-max-bytes")?;
    let what = format!("stream-node-max-bytes {bytes}");
    // Zero means no limit; the server then reserves its default.
    if (1..=STREAM_NODE_BYTES_ADVISED).contains(&bytes) {
        return Some(Finding::ok(CHECK, what));
    }
    let why = "the lease history of an execution has a few entries at most, and the server \
               reserves a whole node of up to 4 kB for each; smaller nodes save most of that";
    let advised = STREAM_NODE_BYTES_ADVISED.to_string();
    Some(Finding::note(CHECK, what).because(why).set(server, "stream-node-max-bytes", &advised))
}

/// An engine writes every 2 s, a worker renews more often than leases end.
const IDLE_TIMEOUT_MIN_S: u64 = 30;

fn idle_timeout(server: &ServerFacts, settings: &Fields) -> Option<Finding> {
    const CHECK: &str = "idle timeout";
    let seconds = number(settings, "timeout")?;
    if seconds == 0 || seconds >= IDLE_TIMEOUT_MIN_S {
        return None;
    }
    let why = "the server closes the connections of idle workers and clients, which then reconnect";
    let what = format!("timeout {seconds}");
    Some(Finding::warning(CHECK, what).because(why).set(server, "timeout", "0"))
}

/// Compares the libraries of all servers with each other and with this program's.
pub(super) fn check_libraries(facts: &Facts) -> Vec<Finding> {
    const CHECK: &str = "library";
    let own = &facts.own_library;
    let mut findings = Vec::new();
    let mut seen = BTreeSet::new();
    for server in facts.servers.iter().filter(|server| server.silent.is_none()) {
        let load = server_command(&server.address, &["-x", "FUNCTION", "LOAD", "REPLACE"]);
        let load = format!("selvedge library | {load}");
        let finding = match &server.library {
            Err(why) => Finding::note(CHECK, format!("cannot be read: {why}")),
            Ok(None) => {
                seen.insert("none".to_string());
                Finding::warning(CHECK, "not installed")
                    .because("an engine installs it when it starts; functions fail until then")
                    .run(load)
            }
            Ok(Some(installed)) => {
                seen.insert(named(installed));
                compare(own, installed)
            }
        };
        findings.push(finding.on(&server.address));
    }
    if seen.len() > 1 {
        let all: Vec<String> = seen.into_iter().collect();
        let what = format!("the servers have different libraries: {}", all.join("; "));
        let why = "the same call can have different results on two partitions; an engine of the \
                   newest release installs its library on every server when it starts";
        findings.push(Finding::error(CHECK, what).because(why));
    }
    findings
}

fn compare(own: &InstalledLibrary, installed: &InstalledLibrary) -> Finding {
    const CHECK: &str = "library";
    let what = named(installed);
    if installed == own {
        return Finding::ok(CHECK, what);
    }
    match installed.revision {
        None => Finding::warning(CHECK, what)
            .because("not the library of this project; an engine replaces it when it starts"),
        Some(revision) if own.revision.is_some_and(|own| revision > own) => {
            Finding::note(CHECK, what).because("newer than this program: upgrade this program")
        }
        Some(_) => Finding::note(CHECK, what)
            .because(format!("this program has {}; an engine of it would replace it", named(own))),
    }
}

fn named(library: &InstalledLibrary) -> String {
    match library.revision {
        Some(revision) => format!(
            "version {} revision {revision} ({})",
            library.version,
            library.digest.chars().take(8).collect::<String>()
        ),
        None => format!("version {} without a revision", library.version),
    }
}

/// A difference of clocks above this delays or hastens deadlines noticeably.
const SKEW_WARNING_MS: u64 = 500;
/// Above this, leases of the default length run out early or late by a failover.
const SKEW_ERROR_MS: u64 = 5_000;

/// Compares the clocks of the servers.
pub(super) fn check_clocks(facts: &Facts) -> Vec<Finding> {
    const CHECK: &str = "clocks";
    let readings = facts.servers.iter().filter_map(|server| Some((&server.address, server.clock?)));
    let mut readings: Vec<_> = readings.collect();
    readings.sort_by_key(|(_, clock)| clock.ahead_ms);
    let (Some((slow, first)), Some((fast, last))) = (readings.first(), readings.last()) else {
        return Vec::new();
    };
    let uncertain = first.uncertainty_ms.saturating_add(last.uncertainty_ms);
    let between = last.ahead_ms.abs_diff(first.ahead_ms).saturating_sub(uncertain);
    let mut findings = Vec::new();
    if readings.len() > 1 {
        let what = format!("{fast} is {between} ms ahead of {slow}");
        let why = "every server judges deadlines, leases and delays by its own clock; a failover \
                   to another clock moves them";
        findings.push(match between {
            SKEW_ERROR_MS.. => Finding::error(CHECK, what).because(why).run("chronyc makestep"),
            SKEW_WARNING_MS.. => Finding::warning(CHECK, what).because(why).run("chronyc makestep"),
            _ => Finding::ok(CHECK, "the servers agree"),
        });
    }
    let ahead = first.ahead_ms.unsigned_abs().saturating_sub(first.uncertainty_ms);
    if ahead >= SKEW_ERROR_MS {
        let what = format!("this machine and {slow} differ by {ahead} ms");
        let why = "times that this command shows, and delays until a date, are off by that much";
        findings.push(Finding::note(CHECK, what).because(why));
    }
    findings
}

/// Compares the stored partition counts with the configured ones.
pub(super) fn check_partitions(facts: &Facts) -> Finding {
    const CHECK: &str = "partitions";
    let counts = |counts: &crate::partition::PartitionCounts| {
        format!("{} flow, {} budget, {} quota", counts.flow, counts.budget, counts.quota)
    };
    let stored = match &facts.stored_partitions {
        Ok(Some(stored)) => stored,
        Ok(None) => {
            return Finding::note(CHECK, "not stored yet: no engine has started here");
        }
        Err(why) => return Finding::note(CHECK, format!("cannot be read: {why}")),
    };
    let what = counts(stored);
    match &facts.configured_partitions {
        Some(configured) if configured != stored => {
            let what = format!("{what}; this configuration has {}", counts(configured));
            let why = "an engine with other counts refuses to start: every key would move";
            Finding::error(CHECK, what).because(why).run(format!(
                "export FF_FLOW_PARTITIONS={} FF_BUDGET_PARTITIONS={} FF_QUOTA_PARTITIONS={}",
                stored.flow, stored.budget, stored.quota
            ))
        }
        Some(_) | None => Finding::ok(CHECK, what),
    }
}

fn number(fields: &Fields, name: &str) -> Option<u64> {
    fields.get(name)?.trim().parse().ok()
}

/// A number of bytes as people read it.
fn size(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["B", "KiB", "MiB", "GiB"];
    let mut value = bytes;
    let mut unit = 0;
    while value >= 10_240 && unit + 1 < UNITS.len() {
        value /= 1_024;
        unit += 1;
    }
    format!("{value} {}", UNITS[unit])
}
