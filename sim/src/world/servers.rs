//! The servers: one Lua VM, and a keyspace, a library and a clock for each node. The node that is
//! served has its keyspace in the VM's hands; the others keep theirs aside.

use std::collections::{BTreeMap, VecDeque};

use selvedge_core::audit;
use selvedge_core::partition::SLOTS;
use selvedge_core::time::ServerTime;
use selvedge_core::value::Value;
use selvedge_lua::host::{HostConfig, Image, Message, Outcome, Snapshot};

use super::ledger::{Commit, Ledger};
use super::spare::LoadedHost;
use crate::event::CallId;
use crate::plan::Config;

/// Server time at which every world begins, in milliseconds.
pub const EPOCH_MS: u64 = 1_700_000_000_000;

/// What a node out of memory answers.
pub const OUT_OF_MEMORY: &str = "OOM command not allowed when used memory > 'maxmemory'.";

/// One server.
pub struct Node {
    /// The shard that it belongs to.
    pub shard: usize,
    /// How far its clock is off.
    pub skew_ms: i64,
    /// What it answers instead of serving, while it is in trouble.
    pub trouble: Option<Trouble>,
    /// More keys than this do not fit.
    pub keys_max: Option<usize>,
    /// Whether another node has taken its place, unknown to it.
    pub stray: bool,
    /// Whether it has learned that: it sends whoever asks to the node that took its place.
    pub deposed: bool,
    /// The last commit before another node took its place.
    split_at: Option<u64>,
    data: Snapshot,
}

/// Why a node does not serve.
#[derive(Clone, Debug)]
pub struct Trouble {
    /// What it answers.
    pub error: String,
    /// Whether reads pass.
    pub reads_pass: bool,
    /// Until when.
    pub until_ms: u64,
}

/// How one call is to be served.
#[derive(Clone, Copy, Debug, Default)]
pub struct Manner {
    /// Lets the script raise at one of the commands up to its first write.
    pub raise_at: Option<u64>,
    /// Serves it from a replica that is so many commits behind.
    pub behind: Option<u64>,
}

/// A slot on its way from one shard to another.
#[derive(Clone, Copy, Debug)]
pub struct Move {
    /// From where.
    pub from: usize,
    /// To where.
    pub to: usize,
    /// Whether the keys have gone.
    pub handed_over: bool,
}

/// What follows a primary: a keyspace some commits behind, and what it has not seen yet.
#[derive(Default)]
struct Follower {
    data: Snapshot,
    unseen: VecDeque<(u64, Image)>,
}

impl Follower {
    /// Catches up to this commit.
    fn see(&mut self, number: u64) {
        while let Some((_, image)) = self.unseen.pop_front_if(|(at, _)| *at <= number) {
            self.data.apply(&image);
        }
    }
}

/// What became of a call on a node.
pub struct Served {
    /// The reply.
    pub reply: Value,
    /// What it wrote.
    pub writes: Vec<Vec<Vec<u8>>>,
    /// The keys of that.
    pub touched: Vec<Vec<u8>>,
    /// What it published.
    pub published: Vec<Message>,
    /// Its number in the ledger.
    pub commit: Option<u64>,
    /// The node's clock.
    pub server_time_us: u64,
    /// How many commands its script asked for.
    pub inner_commands: usize,
}

/// All servers of a world.
pub struct Servers {
    /// The nodes. At first they are the primaries, one per shard; others join when those fail.
    pub nodes: Vec<Node>,
    /// What each shard's primary holds, as the oracles see it.
    pub audited: Vec<audit::Snapshot>,
    /// Everything that was written.
    pub ledger: Ledger,
    /// Slots on their way.
    pub moves: BTreeMap<u16, Move>,
    host: LoadedHost,
    current: usize,
    primaries: Vec<usize>,
    followers: Vec<Follower>,
    follow: bool,
    heads: Vec<u64>,
    owners: Vec<u8>,
    /// How long something may be due before it counts as forgotten.
    patience_ms: i64,
}

