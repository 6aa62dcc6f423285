//! [`Cluster`]: the way from a slot to the server that owns it, as slots and servers move.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use futures_util::future::join_all;
use selvedge_core::engine::{Answer, Command};
use selvedge_core::error::{Class, ServerError};
use selvedge_core::value::Value;
use tokio::sync::Mutex;
use tokio::time::{Instant, sleep_until};

use super::access::words;
use super::fleet::Yard;
use super::node::Node;
use super::slots::{Redirect, SlotMap, read_slots};
use super::url::Address;
use super::{StoreError, reply_of};

pub(super) struct Cluster {
    seeds: Vec<Address>,
    map: RwLock<SlotMap>,
    /// When the map was last asked for; held while it is, so that many askers ask once.
    refreshed: Mutex<Option<Instant>>,
    turn: AtomicUsize,
}

/// One command on its way.
#[derive(Clone)]
struct Errand {
    place: usize,
    /// A slot that is being moved: this server may take the command, if told so first.
    asking: Option<Address>,
}

/// What to do about an answer.
enum Next {
    Done,
    Moved(u16, Address),
    Ask(Address),
    /// It was never sent; its slot may have a new owner by now.
    Unreached,
    /// The server is no primary any more, and lacks the library, which only its primary can give
    /// it. So it never says who has the slot now.
    Demoted,
}

impl Cluster {
    /// Finds the cluster through any of the seeds, and makes sure of every primary.
    pub(super) async fn open(yard: &Yard, seeds: Vec<Address>) -> Result<Self, StoreError> {
        let cluster = Self {
            seeds,
            map: RwLock::new(SlotMap::default()),
            refreshed: Mutex::new(None),
            turn: AtomicUsize::new(0),
        };
        cluster.refresh(yard).await?;
        let nodes = cluster.nodes();
        if nodes.is_empty() {
            return Err(StoreError::NoSlots);
        }
        for attempt in join_all(nodes.iter().map(|node| node.first_attempt())).await {
            attempt?;
        }
        Ok(cluster)
    }

    /// Carries out a batch: one pipeline per owner of slots. Commands that were surely not applied
    /// because their slot is elsewhere follow it; nothing else is ever sent twice.
    pub(super) async fn run(&self, yard: &Yard, batch: &[Command], until: Instant) -> Vec<Answer> {
        let mut answers: Vec<Answer> = Vec::with_capacity(batch.len());
        answers.resize(batch.len(), Answer::NotApplied(ServerError::never_sent("no server")));
        let mut errands: Vec<Errand> =
            (0..batch.len()).map(|place| Errand { place, asking: None }).collect();
        let mut hops_left = HOPS_MAX;
        loop {
            let mut onward = Vec::new();
            let (mut moved, mut unreached, mut demoted) = (false, false, false);
            for (errand, answer) in self.round(yard, batch, errands, until).await {
                let place = errand.place;
                match next(&answer) {
                    Next::Moved(slot, owner) if hops_left > 0 => {
                        self.learn(yard, slot, owner);
                        moved = true;
                        onward.push(Errand { place, asking: None });
                    }
                    Next::Ask(server) if hops_left > 0 => {
                        moved = true;
                        onward.push(Errand { place, asking: Some(server) });
                    }
                    Next::Unreached if Instant::now() < until => {
                        unreached = true;
                        onward.push(Errand { place, asking: None });
                    }
                    Next::Demoted if hops_left > 0 => {
                        (moved, demoted) = (true, true);
                        onward.push(Errand { place, asking: None });
                    }
                    Next::Done
                    | Next::Moved(..)
                    | Next::Ask(_)
                    | Next::Unreached
                    | Next::Demoted => {}
                }
                answers[place] = answer;
            }
            if onward.is_empty() {
                return answers;
            }
            // A server that is away is bounded by the deadline, a slot that runs away by a count.
            hops_left -= u32::from(moved);
            if demoted {
                // It refuses at once, and the others may not have heard of its heir yet.
                sleep_until(until.min(Instant::now() + REFRESH_PAUSE)).await;
            }
            if moved || unreached {
                // The next round uses whatever is known by then.
                let _ = self.refresh(yard).await;
            }
            onward.sort_by_key(|errand| errand.place);
            errands = onward;
        }
    }

    /// Sends every errand to where its slot is believed to be.
    async fn round(
        &self,
        yard: &Yard,
        batch: &[Command],
        errands: Vec<Errand>,
        until: Instant,
    ) -> Vec<(Errand, Answer)> {
        let mut groups: BTreeMap<(Address, bool), Vec<Errand>> = BTreeMap::new();
        let mut settled = Vec::new();
        for errand in errands {
            let asking = errand.asking.is_some();
            match errand.asking.clone().or_else(|| self.owner(batch[errand.place].slot)) {
                Some(server) => groups.entry((server, asking)).or_default().push(errand),
                None => {
                    let error = ServerError::never_sent("no server owns the slot");
                    settled.push((errand, Answer::NotApplied(error)));
                }
            }
        }
        let reachable_by = until.min(Instant::now() + REROUTE_AFTER);
        let asking = words(&["ASKING"]);
        let exchanges = groups.into_iter().map(async |((server, ask), errands)| {
            let mut commands: Vec<&[Vec<u8>]> = Vec::new();
            for errand in &errands {
                if ask {
                    commands.push(&asking);
                }
                commands.push(&batch[errand.place].argv);
            }
            let node = self.node(yard, server);
            let mut answers = node.carry_out(&commands, reachable_by, until).await;
            if ask {
                // Every second one answers the ASKING before it.
                answers = answers.into_iter().skip(1).step_by(2).collect();
            }
            errands.into_iter().zip(answers).collect::<Vec<_>>()
        });
        settled.extend(join_all(exchanges).await.into_iter().flatten());
        settled
    }

