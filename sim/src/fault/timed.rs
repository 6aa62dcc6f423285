//! Faults that strike at a time: nodes, links, engines and clocks.

use selvedge_core::engine::Input;

use super::Fault;
use super::call::{reads_pass, refusal};
use crate::actor::tenant;
use crate::canary::{Plant, WorldBug};
use crate::event::{Actor, What};
use crate::plan::Rule;
use crate::world::servers::{Move, Trouble};
use crate::world::stream::{Purpose, Ratio};
use crate::world::transport::number;
use crate::world::{Happening, World};

/// How long a fault lasts unless the plan says.
const LASTING_MS: u64 = 5_000;
/// How often a rival looks after the library that it put in the place of ours.
const RIVAL_EVERY_MS: u64 = 1_200;
/// Most engines that may ever sit in a world.
const SEATS_MAX: usize = 14;
/// A library of somebody else under our name.
const FOREIGN_LIBRARY: &str = "#!lua name=flowfabric\nserver.register_function{function_name='ff_version', callback=function() return '33' end, flags={'no-writes'}}";

/// What is over when a fault ends.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Ending {
    /// A node serves again.
    Trouble(usize),
    /// A node has room again.
    Memory(usize),
    /// Everybody knows the new primary, and the old one's branch is dropped.
    Split { shard: usize, old: usize, since: u64 },
    /// The keys of a slot go.
    HandOver(u16),
    /// A slot has moved.
    Move(u16),
    /// An engine cares for everybody again.
    Filter(u8),
    /// An engine subscribes again.
    Pushes(u8),
    /// An engine that was to stop is replaced.
    Stop(u8),
    /// An engine too many goes.
    Flood(u8),
    /// The rival who replaced a node's library looks after it again, until this time.
    Rival(usize, u64),
}

impl World {
    /// A fault's time has come.
    pub(crate) fn strike(&mut self, at: usize) {
        if !self.faults_are_on() {
            return;
        }
        let (rule, before) = (self.rule(at).clone(), self.injected());
        if let Some(text) = refusal(rule.fault) {
            self.trouble(&rule, text);
        } else {
            self.strike_node(&rule);
            self.strike_engine(&rule);
            self.strike_link(&rule);
            self.strike_data(&rule);
        }
        self.note_struck(&[at], before);
    }

    /// No fault outlives the phase of faults: then everything heals.
    fn lasting(&self, rule: &Rule) -> u64 {
        let left_ms = self.plan.config.length.0.saturating_sub(self.now_ms);
        rule.lasting_ms.unwrap_or(LASTING_MS).min(left_ms.max(1))
    }

    /// The node that a rule means; a drawn primary when it names none.
    pub(crate) fn node_of(&mut self, rule: &Rule) -> usize {
        match rule.to {
            Some(Actor::Node(number)) if usize::from(number) <= self.servers.nodes.len() => {
                usize::from(number).saturating_sub(1)
            }
            _ => {
                let shards = self.servers.shards() as u64;
                let drawn = self.chance(Purpose::Faults, Actor::World).below(shards);
                self.servers.primary(usize::try_from(drawn).unwrap_or(0))
            }
        }
    }

    fn engine_of(&mut self, rule: &Rule) -> u8 {
        match rule.to {
            Some(Actor::Engine(number)) if usize::from(number) <= self.seats.len() => number,
            _ => {
                let seats = self.seats.len() as u64;
                let drawn = self.chance(Purpose::Faults, Actor::World).below(seats);
                u8::try_from(drawn + 1).unwrap_or(1)
            }
        }
    }

