//! `GroupCounts`

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::{String, ToString};

use super::{Execution, Fields, Findings, Oracle, Snapshot};
use crate::id::{ExecutionId, FlowId};
use crate::key::{ExecutionPart, FlowPart, Key};
use crate::partition::Partition;

pub(super) const ORACLE: Oracle = Oracle {
    name: "GroupCounts",
    statement: "counters of flows, dependencies and edge groups equal what they count, and a \
                group's state follows from its counters",
    look,
};

fn look(snapshot: &Snapshot, findings: &mut Findings) {
    let dependencies = dependencies(snapshot);
    let none = Dependencies::default();
    for execution in snapshot.executions() {
        if !execution.is_being_purged() {
            let of_child = dependencies.get(execution.id).unwrap_or(&none);
            child(snapshot, &execution, of_child, findings);
        }
    }
    for (partition, id, core) in snapshot.flows() {
        graph(snapshot, partition, id, core, findings);
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

fn dependencies(snapshot: &Snapshot) -> BTreeMap<&ExecutionId, Dependencies> {
    let mut found: BTreeMap<_, Dependencies> = BTreeMap::new();
    for (key, _) in snapshot.iter() {
        let Key::Execution(child, ExecutionPart::Dependency(edge)) = key else { continue };
        let of_child = found.entry(child).or_default();
        of_child.all.insert(edge.to_string());
        match snapshot.hash(key).map(|dependency| dependency.text("state")) {
            Some("satisfied") => of_child.satisfied += 1,
            Some("impossible") => of_child.impossible += 1,
            _ => drop(of_child.open.insert(edge.to_string())),
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
        findings.expect(found == expected, &key, || format!("holds {found:?}, not {expected:?}"));
    }
    let flow = execution.core.text("flow_id").parse::<FlowId>();
    let group_key =
        flow.map(|flow| Key::flow(execution.partition(), flow).edge_group(execution.id));
    let group = group_key.as_ref().ok().and_then(|key| snapshot.hash(key));
    let variant = group.map(|group| group.text("policy_variant")).unwrap_or_default();
    if variant != "any_of" && variant != "quorum" {
        let meta = snapshot.hash(&keys.dependency_meta());
        for (name, expected) in [
            ("unsatisfied_required_count", count(dependencies.open.len())),
            ("impossible_required_count", dependencies.impossible),
        ] {
            let found = meta.map(|meta| meta.number(name)).unwrap_or_default();
            findings.expect(found == expected, execution.id, || {
                format!("{name} is {found}, {expected} edges are")
            });
        }
    }
    if let (Ok(key), Some(group)) = (&group_key, group) {
        group_follows(key, group, dependencies, findings);
    }
}

fn group_follows(
    key: &Key,
    group: Fields<'_>,
    dependencies: &Dependencies,
    findings: &mut Findings,
) {
    let (succeeded, lost) =
        (group.number("succeeded"), group.number("failed") + group.number("skipped"));
    for (name, found, expected) in [
        ("n", group.number("n"), count(dependencies.all.len())),
        ("succeeded", succeeded, dependencies.satisfied),
        ("failed + skipped", lost, dependencies.impossible),
    ] {
        findings
            .expect(found == expected, key, || format!("{name} is {found}, {expected} edges are"));
    }
    let needed = match group.text("policy_variant") {
        "any_of" => 1,
        "quorum" => group.number("k").max(1),
        _ => return,
    };
    // One upstream is one voice, however many edges lead from it.
    let enough = succeeded - group.number("repeats_succeeded") >= needed;
    let state = group.text("group_state");
    let follows = match state {
        "satisfied" => enough,
        "pending" => !enough,
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
    // A purge takes the edges first and the record last.
    if snapshot.hash(&flow.summary()).is_some_and(|summary| !summary.text("purge").is_empty()) {
        return;
    }
    let members = count(snapshot.set(&flow.members()).len());
    findings.expect(core.number("node_count") == members, id, || {
        format!("has {members} members, counts {}", core.number("node_count"))
    });
    let (mut edges, mut leaving, mut entering) = (0, 0, 0);
    for (key, _) in snapshot.iter() {
        let Key::Flow(of, flow_id, part) = key else { continue };
        if *of != partition || *flow_id != id {
            continue;
        }
        match part {
            FlowPart::Edge(edge) => {
                edges += 1;
                let edge = edge.to_string();
                let record = snapshot.hash(key);
                let at = |field: &str, end: fn(&crate::key::FlowKeys, &ExecutionId) -> Key| {
                    let named = record.map(|record| record.text(field)).unwrap_or_default();
                    named
                        .parse()
                        .is_ok_and(|named| snapshot.set(&end(&flow, &named)).contains(&edge))
                };
                let linked = at("upstream_execution_id", crate::key::FlowKeys::out_of)
                    && at("downstream_execution_id", crate::key::FlowKeys::in_to);
                findings.expect(linked, key, || String::from("is not listed at both its ends"));
            }
            FlowPart::Out(_) => leaving += count(snapshot.set(key).len()),
            FlowPart::In(_) => entering += count(snapshot.set(key).len()),
            _ => {}
        }
    }
    let counted = core.number("edge_count");
    findings.expect([edges, leaving, entering] == [counted; 3], id, || {
        format!("{edges} edges, {leaving} leave, {entering} enter, {counted} are counted")
    });
}

fn count(items: usize) -> i64 {
    i64::try_from(items).unwrap_or(i64::MAX)
}
