//! The links: every call passes six points on its way, and each may be its last.
//!
//! decided -> sent -> arrived -> applied -> replied -> delivered

use std::collections::BTreeMap;
use std::sync::Arc;

use selvedge_core::engine::{Answer, Command, Input, Ticket};
use selvedge_core::error::ServerError;
use selvedge_core::value::Value;

use super::servers::Manner;
use super::stream::{Purpose, Ratio};
use super::{Happening, World};
use crate::actor::Errand;
use crate::canary;
use crate::event::{Actor, Applied, Argv, CallId, Learned, What};
use crate::fault::Fault;
use crate::meter::Part;
use crate::oracle::call::{Answer as Outcome, signature_of};

/// How often a client follows a call that was sent elsewhere.
const HOPS_MAX: u8 = 5;

/// What is known of the links.
#[derive(Default)]
pub(crate) struct Links {
    /// When the last parcel of a sender reaches a node: the next one may not overtake it.
    last_arrival: BTreeMap<(Actor, usize), u64>,
    /// Where a sender believes a slot to be, if that is not where it was at first.
    known: BTreeMap<(Actor, u16), usize>,
    /// Which node a sender takes for the primary of a shard, while it is wrong about that.
    pub(crate) misled: BTreeMap<(Actor, usize), usize>,
    /// Until when nothing comes back to an actor.
    pub(crate) deaf_until: BTreeMap<Actor, u64>,
    /// Until when nothing passes between an actor and a node.
    pub(crate) clogged_until: BTreeMap<(Actor, usize), u64>,
    /// How many times slower a node's links are, and until when.
    pub(crate) slow: BTreeMap<usize, (u64, u64)>,
}

impl Links {
    /// Until when a node's links are slow, or were.
    pub(crate) fn slow_until(&self, node: usize) -> u64 {
        self.slow.get(&node).map_or(0, |(_, until)| *until)
    }
}

/// Who wants to know what became of a parcel.
pub(crate) enum Return {
    /// An engine, in this life.
    Engine { life: u32, ticket: Ticket },
    /// A client, in this life, on this errand.
    Client { life: u32, errand: Errand },
}

/// Some calls that travel together, as one pipeline.
pub(crate) struct Parcel {
    sender: Actor,
    slot: u16,
    back: Option<Return>,
    calls: Vec<Call>,
    unanswered: usize,
    /// Nothing comes back, and nobody says so.
    mute: bool,
}

impl Parcel {
    /// Who waits for what comes back, in the middle of something that the plan told them to do.
    pub(crate) fn awaited_by(&self) -> Option<Actor> {
        let awaited = matches!(self.back, Some(Return::Client { errand: Errand::Caller(_), .. }));
        awaited.then_some(self.sender)
    }
}

struct Call {
    id: CallId,
    node: usize,
    hops: u8,
    argv: Argv,
    spell: Spell,
    learned: Option<Learned>,
}

/// What the plan's faults do to one call.
#[derive(Clone, Debug, Default)]
pub(crate) struct Spell {
    /// Never arrives.
    pub(crate) request_lost: bool,
    /// Is applied, and the reply goes missing.
    pub(crate) reply_lost: bool,
    /// Neither loss is noticed: the sender waits in vain.
    pub(crate) silent: bool,
    /// The sender dies once it is applied.
    pub(crate) crash_after: bool,
    /// Arrives so much later.
    pub(crate) late_ms: u64,
    /// Arrives once more, so much later.
    pub(crate) again_ms: Option<u64>,
    /// The answers to its batch come so much later, or once more by then.
    pub(crate) late_reply: Option<(u64, Twice)>,
    /// Answered like this, and not carried out.
    pub(crate) refused: Option<String>,
    /// Goes to the wrong node first.
    pub(crate) misrouted: bool,
    /// Its slot moves under its feet.
    pub(crate) slot_moves: bool,
    /// How it is carried out.
    pub(crate) manner: Manner,
    /// Somebody else acts on its subject just before, or just after it.
    pub(crate) meddle: Option<(Meddle, Fault)>,
    /// The node fails over once it is applied, losing it.
    pub(crate) fail_over_after: bool,
    /// The faults of the plan behind all this, by their places in it.
    pub(crate) rules: Vec<usize>,
}

/// How a late reply comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Twice {
    /// Only late.
    No,
    /// In time, and once more later.
    Yes,
    /// Once more later, to whoever sits there by then.
    ToAnyLife,
}

