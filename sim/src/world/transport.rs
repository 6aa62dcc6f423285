//! The links: every call passes six points on its way, and each may be its last.
//!
//! decided -> sent -> arrived -> applied -> replied -> delivered

use std::collections::BTreeMap;
use std::sync::Arc;

use selvedge_core::engine::{Answer, Command, Input, Ticket};
use selvedge_core::error::ServerError;

use super::stream::Purpose;
use super::{Happening, World};
use crate::actor::Errand;
use crate::event::{Actor, Applied, Argv, CallId, Learned, What};

/// What is known of the links.
#[derive(Default)]
pub(crate) struct Links {
    /// When the last parcel of a sender reaches a node: the next one may not overtake it.
    last_arrival: BTreeMap<(Actor, usize), u64>,
}

/// Who wants to know what became of a parcel.
pub(crate) enum Return {
    /// An engine, in this life.
    Engine { life: u32, ticket: Ticket },
    /// A client, on this errand.
    Client(Errand),
}

/// Some calls that travel together, as one pipeline.
pub(crate) struct Parcel {
    sender: Actor,
    node: usize,
    back: Option<Return>,
    calls: Vec<Call>,
    unanswered: usize,
}

pub(crate) struct Call {
    id: CallId,
    argv: Argv,
    pub(crate) spell: Spell,
    learned: Option<Learned>,
}

/// What the plan's faults do to one call.
#[derive(Clone, Debug, Default)]
pub(crate) struct Spell {
    /// Never arrives.
    pub(crate) request_lost: bool,
    /// Is applied, and the reply goes missing.
    pub(crate) reply_lost: bool,
    /// The sender dies once it is applied.
    pub(crate) crash_after: bool,
    /// Arrives so much later.
    pub(crate) late_ms: u64,
    /// Arrives once more, so much later.
    pub(crate) again_ms: Option<u64>,
}

impl World {
    /// Sends calls to the node that serves their slot.
    pub(crate) fn send(
        &mut self,
        sender: Actor,
        slot: u16,
        batch: Vec<Vec<Vec<u8>>>,
        spells: Vec<Spell>,
        back: Return,
    ) {
        let node = self.servers.primary(self.servers.owner(slot));
        let id = self.next_parcel;
        self.next_parcel += 1;
        let arrival = self.arrival(sender, node);
        let mut calls = Vec::new();
        for (at, (argv, spell)) in batch.into_iter().zip(spells).enumerate() {
            let argv: Argv = Arc::new(argv);
            let call = self.next_call;
            self.next_call += 1;
            let number = u8::try_from(node + 1).unwrap_or(u8::MAX);
            self.emit(sender, What::Sent { call, node: number, argv: argv.clone() });
            if spell.request_lost {
                self.emit(sender, What::Lost { call, applied: false });
            } else {
                self.schedule(arrival + spell.late_ms, Happening::Arrive { parcel: id, at });
            }
            let learned =
                spell.request_lost.then(|| Learned::Perhaps("the connection broke".into()));
            calls.push(Call { id: call, argv, spell, learned });
        }
        let unanswered = calls.iter().filter(|call| call.learned.is_none()).count();
        self.parcels.insert(id, Parcel { sender, node, back: Some(back), calls, unanswered });
        if unanswered == 0 {
            self.reply(id);
        }
    }

    fn arrival(&mut self, sender: Actor, node: usize) -> u64 {
        let span = self.plan.config.link.0;
        let delay = self.chance(Purpose::Network, sender).within(span);
        let last = self.links.last_arrival.entry((sender, node)).or_default();
        *last = (self.now_ms + delay).max(*last);
        *last
    }

    /// A call reaches its node, which carries it out.
    pub(crate) fn arrive(&mut self, id: u64, at: usize) {
        let Some(parcel) = self.parcels.get(&id) else { return };
        let (sender, node) = (parcel.sender, parcel.node);
        let Some(call) = parcel.calls.get(at) else { return };
        let (call_id, argv, spell) = (call.id, call.argv.clone(), call.spell.clone());
        let served = self.servers.serve(node, call_id, &argv, self.now_ms);
        self.counters.calls += 1;
        self.counters.commits += u64::from(served.commit.is_some());
        let reply = served.reply.clone();
        let published = served.published.clone();
        let applied = Applied {
            call: call_id,
            node: u8::try_from(node + 1).unwrap_or(u8::MAX),
            argv,
            reply: served.reply,
            writes: served.writes,
            published: served.published,
            commit: served.commit,
            server_time_us: served.server_time_us,
            inner_commands: served.inner_commands,
        };
        self.emit_touching(sender, What::Applied(Box::new(applied)), &served.touched);
        self.push_completions(&published);
        if spell.crash_after {
            self.kill(sender);
        }
        let learned = if spell.reply_lost {
            self.emit(sender, What::Lost { call: call_id, applied: true });
            Learned::Perhaps("the connection broke".to_owned())
        } else {
            Learned::Reply(reply)
        };
        self.learn(id, at, learned);
    }

    /// Notes what became of one call; the last one sends the answers back.
    fn learn(&mut self, id: u64, at: usize, learned: Learned) {
        let Some(parcel) = self.parcels.get_mut(&id) else { return };
        let Some(call) = parcel.calls.get_mut(at) else { return };
        if call.learned.replace(learned).is_some() {
            return;
        }
        parcel.unanswered -= 1;
        if parcel.unanswered == 0 {
            self.reply(id);
        }
    }

    fn reply(&mut self, id: u64) {
        let Some(parcel) = self.parcels.get(&id) else { return };
        let sender = parcel.sender;
        let span = self.plan.config.link.0;
        let delay = self.chance(Purpose::Network, sender).within(span);
        self.schedule(self.now_ms + delay, Happening::Deliver { parcel: id });
    }

    /// The answers reach whoever waits for them.
    pub(crate) fn deliver(&mut self, id: u64) {
        let Some(mut parcel) = self.parcels.remove(&id) else { return };
        let Some(back) = parcel.back.take() else { return };
        let mut answers = Vec::new();
        for call in &parcel.calls {
            let learned = call.learned.clone().unwrap_or(Learned::Perhaps("no answer".into()));
            self.emit(parcel.sender, What::Delivered { call: call.id, learned: learned.clone() });
            answers.push(learned);
        }
        match back {
            Return::Engine { life, ticket } => {
                let answers = answers.into_iter().map(answer).collect();
                self.settle(parcel.sender, life, Input::Settled { ticket, answers });
            }
            Return::Client(errand) => {
                let learned = answers.into_iter().next();
                let call = parcel.calls.first().map(|call| call.id);
                if let (Some(call), Some(learned)) = (call, learned) {
                    self.client_hears(parcel.sender, call, errand, learned);
                }
            }
        }
    }
}

fn answer(learned: Learned) -> Answer {
    match learned {
        Learned::Reply(reply) => Answer::Applied(reply),
        Learned::NotApplied(why) => Answer::NotApplied(ServerError::never_sent(why)),
        Learned::Perhaps(why) => Answer::PerhapsApplied(ServerError::silence(why)),
    }
}

/// The words of an engine's commands.
pub(crate) fn words_of(batch: Vec<Command>) -> Vec<Vec<Vec<u8>>> {
    batch.into_iter().map(|command| command.argv).collect()
}