    /// Asks for the slots again, unless somebody did so a moment ago.
    async fn refresh(&self, yard: &Yard) -> Result<(), ServerError> {
        let mut refreshed = self.refreshed.lock().await;
        if refreshed.is_some_and(|when| when.elapsed() < REFRESH_PAUSE) {
            return Ok(());
        }
        let known = self.nodes();
        let strangers = self.seeds.iter().filter(|seed| !known.iter().any(|n| n.address == **seed));
        let candidates: Vec<Arc<Node>> =
            known.iter().cloned().chain(strangers.cloned().map(|seed| yard.node(seed))).collect();
        let mut last = ServerError::never_sent("the cluster has no known server");
        for node in candidates {
            match ask_slots(&node, yard.access.connect_within).await {
                Ok(ranges) => {
                    self.adopt(yard, ranges, &node);
                    *refreshed = Some(Instant::now());
                    return Ok(());
                }
                Err(error) => last = error,
            }
        }
        *refreshed = Some(Instant::now());
        Err(last)
    }

    fn adopt(&self, yard: &Yard, ranges: Vec<(u16, u16, Address)>, teller: &Arc<Node>) {
        let mut map = self.map.write().unwrap_or_else(PoisonError::into_inner);
        map.adopt(ranges, |address| {
            if *address == teller.address { teller.clone() } else { yard.node(address.clone()) }
        });
    }

    fn learn(&self, yard: &Yard, slot: u16, owner: Address) {
        let mut map = self.map.write().unwrap_or_else(PoisonError::into_inner);
        map.learn(slot, owner, |address| yard.node(address.clone()));
    }

    fn owner(&self, slot: u16) -> Option<Address> {
        self.map.read().unwrap_or_else(PoisonError::into_inner).owner(slot)
    }

    fn node(&self, yard: &Yard, server: Address) -> Arc<Node> {
        let mut map = self.map.write().unwrap_or_else(PoisonError::into_inner);
        map.node(server, |address| yard.node(address.clone()))
    }

    fn nodes(&self) -> Vec<Arc<Node>> {
        self.map.read().unwrap_or_else(PoisonError::into_inner).nodes()
    }

    pub(super) fn a_slot_per_server(&self) -> Vec<u16> {
        self.map.read().unwrap_or_else(PoisonError::into_inner).a_slot_per_owner()
    }

    pub(super) fn any_address(&self) -> Address {
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        let nodes = self.nodes();
        let healthy: Vec<&Arc<Node>> = nodes.iter().filter(|n| n.trouble().is_none()).collect();
        match healthy.is_empty() {
            true => self.seeds[turn % self.seeds.len()].clone(),
            false => healthy[turn % healthy.len()].address.clone(),
        }
    }

    pub(super) fn trouble(&self) -> Option<ServerError> {
        self.nodes().iter().find_map(|node| node.trouble())
    }

    pub(super) fn addresses(&self) -> Vec<String> {
        self.nodes().iter().map(|node| node.address.to_string()).collect()
    }
}

fn next(answer: &Answer) -> Next {
    match answer {
        Answer::Applied(Value::Error(text)) => match Redirect::read(text) {
            Some(Redirect::Moved(slot, address)) => Next::Moved(slot, address),
            Some(Redirect::Ask(address)) => Next::Ask(address),
            None => Next::Done,
        },
        Answer::NotApplied(error) if error.class == Class::NotNow => Next::Unreached,
        Answer::NotApplied(error) if error.text.starts_with("READONLY") => Next::Demoted,
        Answer::Applied(_) | Answer::NotApplied(_) | Answer::PerhapsApplied(_) => Next::Done,
    }
}

async fn ask_slots(node: &Node, within: Duration) -> Result<Vec<(u16, u16, Address)>, ServerError> {
    let until = Instant::now() + within.min(ASK_WITHIN);
    let question = words(&["CLUSTER", "SLOTS"]);
    let answer = node.carry_out(&[&question], until, until).await.pop();
    read_slots(reply_of(answer)?, &node.address).ok_or_else(|| {
        ServerError::from_reply(format!("{}: unreadable reply to CLUSTER SLOTS", node.address))
    })
}

/// How often a command follows its slot. A migration takes one or two.
const HOPS_MAX: u32 = 5;

/// How long a command waits for a server before it is looked up whether another has its slot.
const REROUTE_AFTER: Duration = Duration::from_millis(200);

/// The map is not asked for more often than this, whoever stumbles.
const REFRESH_PAUSE: Duration = Duration::from_millis(100);

/// A server that does not tell the slots within this is passed over for another.
const ASK_WITHIN: Duration = Duration::from_secs(1);
