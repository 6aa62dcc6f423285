//! [`Cluster`]: sends commands to the servers that own their slots, and follows redirects.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use futures_util::future::join_all;
use selvedge_core::command::{Answer, Command};
use selvedge_core::error::{Class, ServerError};
use selvedge_core::value::Value;
use tokio::sync::Mutex;
use tokio::time::{Instant, sleep_until};

use super::connector::argv;
use super::node::Node;
use super::slots::{Redirect, SlotMap, read_slots};
use super::topology::NodeFactory;
use super::url::Address;
use super::{StoreError, reply_of};

pub(super) struct Cluster {
    seeds: Vec<Address>,
    map: RwLock<SlotMap>,
    /// When the slots were last read; locked while reading, so that concurrent callers read once.
    refreshed: Mutex<Option<Instant>>,
    next_server: AtomicUsize,
}

/// A command of a batch that has no final answer yet.
#[derive(Clone)]
struct PendingCommand {
    /// Its index in the batch.
    index: usize,
    /// The server of an `ASK` redirect: it takes the command after `ASKING`.
    asking: Option<Address>,
}

/// What to do after an answer.
enum FollowUp {
    Done,
    Moved(u16, Address),
    Ask(Address),
    /// The command was not sent; its slot may have a new owner by now.
    NotSent,
    /// The server became a replica and lacks the library, which only its primary can replicate to
    /// it. So it fails before it can redirect.
    Demoted,
}

impl Cluster {
    /// Reads the slots from any of the seeds, and connects to the primaries. One that does not
    /// answer is tried again in the background, if there is another that does.
    pub(super) async fn open(
        factory: &NodeFactory,
        seeds: Vec<Address>,
    ) -> Result<Self, StoreError> {
        let cluster = Self {
            seeds,
            map: RwLock::new(SlotMap::default()),
            refreshed: Mutex::new(None),
            next_server: AtomicUsize::new(0),
        };
        cluster.refresh(factory).await?;
        let nodes = cluster.nodes();
        if nodes.is_empty() {
            return Err(StoreError::NoSlots);
        }
        let attempts = join_all(nodes.iter().map(|node| node.first_connect())).await;
        let any_connected = attempts.iter().any(Result::is_ok);
        let is_fatal = |error: &ServerError| !any_connected || !error.is_transient();
        match attempts.into_iter().filter_map(Result::err).find(is_fatal) {
            Some(error) => Err(error.into()),
            None => Ok(cluster),
        }
    }

    /// Runs a batch: one pipeline per server. Only commands that were surely not applied, because
    /// their slot moved or they were never sent, are sent again.
    pub(super) async fn run(
        &self,
        factory: &NodeFactory,
        batch: &[Command],
        until: Instant,
    ) -> Vec<Answer> {
        let mut answers: Vec<Answer> = Vec::with_capacity(batch.len());
        answers.resize(batch.len(), Answer::NotApplied(ServerError::never_sent("no server")));
        let mut pending: Vec<PendingCommand> =
            (0..batch.len()).map(|index| PendingCommand { index, asking: None }).collect();
        let mut redirects_left = REDIRECTS_MAX;
        loop {
            let mut retries = Vec::new();
            let (mut moved, mut not_sent, mut demoted) = (false, false, false);
            for (command, answer) in self.send_once(factory, batch, pending, until).await {
                let index = command.index;
                match follow_up(&answer) {
                    FollowUp::Moved(slot, owner) if redirects_left > 0 => {
                        self.set_owner(factory, slot, owner);
                        moved = true;
                        retries.push(PendingCommand { index, asking: None });
                    }
                    FollowUp::Ask(server) if redirects_left > 0 => {
                        moved = true;
                        retries.push(PendingCommand { index, asking: Some(server) });
                    }
                    FollowUp::NotSent if Instant::now() < until => {
                        not_sent = true;
                        retries.push(PendingCommand { index, asking: None });
                    }
                    FollowUp::Demoted if redirects_left > 0 => {
                        (moved, demoted) = (true, true);
                        retries.push(PendingCommand { index, asking: None });
                    }
                    FollowUp::Done
                    | FollowUp::Moved(..)
                    | FollowUp::Ask(_)
                    | FollowUp::NotSent
                    | FollowUp::Demoted => {}
                }
                answers[index] = answer;
            }
            if retries.is_empty() {
                return answers;
            }
            // Waiting for a server is bounded by the deadline, redirects by a count.
            redirects_left -= u32::from(moved);
            if demoted {
                // The other servers may not know the new primary yet.
                sleep_until(until.min(Instant::now() + REFRESH_INTERVAL_MIN)).await;
            }
            if moved || not_sent {
                // On failure, retry with the slots known so far.
                let _ = self.refresh(factory).await;
            }
            retries.sort_by_key(|command| command.index);
            pending = retries;
        }
    }

    /// Sends every pending command once, to the server that owns its slot as far as known.
    async fn send_once(
        &self,
        factory: &NodeFactory,
        batch: &[Command],
        pending: Vec<PendingCommand>,
        until: Instant,
    ) -> Vec<(PendingCommand, Answer)> {
        let mut groups: BTreeMap<(Address, bool), Vec<PendingCommand>> = BTreeMap::new();
        let mut answered = Vec::new();
        for command in pending {
            let asking = command.asking.is_some();
            match command.asking.clone().or_else(|| self.owner(batch[command.index].slot)) {
                Some(server) => groups.entry((server, asking)).or_default().push(command),
                None => {
                    let error = ServerError::never_sent("no server owns the slot");
                    answered.push((command, Answer::NotApplied(error)));
                }
            }
        }
        let reachable_by = until.min(Instant::now() + REROUTE_AFTER);
        let asking = argv(&["ASKING"]);
        let exchanges = groups.into_iter().map(async |((server, ask), pending)| {
            let mut commands: Vec<&[Vec<u8>]> = Vec::new();
            for command in &pending {
                if ask {
                    commands.push(&asking);
                }
                commands.push(&batch[command.index].argv);
            }
            let node = self.node(factory, server);
            let mut answers = node.execute(&commands, reachable_by, until).await;
            if ask {
                // Drop the replies to ASKING.
                answers = answers.into_iter().skip(1).step_by(2).collect();
            }
            pending.into_iter().zip(answers).collect::<Vec<_>>()
        });
        answered.extend(join_all(exchanges).await.into_iter().flatten());
        answered
    }

