//! `GroupCounts`: counters of flows, dependencies and edge groups equal what they count, and a
//! group's state follows from its counters.

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::{Execution, Fields, Findings, Moment, Oracle, Reach, Snapshot, Subject};
use crate::id::{EdgeId, ExecutionId, FlowId};
use crate::key::{ExecutionPart, FlowKeys, FlowPart, Key};
use crate::partition::Partition;

pub(super) const ORACLE: Oracle = Oracle {
    name: "GroupCounts",
    statement: "counters of flows, dependencies and edge groups equal what they count, and a \
                group's state follows from its counters",
    moment: Moment::Always,
    reach: Reach::Partition,
    look,
};

fn look(snapshot: &Snapshot, subject: &Subject, findings: &mut Findings) {
    match subject {
        Subject::Execution(_) => {
            if let Some(execution) = subject.execution_in(snapshot)
                && !execution.is_being_purged()
            {
                child(snapshot, &execution, &dependencies(snapshot, execution.id), findings);
            }
        }
        Subject::Flow(partition, id) => {
            if let Some(core) = snapshot.hash(&Key::flow(*partition, *id).core()) {
                graph(snapshot, *partition, *id, core, findings);
            }
        }
        Subject::Key(key @ Key::Flow(partition, flow, FlowPart::Edge(edge))) => {
            let flow = Key::flow(*partition, *flow);
            if let Some(record) = snapshot.hash(key)
                && !is_being_purged(snapshot, &flow)
            {
                let listed = is_listed(snapshot, &flow, *edge, record);
                findings.expect(listed, key, || String::from("is not listed at both its ends"));
            }
        }
        Subject::Key(_) | Subject::ForeignKey(_) => {}
    }
}

/// The dependencies of one child, by their state.
#[derive(Default)]
struct Dependencies {
    all: BTreeSet<String>,
    open: BTreeSet<String>,
    satisfied: i64,
    impossible: i64,
}

fn dependencies(snapshot: &Snapshot, child: &ExecutionId) -> Dependencies {
    let mut found = Dependencies::default();
    for (part, entry) in snapshot.of_execution(child) {
        let ExecutionPart::Dependency(edge) = part else { continue };
        found.all.insert(edge.to_string());
        match entry.fields().map(|dependency| dependency.text("state")) {
            Some("satisfied") => found.satisfied += 1,
            Some("impossible") => found.impossible += 1,
            _ => drop(found.open.insert(edge.to_string())),
        }
    }
    found
}

fn child(
    snapshot: &Snapshot,
    execution: &Execution<'_>,
    dependencies: &Dependencies,
    findings: &mut Findings,
) {
    let keys = Key::execution(execution.id);
    for (key, expected) in [
        (keys.dependencies_unresolved(), &dependencies.open),
        (keys.dependencies_all(), &dependencies.all),
    ] {
        let found = snapshot.set(&key);
        findings.expect(found == expected, &key, || differs(found, expected));
    }
    let (group_key, group) = snapshot.group_of(execution).unzip();
    let group = group.flatten();
    let variant = group.map(|group| group.text("policy_variant")).unwrap_or_default();
    if variant != "any_of" && variant != "quorum" {
        let meta = snapshot.hash(&keys.dependency_meta());
        for (name, expected) in [
            ("unsatisfied_required_count", count(dependencies.open.len())),
            ("impossible_required_count", dependencies.impossible),
        ] {
            let found = meta.map(|meta| meta.number(name)).unwrap_or_default();
            findings.expect(found == expected, execution.id, || {
                format!("{name} is {found}, but {expected} of its edges are in that state")
            });
        }
    }
    match (&group_key, group) {
        (Some(key), Some(group)) => {
            let ended = execution.vector().is_ok_and(|vector| vector.is_terminal());
            group_follows(key, group, dependencies, ended, findings);
            // Until the seal of the flow, edges of a wide join may be still to come.
            let (n, edges) = (group.number("n"), count(dependencies.all.len()));
            let unsealed = !execution.core.text("unsealed").is_empty();
            findings.expect(n == edges || unsealed && n > edges, key, || {
                format!("counts {n} edges, but {edges} edges lead to its execution")
            });
        }
        (Some(key), None) => findings.expect(dependencies.all.is_empty(), key, || {
            format!("is missing: {} edges lead to its execution", dependencies.all.len())
        }),
        (None, _) => {}
    }
}

