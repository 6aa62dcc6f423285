//! Checks of a cluster: its state, its coverage, failed nodes, replicas.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::{Facts, Finding};
use crate::partition::SLOTS;

/// A cluster as one of its servers describes it.
#[derive(Clone, Debug, Default)]
pub struct ClusterFacts {
    /// The fields of `CLUSTER INFO`.
    pub info: BTreeMap<String, String>,
    /// The nodes of `CLUSTER NODES`.
    pub nodes: Vec<ClusterNode>,
    /// Whether every server refuses work while any slot has no server; none when not known.
    pub requires_full_coverage: Option<bool>,
}

/// One line of `CLUSTER NODES`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterNode {
    /// Its id.
    pub id: String,
    /// Where it listens.
    pub address: String,
    /// The node that it replicates; none for a primary.
    pub primary: Option<String>,
    /// Whether others cannot reach it, or suspect so.
    pub failed: bool,
    /// Whether it owns slots.
    pub owns_slots: bool,
}

impl ClusterNode {
    /// Reads the reply of `CLUSTER NODES`. A line that cannot be read is skipped.
    #[must_use]
    pub fn read_all(text: &str) -> Vec<Self> {
        text.lines().filter_map(Self::read).collect()
    }

    fn read(line: &str) -> Option<Self> {
        let mut words = line.split_whitespace();
        let (id, address, flags, primary) =
            (words.next()?, words.next()?, words.next()?, words.next()?);
        let link = words.nth(3)?;
        // A slot that migrates is written as [slot->-node].
        let owns_slots = words.any(|word| !word.starts_with('['));
        let flag = |name: &str| flags.split(',').any(|flag| flag == name);
        let down = flag("fail") || flag("fail?") || flag("noaddr") || link == "disconnected";
        Some(Self {
            id: id.to_string(),
            address: address.split('@').next().unwrap_or(address).to_string(),
            primary: (primary != "-").then(|| primary.to_string()),
            failed: down && !flag("myself"),
            owns_slots,
        })
    }
}

pub(super) fn check(cluster: &ClusterFacts, facts: &Facts) -> Vec<Finding> {
    let mut findings = Vec::new();
    let answers = facts.servers.iter().find(|server| server.silent.is_none());
    let address = answers.map_or("HOST:PORT", |server| server.address.as_str());
    findings.push(coverage(cluster, address));
    // A primary that does not answer has a finding already.
    let known = |node: &ClusterNode| {
        facts.servers.iter().any(|server| server.silent.is_some() && server.address == node.address)
    };
    for node in cluster.nodes.iter().filter(|node| node.failed && !known(node)) {
        let kind = if node.primary.is_some() { "replica" } else { "primary" };
        let finding = Finding::warning("cluster", format!("the {kind} does not answer"));
        let why = match kind {
            "replica" => "one replica less can take over for its primary",
            _ => "its partitions stand still until a replica takes over",
        };
        findings
            .push(finding.because(why).run_on(address, &["CLUSTER", "NODES"]).on(&node.address));
    }
    findings.extend(replicas(cluster));
    if cluster.requires_full_coverage == Some(true) {
        let why = "while one shard is down, every server refuses work, also for partitions of the \
                   others, which could go on";
        findings.push(
            Finding::note("cluster coverage", "cluster-require-full-coverage yes")
                .because(why)
                .run(format!(
                    "valkey-cli --cluster call {address} \
                     CONFIG SET cluster-require-full-coverage no"
                )),
        );
    }
    findings
}

fn coverage(cluster: &ClusterFacts, address: &str) -> Finding {
    const CHECK: &str = "cluster state";
    let field = |name: &str| cluster.info.get(name).map_or("unknown", String::as_str);
    let (state, ok) = (field("cluster_state"), field("cluster_slots_ok"));
    let what = format!("{state}, {ok} of {SLOTS} slots served");
    if state == "ok" && ok == SLOTS.to_string() {
        return Finding::ok(CHECK, what);
    }
    let why = "partitions whose slots have no server stand still";
    Finding::error(CHECK, what).because(why).run(format!("valkey-cli --cluster check {address}"))
}

/// Primaries with fewer replicas than the others have.
fn replicas(cluster: &ClusterFacts) -> Vec<Finding> {
    const CHECK: &str = "cluster replicas";
    let of = |primary: &ClusterNode| {
        let replicates = |node: &&ClusterNode| node.primary.as_ref() == Some(&primary.id);
        cluster.nodes.iter().filter(replicates).filter(|node| !node.failed).count()
    };
    let primaries = cluster.nodes.iter().filter(|node| node.primary.is_none() && node.owns_slots);
    let counts: Vec<(&ClusterNode, usize)> = primaries.map(|node| (node, of(node))).collect();
    let most = counts.iter().map(|(_, count)| *count).max().unwrap_or(0);
    let mut findings = Vec::new();
    if most == 0 {
        let why = "the partitions of a server that fails stand still until it is back";
        findings.push(Finding::note(CHECK, "no primary has a replica").because(why));
    } else if counts.iter().all(|(_, count)| *count == most) {
        findings.push(Finding::ok(CHECK, format!("{most} for each primary")));
    }
    for (node, count) in counts.into_iter().filter(|(_, count)| *count < most) {
        let what = format!("{count} of {most} replicas");
        let why = match count {
            0 => "nothing takes over when this primary fails; make a new node its replica",
            _ => "the others have more; make a new node its replica",
        };
        let replicate = ["CLUSTER", "REPLICATE", node.id.as_str()];
        let finding = Finding::warning(CHECK, what).because(why);
        findings.push(finding.run_on("NEW_HOST:NEW_PORT", &replicate).on(&node.address));
    }
    findings
}
