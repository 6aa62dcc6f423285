//! Faults that are injected at a time, and how they end.

use selvedge_core::engine::Input;

use super::call::refusal;
use crate::event::Actor;
use crate::plan::FaultRule;
use crate::world::World;
use crate::world::random_streams::Purpose;

/// The default duration of a fault.
pub(super) const DURATION_MS: u64 = 5_000;
/// The end of a fault.
#[derive(Clone, Copy, Debug)]
pub(crate) enum FaultEnd {
    /// A node serves again.
    Outage(usize),
    /// A node has memory again.
    Memory(usize),
    /// All clients know the new primary, and the branch of the old one is dropped.
    Split { shard: usize, old: usize, since: u64 },
    /// The keys of a slot move.
    HandOver(u16),
    /// A slot has moved.
    Move(u16),
    /// Some keys of a slot move; so many times more will follow.
    MigrateKeys(u16, u64),
    /// A slot has moved key by key.
    KeyMove(u16),
    /// An engine handles all tenants again.
    Filter(u8),
    /// An engine subscribes again.
    Pushes(u8),
    /// A worker has its capacity again.
    Capacity(u8),
    /// A stopped engine is replaced.
    Stop(u8),
    /// An additional engine is removed.
    Flood(u8),
    /// The other program checks its library on this node, until this time.
    ReplaceLibrary(usize, u64),
}

impl World {
    /// Injects a fault of the plan at its time.
    pub(crate) fn inject_timed(&mut self, at: usize) {
        if !self.faults_are_on() {
            return;
        }
        let (rule, before) = (self.rule(at).clone(), self.injections.count());
        if let Some(text) = refusal(rule.fault) {
            self.outage(&rule, text);
        } else {
            self.inject_node_fault(&rule);
            self.inject_engine_fault(&rule);
            self.inject_worker_fault(&rule);
            self.inject_link_fault(&rule);
            self.inject_data_fault(&rule);
        }
        self.injections.note_fired(&[at], before);
    }

    /// The duration of a fault. All faults end with the fault phase.
    pub(super) fn duration_ms(&self, rule: &FaultRule) -> u64 {
        let left_ms = self.plan.config.length.0.saturating_sub(self.now_ms);
        rule.lasting_ms.unwrap_or(DURATION_MS).min(left_ms.max(1))
    }

    /// The node that a rule names, or a random primary.
    pub(crate) fn node_of(&mut self, rule: &FaultRule) -> usize {
        match rule.to {
            Some(Actor::Node(number))
                if usize::from(number) <= self.network.servers.nodes.len() =>
            {
                usize::from(number).saturating_sub(1)
            }
            _ => {
                let shards = self.network.servers.shards() as u64;
                let drawn = self.random(Purpose::Faults, Actor::World).below(shards);
                self.network.servers.primary(usize::try_from(drawn).unwrap_or(0))
            }
        }
    }

    /// Ends a fault.
    pub(crate) fn end_fault(&mut self, fault_end: FaultEnd) {
        match fault_end {
            FaultEnd::Outage(node) => self.network.servers.nodes[node].outage = None,
            FaultEnd::Memory(node) => self.network.servers.nodes[node].keys_max = None,
            FaultEnd::Split { shard, old, since } => {
                let ended = |split: &FaultEnd| {
                    let FaultEnd::Split { old: of, .. } = split else { return false };
                    *of == old
                };
                self.injections.splits.retain(|split| !ended(split));
                self.network.links.stale_primary.retain(|(_, of), _| *of != shard);
                let lost = self.network.servers.heal(old, since, self.now_ms);
                self.record_loss(old, lost);
            }
            FaultEnd::HandOver(slot) => self.finish_hand_over(slot),
            FaultEnd::Move(slot) => {
                self.finish_hand_over(slot);
                self.network.servers.moves.remove(&slot);
            }
            FaultEnd::MigrateKeys(slot, left) => self.migrate_keys(slot, left),
            FaultEnd::KeyMove(slot) => self.end_key_move(slot),
            FaultEnd::Filter(engine) => {
                if let Some(engine_process) = self.engine_process(engine) {
                    engine_process.config.filter.namespace = None;
                }
                self.kill_engine(engine, 10);
            }
            FaultEnd::Pushes(engine) => self.engine_input(engine, None, Input::PushGap),
            FaultEnd::Capacity(worker) => self.restore_capacity(worker),
            FaultEnd::Stop(engine) => self.kill_engine(engine, 10),
            FaultEnd::ReplaceLibrary(node, until_ms) => self.replace_library_again(node, until_ms),
            FaultEnd::Flood(engine) => {
                if let Some(engine_process) = self.engine_process(engine) {
                    engine_process.gone = true;
                }
                self.kill_engine(engine, 0);
            }
        }
    }
}
