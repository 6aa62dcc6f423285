//! The way of a call to a server. A call passes six points, and a fault can stop it at each of
//! them:
//!
//! decided -> sent -> arrived -> applied -> replied -> delivered

use std::collections::BTreeMap;
use std::sync::Arc;

use selvedge_core::call::without_absent_key;
use selvedge_core::command::{Command, Ticket};
use selvedge_core::value::Value;

use super::delivery::{broken, error};
use super::random_streams::Purpose;
use super::servers::{KeyMove, ServeOptions};
use super::{Scheduled, World};
use crate::event::{Actor, Applied, Argv, CallId, EventKind, Learned};
use crate::fault::Fault;
use crate::fault::effects::FaultEffects;
use crate::oracle::call::{Answer as Outcome, signature_of};
use crate::profile::Part;
use crate::search::Ratio;

/// What a node answers that has only some of the keys of a call.
const TRY_AGAIN: &str = "TRYAGAIN Multiple keys request during rehashing of slot";
/// How many redirects a client follows.
const HOPS_MAX: u8 = 5;

/// The state of the links.
#[derive(Default)]
pub(crate) struct Links {
    /// When the last batch of a sender arrives at a node: a later batch does not overtake it.
    last_arrival: BTreeMap<(Actor, usize), u64>,
    /// Where a sender believes a slot to be, after a redirect.
    known: BTreeMap<(Actor, u16), usize>,
    /// The node that a sender wrongly believes to be the primary of a shard.
    pub(crate) stale_primary: BTreeMap<(Actor, usize), usize>,
    /// Until when an actor gets no replies.
    pub(crate) replies_cut_until: BTreeMap<Actor, u64>,
    /// Until when no push reaches a caller.
    pub(crate) pushes_silent_until: u64,
    /// Until when no call passes between an actor and a node.
    pub(crate) clogged_until: BTreeMap<(Actor, usize), u64>,
    /// How many times slower the links of a node are, and until when.
    pub(crate) slow: BTreeMap<usize, (u64, u64)>,
}

impl Links {
    /// Until when the links of a node are or were slow.
    pub(crate) fn slow_until(&self, node: usize) -> u64 {
        self.slow.get(&node).map_or(0, |(_, until)| *until)
    }

    /// No link is slow any more. What was sent before is on its way, and what is sent from now on
    /// does not overtake it.
    pub(crate) fn speed_up(&mut self, now_ms: u64) {
        for (node, (times, until)) in &mut self.slow {
            let to_node = self.last_arrival.iter().filter(|((_, to), _)| to == node);
            let last = to_node.map(|(_, at_ms)| *at_ms).max().unwrap_or(0);
            (*times, *until) = (1, (*until).min(now_ms).max(last));
        }
    }
}

/// Who gets the results of a batch.
pub(crate) enum ReplyTo {
    /// An engine, if it was not restarted.
    Engine { incarnation: u32, ticket: Ticket },
    /// A worker, if it was not restarted.
    Worker { incarnation: u32, ticket: Ticket },
    /// An action of a caller, if the caller was not restarted.
    Caller { incarnation: u32, action: u64, ticket: Ticket },
}

/// Calls that are sent together, as a pipeline.
pub(crate) struct Batch {
    pub(super) sender: Actor,
    pub(super) slot: u16,
    pub(super) reply_to: Option<ReplyTo>,
    pub(super) calls: Vec<Call>,
    pub(super) unanswered: usize,
    /// No result is delivered; the sender times out.
    pub(super) unanswerable: bool,
}

pub(super) struct Call {
    pub(super) id: CallId,
    pub(super) node: usize,
    pub(super) hops: u8,
    /// It was sent on with ASK.
    pub(super) asking: bool,
    pub(super) argv: Argv,
    pub(super) call_effects: FaultEffects,
    pub(super) learned: Option<Learned>,
}

impl World {
    /// Sends calls to the node that serves their slot, as far as the sender knows.
    pub(crate) fn send(
        &mut self,
        sender: Actor,
        slot: u16,
        commands: Vec<Vec<Vec<u8>>>,
        effects: Vec<FaultEffects>,
        reply_to: ReplyTo,
    ) {
        let node = self.route(sender, slot);
        let id = self.network.next_batch;
        self.network.next_batch += 1;
        let arrival = self.arrival(sender, node);
        let (mut calls, mut unanswerable) = (Vec::new(), false);
        for (at, (argv, call_effects)) in commands.into_iter().zip(effects).enumerate() {
            let argv: Argv = Arc::new(argv);
            let call = self.network.next_call;
            self.network.next_call += 1;
            let node = if call_effects.misrouted { self.wrong_node(node) } else { node };
            self.emit(sender, EventKind::Sent { call, node: number(node), argv: argv.clone() });
            if call_effects.request_lost {
                self.emit(sender, EventKind::Lost { call, applied: false });
            } else {
                self.schedule(arrival + call_effects.late_ms, Scheduled::Arrive { batch: id, at });
            }
            unanswerable |= call_effects.silent;
            let learned = call_effects.request_lost.then(broken);
            calls.push(Call {
                id: call,
                node,
                hops: 0,
                asking: false,
                argv,
                call_effects,
                learned,
            });
        }
        if let ReplyTo::Worker { .. } | ReplyTo::Caller { .. } = reply_to {
            let patience = self.plan.config.patience.0;
            self.schedule(self.now_ms + patience, Scheduled::GiveUp { batch: id });
        }
        let unanswered = calls.iter().filter(|call| call.learned.is_none()).count();
        let batch =
            Batch { sender, slot, reply_to: Some(reply_to), calls, unanswered, unanswerable };
        self.network.batches.insert(id, batch);
        if unanswered == 0 {
            self.reply(id);
        }
    }