impl Servers {
    /// The servers of a plan, all with this library. Those that nobody fails over need no
    /// follower.
    ///
    /// # Errors
    /// When a server refuses the library.
    pub fn new(
        config: &Config,
        library: &str,
        host_seed: u64,
        follow: bool,
    ) -> Result<Self, String> {
        let shards = usize::try_from(config.shards.clamp(1, 3)).unwrap_or(1);
        let host_config = HostConfig {
            cluster: shards > 1,
            seed: host_seed,
            unruly_scans: config.unruly_scans,
            // Every loop of the library has its bound; that is tested where somebody counts.
            instruction_budget: u64::MAX,
            ..HostConfig::default()
        };
        let mut host = LoadedHost::new(library, host_config)?;
        host.set_now_us(EPOCH_MS * 1000);
        let fresh = host.fresh.clone();
        let epoch = ServerTime(EPOCH_MS.cast_signed());
        // Who scans seldom is given time for two rounds.
        let patience_ms = audit::PATIENCE_MS.max((3 * config.interval.0).cast_signed());
        let mut audited = audit::Snapshot::new(epoch);
        audited.set_patience_ms(patience_ms);
        let owner = |slot: u16| u8::try_from(usize::from(slot) % shards).unwrap_or(0);
        let follower = |_| Follower { data: fresh.clone(), ..Follower::default() };
        Ok(Self {
            nodes: (0..shards).map(|shard| Node::new(shard, fresh.clone())).collect(),
            audited: vec![audited; shards],
            patience_ms,
            ledger: Ledger::default(),
            moves: BTreeMap::new(),
            host,
            current: 0,
            primaries: (0..shards).collect(),
            followers: (0..shards).map(follower).collect(),
            follow,
            heads: vec![0; shards],
            owners: (0..SLOTS).map(owner).collect(),
        })
    }

    /// The world has ended; the next one can have what is still of use.
    pub(crate) fn retire(self) {
        self.host.leave();
    }

    /// How many shards there are.
    #[must_use]
    pub fn shards(&self) -> usize {
        self.primaries.len()
    }

    /// Which shard owns a slot.
    #[must_use]
    pub fn owner(&self, slot: u16) -> usize {
        self.owners.get(usize::from(slot)).map_or(0, |shard| usize::from(*shard))
    }

    /// The node that serves a shard.
    #[must_use]
    pub fn primary(&self, shard: usize) -> usize {
        self.primaries[shard]
    }

    /// How many commits a shard has seen.
    #[must_use]
    pub fn head(&self, shard: usize) -> u64 {
        self.heads[shard]
    }

    /// A node's clock.
    #[must_use]
    pub fn clock_ms(&self, node: usize, now_ms: u64) -> u64 {
        (EPOCH_MS + now_ms).saturating_add_signed(self.nodes[node].skew_ms)
    }

    /// Carries out a call on a node.
    pub fn serve(
        &mut self,
        node: usize,
        call: CallId,
        argv: &[Vec<u8>],
        now_ms: u64,
        manner: Manner,
    ) -> Served {
        self.turn_to(node);
        let clock_ms = self.clock_ms(node, now_ms);
        self.host.set_now_us(clock_ms * 1000);
        let full = self.nodes[node].keys_max.is_some_and(|max| self.host.key_count() > max);
        let refusal = match &self.nodes[node].trouble {
            Some(trouble) if trouble.reads_pass => Some(trouble.error.clone()),
            _ => full.then(|| OUT_OF_MEMORY.to_owned()),
        };
        self.host.refuse_writes(refusal);
        let reply = self.carry_out(node, argv, manner);
        let mut served = Served {
            reply,
            writes: Vec::new(),
            touched: Vec::new(),
            published: self.host.take_published(),
            commit: None,
            server_time_us: clock_ms * 1000,
            inner_commands: self.host.last_inner_commands(),
        };
        if self.host.has_written() && manner.behind.is_none() {
            self.commit(node, call, now_ms, &mut served);
        }
        served.writes = self.host.take_writes();
        served
    }

    fn carry_out(&mut self, node: usize, argv: &[Vec<u8>], manner: Manner) -> Value {
        if let Some(behind) = manner.behind {
            let shard = self.nodes[node].shard;
            let head = self.heads[shard];
            let follower = &mut self.followers[shard];
            follower.see(head.saturating_sub(behind));
            self.host.swap(&mut follower.data);
            // A replica takes no writes, whatever is asked of it.
            self.host.refuse_writes(Some(
                "READONLY You can't write against a read only replica.".to_owned(),
            ));
            let reply = self.host.call_words(argv);
            self.host.swap(&mut self.followers[shard].data);
            return reply;
        }
        let Some(drawn) = manner.raise_at else { return self.host.call_words(argv) };
        // A server may refuse a command until the first write, never after it: look where that is.
        let before = self.host.snapshot();
        self.host.log_inner_commands(true);
        let clean = self.host.call_words(argv);
        let inner = self.host.last_inner_log();
        self.host.log_inner_commands(false);
        if inner.is_empty() {
            return clean;
        }
        drop(self.host.take_published());
        self.host.restore(&before);
        let first_write = inner.iter().position(|one| one.outcome == Outcome::Wrote);
        let places = first_write.map_or(inner.len(), |at| at + 1) as u64;
        let at = usize::try_from(drawn % places).unwrap_or(0) + 1;
        self.host.fail_at(at, "ERR injected: the server refuses this command");
        let reply = self.host.call_words(argv);
        self.host.clear_failure();
        reply
    }