/// Which members a set lacks, and which it should not have.
fn differs(found: &BTreeSet<String>, expected: &BTreeSet<String>) -> String {
    let list = |of: &BTreeSet<String>, without: &BTreeSet<String>| {
        of.difference(without).cloned().collect::<Vec<_>>().join(", ")
    };
    let (missing, surplus) = (list(expected, found), list(found, expected));
    match (missing.is_empty(), surplus.is_empty()) {
        (false, true) => format!("lacks {missing}"),
        (true, false) => format!("should not list {surplus}"),
        _ => format!("lacks {missing}, and should not list {surplus}"),
    }
}

fn group_follows(
    key: &Key,
    group: Fields<'_>,
    dependencies: &Dependencies,
    ended: bool,
    findings: &mut Findings,
) {
    let (succeeded, lost) =
        (group.number("succeeded"), group.number("failed") + group.number("skipped"));
    for (name, found, expected) in [
        ("succeeded", succeeded, dependencies.satisfied),
        ("failed + skipped", lost, dependencies.impossible),
    ] {
        findings.expect(found == expected, key, || {
            format!("{name} is {found}, but {expected} edges are in that state")
        });
    }
    let needed = match group.text("policy_variant") {
        "any_of" => 1,
        "quorum" => group.number("k").max(1),
        _ => return,
    };
    // One upstream is one voice, however many edges lead from it.
    let enough = succeeded - group.number("repeats_succeeded") >= needed;
    let state = group.text("group_state");
    let voices = group.number("n") - group.number("repeats");
    let hopeless = lost - group.number("repeats_lost") > voices - needed;
    let follows = match state {
        "satisfied" => enough,
        "pending" => !enough,
        // An edge may still be applied to a child that was skipped: it changes no verdict.
        "impossible" => hopeless || ended,
        _ => true,
    };
    findings
        .expect(follows, key, || format!("is {state} with {succeeded} succeeded, {needed} needed"));
}

/// The graph of a flow: its members, its edges, and both ends of each.
fn graph(
    snapshot: &Snapshot,
    partition: Partition,
    id: FlowId,
    core: Fields<'_>,
    findings: &mut Findings,
) {
    let flow = Key::flow(partition, id);
    if is_being_purged(snapshot, &flow) {
        return;
    }
    let members = count(snapshot.set(&flow.members()).len());
    findings.expect(core.number("node_count") == members, id, || {
        format!("has {members} members, counts {}", core.number("node_count"))
    });
    let (mut edges, mut leaving, mut entering) = (0, 0, 0);
    for (part, entry) in snapshot.of_flow(partition, id) {
        match part {
            FlowPart::Edge(_) => edges += 1,
            FlowPart::Out(_) => leaving += count(entry.members()),
            FlowPart::In(_) => entering += count(entry.members()),
            _ => {}
        }
    }
    let counted = core.number("edge_count");
    for (what, found) in [
        ("has records of", edges),
        ("lists, at the executions that they come from,", leaving),
        ("lists, at the executions that they lead to,", entering),
    ] {
        findings.expect(found == counted, id, || {
            format!("{what} {found} edges, but its record counts {counted}")
        });
    }
}

/// Whether an edge stands in the sets of both its ends.
fn is_listed(snapshot: &Snapshot, flow: &FlowKeys, edge: EdgeId, record: Fields<'_>) -> bool {
    let at = |field: &str, end: fn(&FlowKeys, &ExecutionId) -> Key| {
        let named = record.text(field).parse();
        named.is_ok_and(|named| snapshot.set(&end(flow, &named)).contains(&edge.to_string()))
    };
    at("upstream_execution_id", FlowKeys::out_of) && at("downstream_execution_id", FlowKeys::in_to)
}

/// A purge takes the edges first and the record last.
fn is_being_purged(snapshot: &Snapshot, flow: &FlowKeys) -> bool {
    snapshot.hash(&flow.summary()).is_some_and(|summary| !summary.text("purge").is_empty())
}

fn count(items: usize) -> i64 {
    i64::try_from(items).unwrap_or(i64::MAX)
}
