//! Faults of nodes: outages, failovers, lost data, libraries, clocks and moving slots.

use selvedge_core::partition::Partition;

use super::Fault;
use super::call::reads_pass;
use super::timed::{DURATION_MS, FaultEnd};
use crate::canary::{PlantedBug, WorldBug};
use crate::event::{Actor, EventKind};
use crate::plan::FaultRule;
use crate::search::Ratio;
use crate::world::random_streams::Purpose;
use crate::world::servers::{Move, Outage};
use crate::world::transport::number;
use crate::world::{Scheduled, World};

/// How often the other program checks that its library is still there.
const REPLACE_AGAIN_MS: u64 = 1_200;
/// Another library under our name.
const FOREIGN_LIBRARY: &str = "#!lua name=flowfabric\nserver.register_function{function_name='ff_version', callback=function() return '33' end, flags={'no-writes'}}";

impl World {
    pub(super) fn outage(&mut self, rule: &FaultRule, text: &str) {
        let node = self.node_of(rule);
        let until_ms = self.now_ms + self.duration_ms(rule);
        self.record_fault(rule.fault, Actor::Node(number(node)).to_string());
        if let (Fault::OutOfMemory, Some(keys)) = (rule.fault, rule.amount) {
            self.network.servers.nodes[node].keys_max = usize::try_from(keys).ok();
            return self.schedule(until_ms, Scheduled::FaultEnd(FaultEnd::Memory(node)));
        }
        let reads_pass = reads_pass(rule.fault);
        let outage = Outage { error: text.to_owned(), reads_pass, until_ms };
        self.network.servers.nodes[node].outage = Some(outage);
        self.schedule(until_ms, Scheduled::FaultEnd(FaultEnd::Outage(node)));
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "the other faults are injected elsewhere")]
    pub(super) fn inject_node_fault(&mut self, rule: &FaultRule) {
        let amount = rule.amount.unwrap_or(0);
        let positive = u64::try_from(amount).ok();
        match rule.fault {
            Fault::FailoverLosesSuffix => {
                let node = self.node_of(rule);
                let shard = self.network.servers.nodes[node].shard;
                let losing = positive.unwrap_or(1);
                self.record_fault(rule.fault, format!("shard {shard}, {losing} commits"));
                self.fail_over(shard, losing);
            }
            Fault::SplitBrainBranch => self.split_brain(rule),
            Fault::AmnesiaRestart => {
                let node = self.node_of(rule);
                let shard = self.network.servers.nodes[node].shard;
                let age = positive.filter(|age| *age > 0);
                self.end_key_moves();
                self.record_fault(rule.fault, format!("shard {shard}, {amount} ms"));
                let lost = self.network.servers.restart_with_loss(shard, age, self.now_ms);
                let primary = self.network.servers.primary(shard);
                if age.is_none() {
                    self.network.servers.drop_library(primary);
                }
                self.record_loss(primary, lost);
            }
            Fault::LibraryMissing => {
                let node = self.node_of(rule);
                self.record_fault(rule.fault, Actor::Node(number(node)).to_string());
                self.network.servers.drop_library(node);
            }
            Fault::LibraryReplaced => {
                let node = self.node_of(rule);
                self.record_fault(rule.fault, Actor::Node(number(node)).to_string());
                self.network.servers.replace_library(node, FOREIGN_LIBRARY);
                let end = self.now_ms + self.duration_ms(rule);
                self.schedule(
                    self.now_ms + REPLACE_AGAIN_MS,
                    Scheduled::FaultEnd(FaultEnd::ReplaceLibrary(node, end)),
                );
            }
            Fault::NodeClockSkew if self.network.servers.shards() < 2 => {}
            Fault::ServerClockJump | Fault::NodeClockSkew => {
                let node = self.node_of(rule);
                self.record_fault(rule.fault, format!("node-{} by {amount} ms", number(node)));
                self.network.servers.nodes[node].skew_ms += amount;
            }
            Fault::SlotMovesByKeys if self.network.servers.shards() > 1 => {
                let slot = self.slot_of(rule);
                self.begin_key_move(slot, self.duration_ms(rule));
            }
            Fault::SlotMove if self.network.servers.shards() > 1 => {
                let slot = self.slot_of(rule);
                self.begin_move(slot);
                let half = self.duration_ms(rule) / 2;
                self.schedule(self.now_ms + half, Scheduled::FaultEnd(FaultEnd::HandOver(slot)));
                self.schedule(self.now_ms + 2 * half, Scheduled::FaultEnd(FaultEnd::Move(slot)));
            }
            _ => {}
        }
    }

    /// The slot of the flow partition that a rule names, or of a random one.
    pub(super) fn slot_of(&mut self, rule: &FaultRule) -> u16 {
        let named = rule.subject.as_ref().and_then(|text| text.strip_prefix("fp:")?.parse().ok());
        let partitions = self.plan.config.flow_partitions.max(1);
        let drawn = self.random(Purpose::Faults, Actor::World).below(partitions);
        let index: u16 = named.unwrap_or((drawn % 65_536) as u16);
        Partition::flow(index).slot()
    }

    /// Starts to move a slot to the next shard.
    pub(crate) fn begin_move(&mut self, slot: u16) {
        let from = self.network.servers.owner(slot);
        let to = (from + 1) % self.network.servers.shards();
        let moves = self.network.servers.moves.contains_key(&slot)
            || self.network.servers.key_move(slot).is_some();
        if moves || from == to {
            return;
        }
        self.record_fault(Fault::SlotMove, format!("slot {slot} from shard {from} to {to}"));
        self.network.servers.moves.insert(slot, Move { from, to, handed_over: false });
        let end = self.now_ms + DURATION_MS;
        self.schedule(end, Scheduled::FaultEnd(FaultEnd::Move(slot)));
    }

    /// Moves the keys of a moving slot.
    pub(crate) fn finish_hand_over(&mut self, slot: u16) {
        let Some(step) = self.network.servers.moves.get_mut(&slot) else { return };
        if std::mem::replace(&mut step.handed_over, true) {
            return;
        }
        let to = step.to;
        self.network.servers.hand_over(slot, to, self.now_ms);
    }

    /// Fails a shard over and records the lost commits.
    pub(crate) fn fail_over(&mut self, shard: usize, losing: u64) {
        self.end_key_moves();
        let node = self.network.servers.primary(shard);
        let lost = self.network.servers.fail_over(shard, losing, self.now_ms);
        if self.bug == Some(PlantedBug::World(WorldBug::LossNotRecorded)) {
            return self.network.servers.commit_log.conceal_losses();
        }
        self.record_loss(node, lost);
    }

    /// Emits the lost commits, and provisions the deployment again, as an operator would.
    pub(super) fn record_loss(&mut self, node: usize, lost: Option<(u64, u64)>) {
        if let Some((first, last)) = lost {
            let (primary, node) = (node, number(node));
            self.emit(Actor::Node(node), EventKind::CommitsLost { node, first, last });
            // The node may have no library, which provisioning needs: load it, and then remove it
            // again.
            let before = self.network.servers.install_library(primary);
            self.provision();
            self.network.servers.restore_libraries(primary, &before);
        }
    }

    /// Adds a new primary; half of the clients keep talking to the old one.
    fn split_brain(&mut self, rule: &FaultRule) {
        let node = self.node_of(rule);
        let shard = self.network.servers.nodes[node].shard;
        if self.network.servers.nodes.len() >= 8 || self.network.servers.nodes[node].superseded {
            return;
        }
        self.end_key_moves();
        self.record_fault(rule.fault, format!("shard {shard}"));
        let since = self.network.servers.head(shard);
        let old = self.network.servers.split(shard);
        for actor in self.all_clients() {
            if self.random(Purpose::Faults, actor).chance(Ratio { hits: 1, of: 2 }) {
                self.network.links.stale_primary.insert((actor, shard), old);
            }
        }
        let (end, split) =
            (self.now_ms + self.duration_ms(rule), FaultEnd::Split { shard, old, since });
        self.injections.splits.push(split);
        self.schedule(end, Scheduled::FaultEnd(split));
    }

    /// Replaces our library again, as a program that wants another one under our name.
    pub(super) fn replace_library_again(&mut self, node: usize, until_ms: u64) {
        if self.now_ms >= until_ms || !self.faults_are_on() {
            return;
        }
        if self.network.servers.has_library(node) {
            self.record_fault(
                Fault::LibraryReplaced,
                format!("{}, again", Actor::Node(number(node))),
            );
            self.network.servers.replace_library(node, FOREIGN_LIBRARY);
        }
        let next = Scheduled::FaultEnd(FaultEnd::ReplaceLibrary(node, until_ms));
        self.schedule(self.now_ms + REPLACE_AGAIN_MS, next);
    }
}