    /// Notes what a call wrote: for the oracles, for the ledger and for whoever follows.
    fn commit(&mut self, node: usize, call: CallId, now_ms: u64, served: &mut Served) {
        let keys = self.host.last_written_keys();
        let shard = self.nodes[node].shard;
        self.heads[shard] += 1;
        let number = self.heads[shard];
        served.commit = Some(number);
        // What a node writes after another has taken its place is seen by nobody else.
        if !self.nodes[node].stray {
            self.refresh(node, now_ms, keys.iter().map(Vec::as_slice));
            if self.follow {
                let image = self.host.image(keys.iter().map(Vec::as_slice));
                self.followers[shard].unseen.push_back((number, image));
            }
        }
        served.touched = keys.iter().cloned().collect();
        let numbered = |number: usize| u8::try_from(number).unwrap_or(u8::MAX);
        self.ledger.add(Commit {
            number,
            shard: numbered(shard),
            node: numbered(node + 1),
            at_ms: now_ms,
            call,
            keys,
            lost_at_ms: None,
        });
    }

    /// Shows the oracles what stands under these keys now.
    fn refresh<'a>(&mut self, node: usize, now_ms: u64, keys: impl Iterator<Item = &'a [u8]>) {
        let clock_ms = self.clock_ms(node, now_ms);
        let audited = &mut self.audited[self.nodes[node].shard];
        audited.advance(ServerTime(clock_ms.cast_signed()));
        for key in keys {
            audited.put(key, self.host.entry(key));
        }
    }

    /// Shows the oracles everything a shard's primary holds.
    fn refresh_all(&mut self, shard: usize, now_ms: u64) {
        let node = self.primaries[shard];
        self.turn_to(node);
        let clock_ms = self.clock_ms(node, now_ms);
        self.host.set_now_us(clock_ms * 1000);
        self.audited[shard] = self.host.audited();
        self.audited[shard].set_patience_ms(self.patience_ms);
    }

    /// Puts a follower in the primary's place: everything but the last `losing` commits. Answers
    /// the numbers of the first and the last lost commit, if any was.
    pub fn fail_over(&mut self, shard: usize, losing: u64, now_ms: u64) -> Option<(u64, u64)> {
        let (node, head) = (self.primaries[shard], self.heads[shard]);
        let follower = &mut self.followers[shard];
        follower.see(head.saturating_sub(losing));
        let first = follower.unseen.front().map(|(number, _)| *number);
        follower.unseen.clear();
        let mut data = follower.data.clone();
        self.turn_to(node);
        self.host.swap(&mut data);
        self.refresh_all(shard, now_ms);
        let number = |node: usize| u8::try_from(node).unwrap_or(u8::MAX);
        let (shard, node) = (number(shard), number(node + 1));
        let first = first?;
        // What a node wrote while another had its place is not of this branch. All else is, whoever
        // wrote it: before a split the other node was the primary.
        let nodes = &self.nodes;
        let of_this_branch = |commit: &Commit| {
            let other = nodes.get(usize::from(commit.node).saturating_sub(1));
            commit.node == node
                || other.and_then(|other| other.split_at).is_none_or(|at| commit.number <= at)
        };
        self.ledger.lose(now_ms, |commit| {
            commit.shard == shard && commit.number >= first && of_this_branch(commit)
        })
    }

    /// Lets a new primary take over while the old one goes on; answers the old one.
    pub fn split(&mut self, shard: usize) -> usize {
        let old = self.primaries[shard];
        self.turn_to(old);
        let mut new = Node::new(shard, self.host.snapshot());
        new.skew_ms = self.nodes[old].skew_ms;
        self.nodes[old].stray = true;
        self.nodes[old].split_at = Some(self.heads[shard]);
        self.nodes.push(new);
        self.primaries[shard] = self.nodes.len() - 1;
        old
    }

    /// Ends what a node wrote after another had taken its place; answers what is lost.
    pub fn heal(&mut self, old: usize, since: u64, now_ms: u64) -> Option<(u64, u64)> {
        self.nodes[old].deposed = true;
        let node = u8::try_from(old + 1).unwrap_or(u8::MAX);
        self.ledger.lose(now_ms, |commit| commit.node == node && commit.number > since)
    }

    /// Lets a node come back with nothing, or with what it had so long ago. Answers what is lost.
    pub fn forget(&mut self, shard: usize, age_ms: Option<u64>, now_ms: u64) -> Option<(u64, u64)> {
        let shard_number = u8::try_from(shard).unwrap_or(u8::MAX);
        if let Some(age_ms) = age_ms {
            let then = now_ms.saturating_sub(age_ms);
            let young = |commit: &&Commit| commit.shard == shard_number && commit.at_ms > then;
            let losing = self.ledger.commits().iter().filter(young).count() as u64;
            return self.fail_over(shard, losing, now_ms);
        }
        self.turn_to(self.primaries[shard]);
        self.host.swap(&mut Snapshot::default());
        let follower = &mut self.followers[shard];
        (follower.data, follower.unseen) = (self.host.snapshot(), VecDeque::new());
        self.refresh_all(shard, now_ms);
        self.ledger.lose(now_ms, |commit| commit.shard == shard_number)
    }

    /// Takes the library from a node.
    pub fn drop_library(&mut self, node: usize) {
        self.turn_to(node);
        self.host.call(&["FUNCTION", "FLUSH"]);
    }

    /// Puts another library under our name.
    pub fn replace_library(&mut self, node: usize, text: &str) {
        self.turn_to(node);
        self.host.call(&["FUNCTION", "LOAD", "REPLACE", text]);
    }

    /// Whether a node has our library.
    pub fn has_library(&mut self, node: usize) -> bool {
        self.turn_to(node);
        !matches!(self.host.call(&["FCALL", "ff_library_revision", "0"]), Value::Error(_))
    }

    /// Puts our library on every node.
    pub fn load_library(&mut self) {
        for node in 0..self.nodes.len() {
            drop(self.lend_library(node));
        }
    }

    /// Puts our library on one node; answers what the node held before.
    pub fn lend_library(&mut self, node: usize) -> Snapshot {
        self.turn_to(node);
        let before = self.host.snapshot();
        let mut data = before.clone();
        data.take_libraries(&self.host.fresh);
        self.host.swap(&mut data);
        before
    }

    /// Leaves a node with the libraries that it had before.
    pub fn take_library_back(&mut self, node: usize, before: &Snapshot) {
        self.turn_to(node);
        let mut data = self.host.snapshot();
        data.take_libraries(before);
        self.host.swap(&mut data);
    }

    /// Moves the keys of a slot to another shard.
    pub fn hand_over(&mut self, slot: u16, to: usize, now_ms: u64) {
        let from = self.owner(slot);
        if from == to {
            return;
        }
        // Nobody is current while keys change hands.
        self.host.swap(&mut self.nodes[self.current].data);
        let goes = |key: &[u8]| selvedge_core::partition::slot(key) == slot;
        let (source, target) = (self.primaries[from], self.primaries[to]);
        if let Ok([source, target]) = self.nodes.get_disjoint_mut([source, target]) {
            source.data.hand_over(&mut target.data, goes);
        }
        self.host.swap(&mut self.nodes[self.current].data);
        for shard in [from, to] {
            let head = self.heads[shard];
            self.followers[shard].see(head);
        }
        if let Ok([source, target]) = self.followers.get_disjoint_mut([from, to]) {
            source.data.hand_over(&mut target.data, goes);
        }
        self.owners[usize::from(slot)] = u8::try_from(to).unwrap_or(0);
        self.refresh_all(from, now_ms);
        self.refresh_all(to, now_ms);
    }

    /// Moves the oracles' clocks on.
    pub fn advance(&mut self, now_ms: u64) {
        for shard in 0..self.audited.len() {
            let clock_ms = self.clock_ms(self.primaries[shard], now_ms);
            self.audited[shard].advance(ServerTime(clock_ms.cast_signed()));
        }
    }

    /// A digest over what all primaries hold.
    pub fn digest(&mut self, now_ms: u64) -> u64 {
        let mut digest = crate::trace::Digest::default();
        for shard in 0..self.primaries.len() {
            let node = self.primaries[shard];
            self.turn_to(node);
            let clock_ms = self.clock_ms(node, now_ms);
            self.host.set_now_us(clock_ms * 1000);
            self.host.spell(|piece| digest.bytes(piece));
        }
        digest.finish()
    }

    fn turn_to(&mut self, node: usize) {
        if self.current != node {
            self.host.swap(&mut self.nodes[self.current].data);
            self.host.swap(&mut self.nodes[node].data);
            self.current = node;
        }
    }
}

impl Node {
    fn new(shard: usize, data: Snapshot) -> Self {
        Self {
            shard,
            skew_ms: 0,
            trouble: None,
            keys_max: None,
            stray: false,
            deposed: false,
            split_at: None,
            data,
        }
    }
}
