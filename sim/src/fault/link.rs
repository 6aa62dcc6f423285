//! Faults of links: no replies, no pushes, blocked, slow.

use super::Fault;
use crate::event::Actor;
use crate::plan::{FaultRule, Span};
use crate::search::Ratio;
use crate::world::World;
use crate::world::random_streams::Purpose;
use crate::world::transport::number;

impl World {
    #[expect(clippy::wildcard_enum_match_arm, reason = "the other faults are injected elsewhere")]
    pub(super) fn inject_link_fault(&mut self, rule: &FaultRule) {
        let until = self.now_ms + self.duration_ms(rule);
        match rule.fault {
            Fault::OneWayCut => {
                let actor = rule.to.unwrap_or(Actor::Engine(1));
                self.record_fault(rule.fault, format!("nothing comes back to {actor}"));
                self.network.links.replies_cut_until.insert(actor, until);
            }
            Fault::PushesSilent => match rule.to {
                Some(Actor::Worker(number))
                    if usize::from(number) <= self.clients.workers.len() =>
                {
                    self.record_fault(rule.fault, format!("no pushes to worker-{number}"));
                    self.worker(number).unpushed_until = until;
                }
                _ => {
                    self.record_fault(rule.fault, "no pushes to callers");
                    self.network.links.pushes_silent_until = until;
                }
            },
            Fault::SwizzleClog => {
                self.record_fault(rule.fault, "links clogged");
                let span = Span { from: self.now_ms, to: until };
                for actor in self.all_clients() {
                    for node in 0..self.network.servers.nodes.len() {
                        let stream = self.random(Purpose::Faults, Actor::World);
                        if stream.chance(Ratio { hits: 2, of: 3 }) {
                            let free = stream.within(span);
                            self.network.links.clogged_until.insert((actor, node), free);
                        }
                    }
                }
            }
            Fault::NodePause => {
                let node = self.node_of(rule);
                for actor in self.all_clients() {
                    self.network.links.clogged_until.insert((actor, node), until);
                }
                // Before the event, since oracles read it when they see the event.
                self.network.links.slow.insert(node, (1, until));
                self.record_fault(rule.fault, format!("node-{}", number(node)));
            }
            Fault::SlowPartition => {
                let node = self.node_of(rule);
                let times = rule.amount.and_then(|n| u64::try_from(n).ok()).unwrap_or(100);
                // Before the event, since oracles read it when they see the event.
                self.network.links.slow.insert(node, (times, until));
                self.record_fault(rule.fault, format!("node-{} {times} times", number(node)));
            }
            _ => {}
        }
    }

    /// All actors with links to the servers.
    pub(crate) fn all_clients(&self) -> Vec<Actor> {
        let count = |number: usize| 1..=u8::try_from(number).unwrap_or(u8::MAX);
        let engines = count(self.engine_processes.len()).map(Actor::Engine);
        engines
            .chain(count(self.clients.workers.len()).map(Actor::Worker))
            .chain((1..=3).map(Actor::Caller))
            .chain((1..=2).map(Actor::Signaller))
            .collect()
    }
}
