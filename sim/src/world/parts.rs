//! The parts of a world, each with its own state: servers and links, clients, the faults that were
//! injected, and the judges.

use std::collections::BTreeMap;

use selvedge_core::id::ExecutionId;
use selvedge_core::partition::{Partition, PartitionCounts};

use super::servers::Servers;
use super::transport::{Batch, Links};
use crate::actor::Names;
use crate::actor::caller::Caller;
use crate::actor::signal::KnownWaitpoint;
use crate::actor::worker::Worker;
use crate::event::{Actor, Event, EventKind, Phase};
use crate::fault::timed::FaultEnd;
use crate::fault::{Fault, FaultCounts};
use crate::oracle::{self, OracleSet, View, Violation};
use crate::plan::{FaultRule, Plan};
use crate::trace::Trace;

/// Servers, the links to them, and what is on its way.
pub(crate) struct Network {
    pub(crate) servers: Servers,
    pub(crate) links: Links,
    pub(crate) batches: BTreeMap<u64, Batch>,
    pub(crate) next_call: u64,
    pub(crate) next_batch: u64,
}

impl Network {
    pub(super) fn new(servers: Servers) -> Self {
        let (links, batches) = (Links::default(), BTreeMap::new());
        Self { servers, links, batches, next_call: 0, next_batch: 0 }
    }
}

/// Workers, callers and signallers, and what they know.
pub(crate) struct Clients {
    pub(crate) workers: Vec<Worker>,
    pub(crate) callers: BTreeMap<Actor, Caller>,
    pub(crate) waitpoints: Vec<KnownWaitpoint>,
    /// How often each execution was claimed.
    pub(crate) claims: BTreeMap<ExecutionId, usize>,
    pub(crate) names: Names,
    pub(crate) next_action: u64,
}

impl Clients {
    pub(super) fn new(counts: PartitionCounts) -> Self {
        Self {
            workers: Vec::new(),
            callers: BTreeMap::new(),
            waitpoints: Vec::new(),
            claims: BTreeMap::new(),
            names: Names::new(counts),
            next_action: 0,
        }
    }
}

/// The faults of the plan: which were injected, and until when they have an effect.
pub(crate) struct Injections {
    /// How many calls each rule has matched.
    pub(crate) seen_calls: Vec<u32>,
    /// Which faults of the plan were injected.
    fired: Vec<bool>,
    /// How many faults were injected.
    injected: u64,
    /// The longest duration of any fault of the plan.
    fault_lasts_ms: u64,
    /// Until when faults other than slow links and high load have an effect.
    pub(crate) disturbed_until_ms: u64,
    /// Until when faults have an effect that can cost a worker its lease.
    pub(crate) leases_risked_until_ms: u64,
    /// Split brains that have not ended.
    pub(crate) splits: Vec<FaultEnd>,
    /// Keys of a foreign client, until it removes them.
    pub(crate) foreign_keys: Vec<(Partition, String)>,
}

impl Injections {
    pub(super) fn new(plan: &Plan) -> Self {
        Self {
            seen_calls: vec![0; plan.faults.len()],
            fired: vec![false; plan.faults.len()],
            injected: 0,
            fault_lasts_ms: plan.faults.iter().map(FaultRule::lasts_ms).max().unwrap_or(0),
            disturbed_until_ms: 0,
            leases_risked_until_ms: 0,
            splits: Vec::new(),
            foreign_keys: Vec::new(),
        }
    }

    /// Counts a fault that is injected now.
    pub(super) fn record(&mut self, fault: Fault, now_ms: u64, counts: &mut FaultCounts) {
        *counts.entry(fault).or_default() += 1;
        self.injected += 1;
        let end = now_ms + self.fault_lasts_ms;
        if !fault.only_adds_load() {
            self.disturbed_until_ms = self.disturbed_until_ms.max(end);
        }
        if !fault.spares_leases() {
            self.leases_risked_until_ms = self.leases_risked_until_ms.max(end);
        }
    }

    /// All faults end now.
    pub(super) fn end(&mut self, now_ms: u64) {
        self.disturbed_until_ms = now_ms;
        self.leases_risked_until_ms = self.leases_risked_until_ms.min(now_ms);
    }

    /// How many faults were injected so far.
    pub(crate) const fn count(&self) -> u64 {
        self.injected
    }

    /// Marks these faults of the plan as injected, if any fault was injected since.
    pub(crate) fn note_fired(&mut self, rules: &[usize], injected_before: u64) {
        if self.injected > injected_before {
            rules.iter().for_each(|at| self.fired[*at] = true);
        }
    }

    /// The faults of the plan that were not injected, by their position in the plan.
    pub(super) fn unused(&self) -> Vec<usize> {
        (0..self.fired.len()).filter(|at| !self.fired[*at]).collect()
    }
}

/// The oracles and marks, what they have found, and the trace.
pub(crate) struct Judges {
    pub(crate) trace: Trace,
    pub(super) oracles: OracleSet,
    violations: Vec<Violation>,
    ordinal: u64,
}

impl Judges {
    pub(super) fn new(oracles: OracleSet, tail: usize) -> Self {
        Self { trace: Trace::new(tail), oracles, violations: Vec::new(), ordinal: 0 }
    }

    /// The next event.
    pub(super) fn event(&mut self, at_ms: u64, actor: Actor, kind: EventKind) -> Event {
        let ordinal = self.ordinal;
        self.ordinal += 1;
        Event { at_ms, ordinal, actor, kind }
    }

    /// Checks an event with the history oracles.
    pub(super) fn on_event(&mut self, event: &Event, view: &View<'_>) {
        let found = self.oracles.on_event(event, view);
        self.note(found, view.phase);
    }

    /// Runs the state oracles on the records that the last call changed.
    pub(super) fn audit_touched(&mut self, servers: &mut Servers, phase: Phase) {
        let Servers { audited, commit_log, .. } = servers;
        let found: Vec<Violation> =
            audited.iter_mut().flat_map(|shard| oracle::audit_touched(shard, commit_log)).collect();
        let found = self.oracles.selected(found);
        self.note(found, phase);
    }

    /// Records findings, each once. Before the end of the run, findings with an excuse are left
    /// out: the damage may still be repaired.
    pub(super) fn note(&mut self, found: Vec<Violation>, phase: Phase) {
        for found in found {
            let early = found.excuse.is_some() && phase < Phase::Rest;
            if !early && !self.violations.contains(&found) {
                self.violations.push(found);
            }
        }
    }

    /// The findings so far.
    pub(super) fn violations(&self) -> &[Violation] {
        &self.violations
    }
}