    fn trouble(&mut self, rule: &Rule, text: &str) {
        let node = self.node_of(rule);
        let until_ms = self.now_ms + self.lasting(rule);
        self.inflict(rule.fault, Actor::Node(number(node)).to_string());
        if let (Fault::OutOfMemory, Some(keys)) = (rule.fault, rule.amount) {
            self.servers.nodes[node].keys_max = usize::try_from(keys).ok();
            return self.schedule(until_ms, Happening::End(Ending::Memory(node)));
        }
        let reads_pass = reads_pass(rule.fault);
        let trouble = Trouble { error: text.to_owned(), reads_pass, until_ms };
        self.servers.nodes[node].trouble = Some(trouble);
        self.schedule(until_ms, Happening::End(Ending::Trouble(node)));
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "the other faults strike elsewhere")]
    fn strike_node(&mut self, rule: &Rule) {
        let amount = rule.amount.unwrap_or(0);
        let positive = u64::try_from(amount).ok();
        match rule.fault {
            Fault::FailoverLosesSuffix => {
                let node = self.node_of(rule);
                let shard = self.servers.nodes[node].shard;
                let losing = positive.unwrap_or(1);
                self.inflict(rule.fault, format!("shard {shard}, {losing} commits"));
                self.fail_over(shard, losing);
            }
            Fault::SplitBrainBranch => self.split_brain(rule),
            Fault::AmnesiaRestart => {
                let node = self.node_of(rule);
                let shard = self.servers.nodes[node].shard;
                let age = positive.filter(|age| *age > 0);
                self.inflict(rule.fault, format!("shard {shard}, {amount} ms"));
                let lost = self.servers.forget(shard, age, self.now_ms);
                let primary = self.servers.primary(shard);
                if age.is_none() {
                    self.servers.drop_library(primary);
                }
                self.tell_loss(primary, lost);
            }
            Fault::LibraryMissing => {
                let node = self.node_of(rule);
                self.inflict(rule.fault, Actor::Node(number(node)).to_string());
                self.servers.drop_library(node);
            }
            Fault::LibraryReplaced => {
                let node = self.node_of(rule);
                self.inflict(rule.fault, Actor::Node(number(node)).to_string());
                self.servers.replace_library(node, FOREIGN_LIBRARY);
                let end = self.now_ms + self.lasting(rule);
                self.schedule(
                    self.now_ms + RIVAL_EVERY_MS,
                    Happening::End(Ending::Rival(node, end)),
                );
            }
            Fault::NodeClockSkew if self.servers.shards() < 2 => {}
            Fault::ServerClockJump | Fault::NodeClockSkew => {
                let node = self.node_of(rule);
                self.inflict(rule.fault, format!("node-{} by {amount} ms", number(node)));
                self.servers.nodes[node].skew_ms += amount;
            }
            Fault::SlotMove if self.servers.shards() > 1 => {
                let slot = self.slot_of(rule);
                self.begin_move(slot);
                let half = self.lasting(rule) / 2;
                self.schedule(self.now_ms + half, Happening::End(Ending::HandOver(slot)));
                self.schedule(self.now_ms + 2 * half, Happening::End(Ending::Move(slot)));
            }
            _ => {}
        }
    }

    /// The slot of a drawn flow partition.
    fn slot_of(&mut self, rule: &Rule) -> u16 {
        let named = rule.subject.as_ref().and_then(|text| text.strip_prefix("fp:")?.parse().ok());
        let partitions = self.plan.config.flow_partitions.max(1);
        let drawn = self.chance(Purpose::Faults, Actor::World).below(partitions);
        let index: u16 = named.unwrap_or((drawn % 65_536) as u16);
        selvedge_core::partition::Partition::flow(index).slot()
    }

    /// A slot begins to move to the next shard.
    pub(crate) fn begin_move(&mut self, slot: u16) {
        let from = self.servers.owner(slot);
        let to = (from + 1) % self.servers.shards();
        if self.servers.moves.contains_key(&slot) || from == to {
            return;
        }
        self.inflict(Fault::SlotMove, format!("slot {slot} from shard {from} to {to}"));
        self.servers.moves.insert(slot, Move { from, to, handed_over: false });
        let end = self.now_ms + LASTING_MS;
        self.schedule(end, Happening::End(Ending::Move(slot)));
    }

    /// The keys of a moving slot change hands.
    pub(crate) fn finish_hand_over(&mut self, slot: u16) {
        let Some(step) = self.servers.moves.get_mut(&slot) else { return };
        if std::mem::replace(&mut step.handed_over, true) {
            return;
        }
        let to = step.to;
        self.servers.hand_over(slot, to, self.now_ms);
    }

    /// Fails a shard over, and says what was lost.
    pub(crate) fn fail_over(&mut self, shard: usize, losing: u64) {
        let node = self.servers.primary(shard);
        let lost = self.servers.fail_over(shard, losing, self.now_ms);
        if self.plant == Some(Plant::World(WorldBug::LossNotNamed)) {
            return self.servers.ledger.conceal_losses();
        }
        self.tell_loss(node, lost);
    }

    /// Says what was lost, and puts back what a deployment cannot be without, as operators do.
    fn tell_loss(&mut self, node: usize, lost: Option<(u64, u64)>) {
        if let Some((first, last)) = lost {
            let (primary, node) = (node, number(node));
            self.emit(Actor::Node(node), What::CommitsLost { node, first, last });
            // A node may have come back without functions, and what operators put back takes some:
            // they have them for that long, and nobody else has.
            let before = self.servers.lend_library(primary);
            self.provision();
            self.servers.take_library_back(primary, &before);
        }
    }

    /// A new primary takes over, and half of the world goes on talking to the old one.
    fn split_brain(&mut self, rule: &Rule) {
        let node = self.node_of(rule);
        let shard = self.servers.nodes[node].shard;
        if self.servers.nodes.len() >= 8 || self.servers.nodes[node].stray {
            return;
        }
        self.inflict(rule.fault, format!("shard {shard}"));
        let since = self.servers.head(shard);
        let old = self.servers.split(shard);
        for actor in self.everybody() {
            if self.chance(Purpose::Faults, actor).chance(Ratio { hits: 1, of: 2 }) {
                self.links.misled.insert((actor, shard), old);
            }
        }
        let (end, split) = (self.now_ms + self.lasting(rule), Ending::Split { shard, old, since });
        self.splits.push(split);
        self.schedule(end, Happening::End(split));
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "the other faults strike elsewhere")]
    fn strike_engine(&mut self, rule: &Rule) {
        let lasting = self.lasting(rule);
        let positive = rule.amount.and_then(|amount| u64::try_from(amount).ok());
        match rule.fault {
            Fault::EnginePause => {
                let engine = self.engine_of(rule);
                let until = self.now_ms + lasting;
                self.inflict(rule.fault, format!("engine-{engine} for {lasting} ms"));
                if let Some(seat) = self.seat(engine) {
                    seat.frozen_until = until;
                }
            }
            Fault::EngineClockSkew => {
                let engine = self.engine_of(rule);
                let ms = rule.amount.unwrap_or(5_000);
                self.inflict(rule.fault, format!("engine-{engine} by {ms} ms"));
                if let Some(seat) = self.seat(engine) {
                    seat.skew_ms += ms;
                }
                // The clock of a running process never steps back; that of the next one may.
                if ms < 0 {
                    self.kill_engine(engine, 10);
                }
            }
            Fault::ScannerOverlap if self.seats.len() > 1 => {
                self.inflict(rule.fault, "all engines");
                // One seed for all: they come at the same instants.
                let seed = self.chance(Purpose::Faults, Actor::World).any();
                for engine in 1..=u8::try_from(self.seats.len()).unwrap_or(u8::MAX) {
                    self.kill_engine(engine, LASTING_MS);
                    self.start_engine_seeded(engine, seed);
                }
            }
            Fault::FilteredEngine => {
                let engine = self.engine_of(rule);
                self.inflict(rule.fault, format!("engine-{engine}"));
                for other in 1..=u8::try_from(self.seats.len()).unwrap_or(u8::MAX) {
                    self.kill_engine(other, lasting);
                }
                if let Some(seat) = self.seat(engine) {
                    seat.config.filter.namespace = Some(tenant(0).to_string());
                }
                self.start_engine(engine);
                let end = self.now_ms + lasting;
                self.schedule(end, Happening::End(Ending::Filter(engine)));
            }
            Fault::EngineFlood => {
                let room = SEATS_MAX.saturating_sub(self.seats.len()) as u64;
                let more = positive.unwrap_or(3).min(room);
                self.inflict(rule.fault, format!("{more} engines more"));
                for _ in 0..more {
                    self.seats.push(crate::world::engines::Seat::new(&self.plan.config));
                    let engine = u8::try_from(self.seats.len()).unwrap_or(u8::MAX);
                    self.start_engine(engine);
                    let end = self.now_ms + lasting;
                    self.schedule(end, Happening::End(Ending::Flood(engine)));
                }
            }
            Fault::StopMidScan => {
                let engine = self.engine_of(rule);
                self.inflict(rule.fault, format!("engine-{engine}"));
                self.hear(engine, None, Input::Drain);
                let end = self.now_ms + lasting;
                self.schedule(end, Happening::End(Ending::Stop(engine)));
            }
            Fault::WakeupLost => {
                let engine = self.engine_of(rule);
                let until = self.now_ms + lasting;
                self.inflict(rule.fault, format!("engine-{engine} for {lasting} ms"));
                if let Some(seat) = self.seat(engine) {
                    seat.unpushed_until = until;
                }
                self.schedule(until, Happening::End(Ending::Pushes(engine)));
            }
            _ => {}
        }
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "the other faults strike elsewhere")]
    fn strike_link(&mut self, rule: &Rule) {
        let until = self.now_ms + self.lasting(rule);
        match rule.fault {
            Fault::OneWayCut => {
                let actor = rule.to.unwrap_or(Actor::Engine(1));
                self.inflict(rule.fault, format!("nothing comes back to {actor}"));
                self.links.deaf_until.insert(actor, until);
            }
            Fault::SwizzleClog => {
                self.inflict(rule.fault, "links clogged");
                let span = crate::plan::Span { from: self.now_ms, to: until };
                for actor in self.everybody() {
                    for node in 0..self.servers.nodes.len() {
                        let stream = self.chance(Purpose::Faults, Actor::World);
                        if stream.chance(Ratio { hits: 2, of: 3 }) {
                            let free = stream.within(span);
                            self.links.clogged_until.insert((actor, node), free);
                        }
                    }
                }
            }
            Fault::SlowPartition => {
                let node = self.node_of(rule);
                let times = rule.amount.and_then(|n| u64::try_from(n).ok()).unwrap_or(100);
                // Slow first: the judges look when they are told.
                self.links.slow.insert(node, (times, until));
                self.inflict(rule.fault, format!("node-{} {times} times", number(node)));
            }
            _ => {}
        }
    }

    /// A fault is over.
    pub(crate) fn end(&mut self, ending: Ending) {
        match ending {
            Ending::Trouble(node) => self.servers.nodes[node].trouble = None,
            Ending::Memory(node) => self.servers.nodes[node].keys_max = None,
            Ending::Split { shard, old, since } => {
                let ended =
                    |split: &Ending| matches!(split, Ending::Split { old: of, .. } if *of == old);
                self.splits.retain(|split| !ended(split));
                self.links.misled.retain(|(_, of), _| *of != shard);
                let lost = self.servers.heal(old, since, self.now_ms);
                self.tell_loss(old, lost);
            }
            Ending::HandOver(slot) => self.finish_hand_over(slot),
            Ending::Move(slot) => {
                self.finish_hand_over(slot);
                self.servers.moves.remove(&slot);
            }
            Ending::Filter(engine) => {
                if let Some(seat) = self.seat(engine) {
                    seat.config.filter.namespace = None;
                }
                self.kill_engine(engine, 10);
            }
            Ending::Pushes(engine) => self.hear(engine, None, Input::PushGap),
            Ending::Stop(engine) => self.kill_engine(engine, 10),
            Ending::Rival(node, until_ms) => self.rival_looks_again(node, until_ms),
            Ending::Flood(engine) => {
                if let Some(seat) = self.seat(engine) {
                    seat.gone = true;
                }
                self.kill_engine(engine, 0);
            }
        }
    }

    /// Another program wants another library under our name, and puts it back when it finds ours.
    fn rival_looks_again(&mut self, node: usize, until_ms: u64) {
        if self.now_ms >= until_ms || !self.faults_are_on() {
            return;
        }
        if self.servers.has_library(node) {
            self.inflict(Fault::LibraryReplaced, format!("{}, again", Actor::Node(number(node))));
            self.servers.replace_library(node, FOREIGN_LIBRARY);
        }
        let next = Happening::End(Ending::Rival(node, until_ms));
        self.schedule(self.now_ms + RIVAL_EVERY_MS, next);
    }

    /// Everybody who has links.
    pub(crate) fn everybody(&self) -> Vec<Actor> {
        let count = |number: usize| 1..=u8::try_from(number).unwrap_or(u8::MAX);
        let engines = count(self.seats.len()).map(Actor::Engine);
        engines
            .chain(count(self.workers.len()).map(Actor::Worker))
            .chain((1..=3).map(Actor::Caller))
            .chain((1..=2).map(Actor::Signaller))
            .collect()
    }
}