    fn route(&self, sender: Actor, slot: u16) -> usize {
        let first = usize::from(slot) % self.network.servers.shards();
        let shard = self.network.links.known.get(&(sender, slot)).copied().unwrap_or(first);
        let stale_primary = self.network.links.stale_primary.get(&(sender, shard)).copied();
        stale_primary.unwrap_or_else(|| self.network.servers.primary(shard))
    }

    fn wrong_node(&self, right: usize) -> usize {
        let shard = (self.network.servers.nodes[right].shard + 1) % self.network.servers.shards();
        self.network.servers.primary(shard)
    }

    pub(super) fn delay(&mut self, sender: Actor, node: usize) -> u64 {
        let span = self.plan.config.link.0;
        let delay = self.random(Purpose::Network, sender).within(span);
        match self.network.links.slow.get(&node) {
            Some((times, until)) if *until > self.now_ms => (delay + 1) * times,
            _ => delay,
        }
    }

    /// When a batch that is sent now arrives.
    fn arrival(&mut self, sender: Actor, node: usize) -> u64 {
        let delay = self.delay(sender, node);
        let free = self.network.links.clogged_until.get(&(sender, node)).copied().unwrap_or(0);
        let last = self.network.links.last_arrival.entry((sender, node)).or_default();
        *last = (self.now_ms + delay).max(*last).max(free);
        *last
    }

    /// A call arrives at its node.
    pub(crate) fn arrive(&mut self, id: u64, at: usize) {
        let Some(batch) = self.network.batches.get(&id) else { return };
        let (sender, slot) = (batch.sender, batch.slot);
        let Some(call) = batch.calls.get(at) else { return };
        let (call_id, node, hops) = (call.id, call.node, call.hops);
        let (argv, mut call_effects) = (call.argv.clone(), call.call_effects.clone());
        call_effects.options.asking = call.asking;
        let before = self.injections.count();
        if call_effects.slot_moves && hops == 0 {
            self.begin_move(slot);
            self.finish_hand_over(slot);
        }
        let sent = self.as_some_client_sends(slot, &argv);
        let onward = self.redirect(sender, slot, node, &sent, call_effects.options.asking);
        self.injections.note_fired(&call_effects.rules, before);
        if let Some(answer) = onward {
            match answer {
                Redirect::To(next) if hops < HOPS_MAX => return self.follow(id, at, next, false),
                Redirect::Ask(next) if hops < HOPS_MAX => return self.follow(id, at, next, true),
                Redirect::To(_) | Redirect::Ask(_) => {
                    return self.learn(id, at, error("MOVED too often"));
                }
                Redirect::Refused(text) => return self.learn(id, at, error(text)),
            }
        }
        if let Some(text) = call_effects.refused.clone().or_else(|| self.outage_of(node)) {
            return self.learn(id, at, Learned::Reply(Value::Error(text)));
        }
        self.make_racing_call(call_effects.racing_call, sender, node, &argv, None);
        let reply = self.apply(sender, node, call_id, &sent, call_effects.options);
        self.make_racing_call(call_effects.racing_call, sender, node, &argv, Some(&reply));
        self.injections.note_fired(&call_effects.rules, before);
        if let Some(later_ms) = call_effects.duplicate_after_ms {
            let again = Scheduled::ArriveDuplicate { sender, call: call_id, node, slot, argv };
            self.schedule(self.now_ms + later_ms, again);
        }
        if call_effects.crash_after {
            self.kill(sender);
        }
        if call_effects.fail_over_after {
            let shard = self.network.servers.nodes[node].shard;
            self.fail_over(shard, 1);
        }
        if call_effects.reply_lost {
            self.emit(sender, EventKind::Lost { call: call_id, applied: true });
            return self.learn(id, at, broken());
        }
        self.learn(id, at, Learned::Reply(reply));
    }

    /// A duplicate of a call arrives. The client follows redirects.
    pub(crate) fn arrive_duplicate(
        &mut self,
        sender: Actor,
        call: CallId,
        node: usize,
        slot: u16,
        argv: &Argv,
    ) {
        let node = match self.redirect(sender, slot, node, argv, false) {
            Some(Redirect::To(next)) => next,
            Some(Redirect::Ask(_) | Redirect::Refused(_)) => return,
            None => node,
        };
        if self.outage_of(node).is_none() {
            self.apply(sender, node, call, argv, ServeOptions::default());
        }
    }