/// What somebody else does with the subject of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Meddle {
    /// Cancels it just before.
    CancelBefore,
    /// Cancels it just after.
    CancelAfter,
    /// Lets it run again just before.
    ReplayBefore,
    /// Lets it run again just after.
    ReplayAfter,
}

impl World {
    /// Sends calls to the node that serves their slot, as far as the sender knows.
    pub(crate) fn send(
        &mut self,
        sender: Actor,
        slot: u16,
        batch: Vec<Vec<Vec<u8>>>,
        spells: Vec<Spell>,
        back: Return,
    ) {
        let node = self.route(sender, slot);
        let id = self.next_parcel;
        self.next_parcel += 1;
        let arrival = self.arrival(sender, node);
        let (mut calls, mut mute) = (Vec::new(), false);
        for (at, (argv, spell)) in batch.into_iter().zip(spells).enumerate() {
            let argv: Argv = Arc::new(argv);
            let call = self.next_call;
            self.next_call += 1;
            let node = if spell.misrouted { self.wrong_node(node) } else { node };
            self.emit(sender, What::Sent { call, node: number(node), argv: argv.clone() });
            if spell.request_lost {
                self.emit(sender, What::Lost { call, applied: false });
            } else {
                self.schedule(arrival + spell.late_ms, Happening::Arrive { parcel: id, at });
            }
            mute |= spell.silent;
            let learned = spell.request_lost.then(broken);
            calls.push(Call { id: call, node, hops: 0, argv, spell, learned });
        }
        if let Return::Client { .. } = back {
            let patience = self.plan.config.patience.0;
            self.schedule(self.now_ms + patience, Happening::GiveUp { parcel: id });
        }
        let unanswered = calls.iter().filter(|call| call.learned.is_none()).count();
        let parcel = Parcel { sender, slot, back: Some(back), calls, unanswered, mute };
        self.parcels.insert(id, parcel);
        if unanswered == 0 {
            self.reply(id);
        }
    }

    fn route(&self, sender: Actor, slot: u16) -> usize {
        let first = usize::from(slot) % self.servers.shards();
        let shard = self.links.known.get(&(sender, slot)).copied().unwrap_or(first);
        let misled = self.links.misled.get(&(sender, shard)).copied();
        misled.unwrap_or_else(|| self.servers.primary(shard))
    }

    fn wrong_node(&self, right: usize) -> usize {
        let shard = (self.servers.nodes[right].shard + 1) % self.servers.shards();
        self.servers.primary(shard)
    }

    fn delay(&mut self, sender: Actor, node: usize) -> u64 {
        let span = self.plan.config.link.0;
        let delay = self.chance(Purpose::Network, sender).within(span);
        match self.links.slow.get(&node) {
            Some((times, until)) if *until > self.now_ms => (delay + 1) * times,
            _ => delay,
        }
    }

    /// When a parcel that leaves now is there.
    fn arrival(&mut self, sender: Actor, node: usize) -> u64 {
        let delay = self.delay(sender, node);
        let free = self.links.clogged_until.get(&(sender, node)).copied().unwrap_or(0);
        let last = self.links.last_arrival.entry((sender, node)).or_default();
        *last = (self.now_ms + delay).max(*last).max(free);
        *last
    }

    /// A call reaches its node.
    pub(crate) fn arrive(&mut self, id: u64, at: usize) {
        let Some(parcel) = self.parcels.get(&id) else { return };
        let (sender, slot) = (parcel.sender, parcel.slot);
        let Some(call) = parcel.calls.get(at) else { return };
        let (call_id, node, hops) = (call.id, call.node, call.hops);
        let (argv, spell) = (call.argv.clone(), call.spell.clone());
        let before = self.injected();
        if spell.slot_moves && hops == 0 {
            self.begin_move(slot);
            self.finish_hand_over(slot);
        }
        let onward = self.redirect(sender, slot, node);
        self.note_struck(&spell.rules, before);
        if let Some(answer) = onward {
            match answer {
                Onward::To(next) if hops < HOPS_MAX => return self.follow(id, at, next),
                Onward::To(_) => return self.learn(id, at, error("MOVED too often")),
                Onward::Refused(text) => return self.learn(id, at, error(text)),
            }
        }
        if let Some(text) = spell.refused.clone().or_else(|| self.trouble_of(node)) {
            return self.learn(id, at, Learned::Reply(Value::Error(text)));
        }
        self.meddle(spell.meddle, sender, node, &argv, None);
        let reply = self.apply(sender, node, call_id, &argv, spell.manner);
        self.meddle(spell.meddle, sender, node, &argv, Some(&reply));
        self.note_struck(&spell.rules, before);
        if let Some(later_ms) = spell.again_ms {
            let again = Happening::Again { sender, call: call_id, node, slot, argv };
            self.schedule(self.now_ms + later_ms, again);
        }
        if spell.crash_after {
            self.kill(sender);
        }
        if spell.fail_over_after {
            let shard = self.servers.nodes[node].shard;
            self.fail_over(shard, 1);
        }
        if spell.reply_lost {
            self.emit(sender, What::Lost { call: call_id, applied: true });
            return self.learn(id, at, broken());
        }
        self.learn(id, at, Learned::Reply(reply));
    }