    /// Reads the slots again, unless that was done within [`REFRESH_INTERVAL_MIN`].
    async fn refresh(&self, factory: &NodeFactory) -> Result<(), ServerError> {
        let mut refreshed = self.refreshed.lock().await;
        if refreshed.is_some_and(|when| when.elapsed() < REFRESH_INTERVAL_MIN) {
            return Ok(());
        }
        let known = self.nodes();
        let other_seeds =
            self.seeds.iter().filter(|seed| !known.iter().any(|n| n.address == **seed));
        let candidates: Vec<Arc<Node>> = known
            .iter()
            .cloned()
            .chain(other_seeds.cloned().map(|seed| factory.node(seed)))
            .collect();
        let mut last = ServerError::never_sent("the cluster has no known server");
        for node in candidates {
            match fetch_slots(&node, factory.connector.connect_within).await {
                Ok(ranges) => {
                    self.replace_slots(factory, ranges, &node);
                    *refreshed = Some(Instant::now());
                    return Ok(());
                }
                Err(error) => last = error,
            }
        }
        *refreshed = Some(Instant::now());
        Err(last)
    }

    fn replace_slots(
        &self,
        factory: &NodeFactory,
        ranges: Vec<(u16, u16, Address)>,
        source: &Arc<Node>,
    ) {
        let mut map = self.map.write().unwrap_or_else(PoisonError::into_inner);
        map.replace_slots(ranges, |address| {
            if *address == source.address { source.clone() } else { factory.node(address.clone()) }
        });
    }

    fn set_owner(&self, factory: &NodeFactory, slot: u16, owner: Address) {
        let mut map = self.map.write().unwrap_or_else(PoisonError::into_inner);
        map.set_owner(slot, owner, |address| factory.node(address.clone()));
    }

    fn owner(&self, slot: u16) -> Option<Address> {
        self.map.read().unwrap_or_else(PoisonError::into_inner).owner(slot)
    }

    fn node(&self, factory: &NodeFactory, server: Address) -> Arc<Node> {
        let mut map = self.map.write().unwrap_or_else(PoisonError::into_inner);
        map.node(server, |address| factory.node(address.clone()))
    }

    fn nodes(&self) -> Vec<Arc<Node>> {
        self.map.read().unwrap_or_else(PoisonError::into_inner).nodes()
    }

    pub(super) fn slot_per_server(&self) -> BTreeMap<Address, u16> {
        self.map.read().unwrap_or_else(PoisonError::into_inner).slot_per_owner()
    }

    pub(super) fn next_subscribe_address(&self) -> Address {
        let next_server = self.next_server.fetch_add(1, Ordering::Relaxed);
        let nodes = self.nodes();
        let healthy: Vec<&Arc<Node>> =
            nodes.iter().filter(|n| n.connection_error().is_none()).collect();
        match healthy.is_empty() {
            true => self.seeds[next_server % self.seeds.len()].clone(),
            false => healthy[next_server % healthy.len()].address.clone(),
        }
    }

    pub(super) fn connection_error(&self) -> Option<ServerError> {
        self.nodes().iter().find_map(|node| node.connection_error())
    }

    pub(super) fn addresses(&self) -> Vec<String> {
        self.nodes().iter().map(|node| node.address.to_string()).collect()
    }
}

fn follow_up(answer: &Answer) -> FollowUp {
    match answer {
        Answer::Applied(Value::Error(text)) => match Redirect::read(text) {
            Some(Redirect::Moved(slot, address)) => FollowUp::Moved(slot, address),
            Some(Redirect::Ask(address)) => FollowUp::Ask(address),
            None => FollowUp::Done,
        },
        Answer::NotApplied(error) if error.class == Class::NotNow => FollowUp::NotSent,
        Answer::NotApplied(error) if error.text.starts_with("READONLY") => FollowUp::Demoted,
        Answer::Applied(_) | Answer::NotApplied(_) | Answer::PerhapsApplied(_) => FollowUp::Done,
    }
}

async fn fetch_slots(
    node: &Node,
    within: Duration,
) -> Result<Vec<(u16, u16, Address)>, ServerError> {
    let until = Instant::now() + within.min(FETCH_SLOTS_WITHIN);
    let question = argv(&["CLUSTER", "SLOTS"]);
    let answer = node.execute(&[&question], until, until).await.pop();
    read_slots(reply_of(answer)?, &node.address).ok_or_else(|| {
        ServerError::from_reply(format!("{}: unreadable reply to CLUSTER SLOTS", node.address))
    })
}

/// Most redirects of one batch. A slot migration takes one or two.
const REDIRECTS_MAX: u32 = 5;

/// How long a command waits for a connection before the owner of its slot is looked up again.
const REROUTE_AFTER: Duration = Duration::from_millis(200);

/// The slots are not read more often than this.
const REFRESH_INTERVAL_MIN: Duration = Duration::from_millis(100);

/// Timeout of reading the slots from one server; then the next is tried.
const FETCH_SLOTS_WITHIN: Duration = Duration::from_secs(1);