    /// Where a call must go instead, if its slot has moved or the node was replaced.
    fn redirect(
        &mut self,
        sender: Actor,
        slot: u16,
        node: usize,
        argv: &[Vec<u8>],
        asking: bool,
    ) -> Option<Redirect> {
        let shard = self.network.servers.nodes[node].shard;
        let owner = self.network.servers.owner(slot);
        if self.network.servers.nodes[node].knows_successor {
            return Some(Redirect::To(self.network.servers.primary(owner)));
        }
        if let Some(step) = self.network.servers.key_move(slot) {
            return self.redirect_by_keys(sender, slot, step, node, argv, asking);
        }
        let moves = self.network.servers.moves.get(&slot).copied();
        if let Some(step) = moves.filter(|step| step.from == shard) {
            if step.handed_over {
                self.record_fault(Fault::Ask, format!("slot {slot} for {sender}"));
                return Some(Redirect::To(self.network.servers.primary(step.to)));
            }
            let hit = Ratio { hits: 1, of: 3 };
            if self.random(Purpose::Network, Actor::World).chance(hit) {
                self.record_fault(Fault::TryAgain, format!("slot {slot} for {sender}"));
                return Some(Redirect::Refused(TRY_AGAIN));
            }
            return None;
        }
        if shard == owner {
            return None;
        }
        self.record_fault(Fault::Moved, format!("slot {slot} for {sender}"));
        self.network.links.known.insert((sender, slot), owner);
        Some(Redirect::To(self.network.servers.primary(owner)))
    }

    /// Where a call must go instead whose slot moves key by key.
    fn redirect_by_keys(
        &mut self,
        sender: Actor,
        slot: u16,
        step: KeyMove,
        node: usize,
        argv: &[Vec<u8>],
        asking: bool,
    ) -> Option<Redirect> {
        let servers = &mut self.network.servers;
        let [source, target] = [step.from, step.to].map(|shard| servers.primary(shard));
        let moved = "MOVED".to_owned();
        let refusal = if [source, target].contains(&node) {
            servers.refusal_of_move(node, argv, asking, self.now_ms)?
        } else {
            moved
        };
        let detail = format!("slot {slot} for {sender}, key by key");
        if refusal.starts_with("ASK ") {
            self.record_fault(Fault::Ask, detail);
            return Some(Redirect::Ask(target));
        }
        if refusal.starts_with("MOVED") {
            self.record_fault(Fault::Moved, detail);
            self.network.links.known.insert((sender, slot), step.from);
            return Some(Redirect::To(source));
        }
        self.record_fault(Fault::TryAgain, detail);
        Some(Redirect::Refused(TRY_AGAIN))
    }

    /// While a slot moves key by key, half of the calls declare the keys of the contract only, as
    /// those of other clients.
    fn as_some_client_sends(&mut self, slot: u16, argv: &Argv) -> Argv {
        if self.network.servers.key_move(slot).is_none()
            || self.random(Purpose::Network, Actor::World).chance(Ratio { hits: 1, of: 2 })
        {
            return argv.clone();
        }
        without_absent_key(argv).map_or_else(|| argv.clone(), Arc::new)
    }

    /// Sends a call to another node.
    fn follow(&mut self, id: u64, at: usize, node: usize, asking: bool) {
        let Some(batch) = self.network.batches.get_mut(&id) else { return };
        let sender = batch.sender;
        if let Some(call) = batch.calls.get_mut(at) {
            call.hops += 1;
            (call.node, call.asking) = (node, asking);
        }
        let wait = 2 * self.delay(sender, node);
        self.schedule(self.now_ms + wait, Scheduled::Arrive { batch: id, at });
    }

    fn outage_of(&self, node: usize) -> Option<String> {
        let outage = self.network.servers.nodes[node].outage.as_ref()?;
        (!outage.reads_pass).then(|| outage.error.clone())
    }

    /// Applies a call on a node and emits the event.
    pub(crate) fn apply(
        &mut self,
        sender: Actor,
        node: usize,
        call: CallId,
        argv: &Argv,
        options: ServeOptions,
    ) -> Value {
        let before = self.profiler.enter(Part::Store);
        let served = self.network.servers.serve(node, call, argv, self.now_ms, options);
        self.profiler.leave_store(before, argv);
        self.counters.calls += 1;
        self.counters.commits += u64::from(served.commit.is_some());
        let reply = served.reply.clone();
        let published = served.published.clone();
        let applied = Applied {
            call,
            node: number(node),
            superseded: self.network.servers.nodes[node].superseded,
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
        self.emit_touching(sender, EventKind::Applied(Box::new(applied)), &served.touched);
        self.push(&published);
        reply
    }
}

/// Where a call goes that arrived at the wrong node.
enum Redirect {
    To(usize),
    /// This one call only.
    Ask(usize),
    Refused(&'static str),
}

/// The number of a node in events.
pub(crate) fn number(node: usize) -> u8 {
    u8::try_from(node + 1).unwrap_or(u8::MAX)
}

/// The words of commands.
pub(crate) fn argv_of(commands: Vec<Command>) -> Vec<Vec<Vec<u8>>> {
    commands.into_iter().map(|command| command.argv).collect()
}