    /// A call reaches its node once more; the client follows it to where its slot is by now.
    pub(crate) fn arrive_again(
        &mut self,
        sender: Actor,
        call: CallId,
        node: usize,
        slot: u16,
        argv: &Argv,
    ) {
        let node = match self.redirect(sender, slot, node) {
            Some(Onward::To(next)) => next,
            Some(Onward::Refused(_)) => return,
            None => node,
        };
        if self.trouble_of(node).is_none() {
            self.apply(sender, node, call, argv, Manner::default());
        }
    }

    /// Where a call must go instead, when its slot is not here, or another node took its place.
    fn redirect(&mut self, sender: Actor, slot: u16, node: usize) -> Option<Onward> {
        let shard = self.servers.nodes[node].shard;
        let owner = self.servers.owner(slot);
        if self.servers.nodes[node].deposed {
            return Some(Onward::To(self.servers.primary(owner)));
        }
        let moves = self.servers.moves.get(&slot).copied();
        if let Some(step) = moves.filter(|step| step.from == shard) {
            if step.handed_over {
                self.inflict(Fault::Ask, format!("slot {slot} for {sender}"));
                return Some(Onward::To(self.servers.primary(step.to)));
            }
            let hit = Ratio { hits: 1, of: 3 };
            if self.chance(Purpose::Network, Actor::World).chance(hit) {
                self.inflict(Fault::TryAgain, format!("slot {slot} for {sender}"));
                return Some(Onward::Refused(
                    "TRYAGAIN Multiple keys request during rehashing of slot",
                ));
            }
            return None;
        }
        if shard == owner {
            return None;
        }
        self.inflict(Fault::Moved, format!("slot {slot} for {sender}"));
        self.links.known.insert((sender, slot), owner);
        Some(Onward::To(self.servers.primary(owner)))
    }

    /// Sends a call on to another node.
    fn follow(&mut self, id: u64, at: usize, node: usize) {
        let Some(parcel) = self.parcels.get_mut(&id) else { return };
        let sender = parcel.sender;
        if let Some(call) = parcel.calls.get_mut(at) {
            call.hops += 1;
            call.node = node;
        }
        let wait = 2 * self.delay(sender, node);
        self.schedule(self.now_ms + wait, Happening::Arrive { parcel: id, at });
    }

    fn trouble_of(&self, node: usize) -> Option<String> {
        let trouble = self.servers.nodes[node].trouble.as_ref()?;
        (!trouble.reads_pass).then(|| trouble.error.clone())
    }

    /// Lets a node carry out a call, and tells everybody.
    pub(crate) fn apply(
        &mut self,
        sender: Actor,
        node: usize,
        call: CallId,
        argv: &Argv,
        manner: Manner,
    ) -> Value {
        let before = self.meter.turn_to(Part::Store);
        let served = self.servers.serve(node, call, argv, self.now_ms, manner);
        self.meter.turn_back(before, argv);
        self.counters.calls += 1;
        self.counters.commits += u64::from(served.commit.is_some());
        let reply = served.reply.clone();
        let published = served.published.clone();
        let applied = Applied {
            call,
            node: number(node),
            stray: self.servers.nodes[node].stray,
            argv: argv.clone(),
            signature: signature_of(argv),
            answer: Outcome::read(&served.reply),
            reply: served.reply,
            writes: served.writes,
            published: served.published,
            commit: served.commit,
            server_time_us: served.server_time_us,
            inner_commands: served.inner_commands,
        };
        self.emit_touching(sender, What::Applied(Box::new(applied)), &served.touched);
        self.push(&published);
        reply
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
        if parcel.mute {
            // The sender's own patience ends it.
            return;
        }
        let sender = parcel.sender;
        let node = parcel.calls.first().map_or(0, |call| call.node);
        let late = parcel.calls.iter().find_map(|call| call.spell.late_reply);
        let free = self.links.clogged_until.get(&(sender, node)).copied().unwrap_or(0);
        let due = (self.now_ms + self.delay(sender, node)).max(free);
        let (due, twice) = match late {
            Some((ms, Twice::No)) => (due + ms, None),
            Some((ms, twice)) => (due, Some((due + ms, twice))),
            None => (due, None),
        };
        if let Some((later, twice)) = twice {
            self.echo(id, later, twice);
        }
        self.schedule(due, Happening::Deliver { parcel: id });
    }

    /// Lets the answers to an engine's batch come once more, later.
    fn echo(&mut self, id: u64, later: u64, twice: Twice) {
        let Some(parcel) = self.parcels.get(&id) else { return };
        let (Actor::Engine(engine), Some(Return::Engine { life, ticket })) =
            (parcel.sender, &parcel.back)
        else {
            return;
        };
        let answers =
            parcel.calls.iter().map(|call| answer(call.learned.clone().unwrap_or_else(broken)));
        let input = Input::Settled { ticket: *ticket, answers: answers.collect() };
        let life = if twice == Twice::ToAnyLife { None } else { Some(*life) };
        self.schedule(later, Happening::Hear { engine, life, input: Box::new(input) });
    }

    /// The answers reach whoever waits for them.
    pub(crate) fn deliver(&mut self, id: u64) {
        let Some(mut parcel) = self.parcels.remove(&id) else { return };
        let Some(back) = parcel.back.take() else { return };
        let deaf = self.links.deaf_until.get(&parcel.sender).is_some_and(|end| *end > self.now_ms);
        if deaf {
            for call in &parcel.calls {
                let applied = matches!(call.learned, Some(Learned::Reply(_)));
                self.emit(parcel.sender, What::Lost { call: call.id, applied });
            }
            // A client's patience must still end.
            if let Return::Client { .. } = back {
                parcel.back = Some(back);
                parcel.mute = true;
                self.parcels.insert(id, parcel);
            }
            return;
        }
        let mut answers = Vec::new();
        for call in &parcel.calls {
            let learned = call.learned.clone().unwrap_or_else(broken);
            self.emit(parcel.sender, What::Delivered { call: call.id, learned: learned.clone() });
            answers.push(learned);
        }
        match back {
            Return::Engine { life, ticket } => {
                let heard = |learned| canary::spoil(self.plant, answer(learned));
                let answers = answers.into_iter().map(heard).collect();
                self.settle(parcel.sender, life, Input::Settled { ticket, answers });
            }
            Return::Client { life, errand } => {
                let call = parcel.calls.first().map(|call| call.id);
                if let (Some(call), Some(learned)) = (call, answers.into_iter().next()) {
                    self.client_hears(parcel.sender, life, call, errand, learned);
                }
            }
        }
    }

    /// A client stops waiting for an answer; the call may still arrive.
    pub(crate) fn give_up(&mut self, id: u64) {
        let Some(parcel) = self.parcels.get_mut(&id) else { return };
        let sender = parcel.sender;
        let Some(Return::Client { life, errand }) = parcel.back.take() else { return };
        let Some(call) = parcel.calls.first().map(|call| call.id) else { return };
        if parcel.unanswered == 0 {
            self.parcels.remove(&id);
        }
        let learned = Learned::Perhaps("no answer in time".to_owned());
        self.emit(sender, What::Delivered { call, learned: learned.clone() });
        self.client_hears(sender, life, call, errand, learned);
    }
}

/// Where a call goes that came to the wrong place.
enum Onward {
    To(usize),
    Refused(&'static str),
}

fn broken() -> Learned {
    Learned::Perhaps("the connection broke".to_owned())
}

fn error(text: &str) -> Learned {
    Learned::Reply(Value::Error(text.to_owned()))
}

fn answer(learned: Learned) -> Answer {
    match learned {
        Learned::Reply(reply) => Answer::Applied(reply),
        Learned::NotApplied(why) => Answer::NotApplied(ServerError::never_sent(why)),
        Learned::Perhaps(why) => Answer::PerhapsApplied(ServerError::silence(why)),
    }
}

/// The number by which events name a node.
pub(crate) fn number(node: usize) -> u8 {
    u8::try_from(node + 1).unwrap_or(u8::MAX)
}

/// The words of an engine's commands.
pub(crate) fn words_of(batch: Vec<Command>) -> Vec<Vec<Vec<u8>>> {
    batch.into_iter().map(|command| command.argv).collect()
}
