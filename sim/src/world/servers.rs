//! The servers: one Lua VM, and a keyspace, a library and a clock for each node. The node that is
//! served has its keyspace in the VM's hands; the others keep theirs aside.

use std::collections::{BTreeSet, VecDeque};

use selvedge_core::audit;
use selvedge_core::partition::SLOTS;
use selvedge_core::time::ServerTime;
use selvedge_core::value::Value;
use selvedge_lua::host::{Host, HostConfig, Image, Message, Snapshot};

use super::ledger::{Commit, Ledger};
use crate::event::CallId;
use crate::plan::Config;

/// Server time at which every world begins, in milliseconds.
pub const EPOCH_MS: u64 = 1_700_000_000_000;

/// One server.
pub struct Node {
    /// The shard that it belongs to.
    pub shard: usize,
    /// How far its clock is off.
    pub skew_ms: i64,
    /// What it answers instead of serving, while it is in trouble.
    pub trouble: Option<Trouble>,
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

/// What follows a primary: a keyspace some commits behind, and what it has not seen yet.
#[derive(Default)]
struct Follower {
    data: Snapshot,
    seen: u64,
    unseen: VecDeque<(u64, Image)>,
}

impl Follower {
    /// Catches up to this commit.
    fn see(&mut self, number: u64) {
        while let Some((seen, image)) = self.unseen.pop_front_if(|(at, _)| *at <= number) {
            self.data.apply(&image);
            self.seen = seen;
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
    /// The nodes; the first ones are primaries, one per shard.
    pub nodes: Vec<Node>,
    /// What each shard's primary holds, as the oracles see it.
    pub audited: Vec<audit::Snapshot>,
    /// Everything that was written.
    pub ledger: Ledger,
    host: Host,
    current: usize,
    primaries: Vec<usize>,
    followers: Vec<Follower>,
    follow: bool,
    heads: Vec<u64>,
    owners: Vec<u8>,
}

impl Servers {
    /// The servers of a plan, all with this library.
    ///
    /// # Errors
    /// When a server refuses the library.
    pub fn new(config: &Config, library: &str, host_seed: u64) -> Result<Self, String> {
        let shards = usize::try_from(config.shards.clamp(1, 3)).unwrap_or(1);
        let host_config =
            HostConfig { cluster: shards > 1, seed: host_seed, ..HostConfig::default() };
        let mut host = Host::new(host_config);
        host.set_now_us(EPOCH_MS * 1000);
        if let Value::Error(text) = host.call(&["FUNCTION", "LOAD", library]) {
            return Err(format!("the library does not load: {text}"));
        }
        let fresh = host.snapshot();
        let nodes = (0..shards)
            .map(|shard| Node { shard, skew_ms: 0, trouble: None, data: fresh.clone() })
            .collect();
        let follower = || Follower { data: fresh.clone(), ..Follower::default() };
        let epoch = ServerTime(EPOCH_MS.cast_signed());
        let owner = |slot: u16| u8::try_from(usize::from(slot) % shards).unwrap_or(0);
        Ok(Self {
            nodes,
            audited: (0..shards).map(|_| audit::Snapshot::new(epoch)).collect(),
            ledger: Ledger::default(),
            host,
            current: 0,
            primaries: (0..shards).collect(),
            followers: (0..shards).map(|_| follower()).collect(),
            follow: config.replicas > 0,
            heads: vec![0; shards],
            owners: (0..SLOTS).map(owner).collect(),
        })
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

    /// A node's clock.
    #[must_use]
    pub fn clock_ms(&self, node: usize, now_ms: u64) -> u64 {
        (EPOCH_MS + now_ms).saturating_add_signed(self.nodes[node].skew_ms)
    }

    /// Carries out a call on a node.
    pub fn serve(&mut self, node: usize, call: CallId, argv: &[Vec<u8>], now_ms: u64) -> Served {
        self.turn_to(node);
        let clock_ms = self.clock_ms(node, now_ms);
        self.host.set_now_us(clock_ms * 1000);
        let reply = self.host.call(argv);
        let writes = self.host.last_writes();
        let inner_commands = self.host.last_inner_commands();
        let mut served = Served {
            reply,
            touched: Vec::new(),
            published: self.host.take_published(),
            commit: None,
            server_time_us: clock_ms * 1000,
            inner_commands,
            writes,
        };
        if !served.writes.is_empty() {
            self.commit(node, call, now_ms, &mut served);
        }
        served
    }

    /// Notes what a call wrote: for the oracles, for the ledger and for whoever follows.
    fn commit(&mut self, node: usize, call: CallId, now_ms: u64, served: &mut Served) {
        let keys = self.host.last_written_keys();
        let shard = self.nodes[node].shard;
        self.heads[shard] += 1;
        let number = self.heads[shard];
        served.commit = Some(number);
        self.refresh(node, now_ms, keys.iter().map(Vec::as_slice));
        if self.follow {
            let image = self.host.image(keys.iter().map(Vec::as_slice));
            self.followers[shard].unseen.push_back((number, image));
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

    /// Puts a follower in the primary's place: everything but the last `losing` commits. Answers
    /// the numbers of the first and the last lost commit, if any was.
    pub fn fail_over(&mut self, shard: usize, losing: u64, now_ms: u64) -> Option<(u64, u64)> {
        let (node, head) = (self.primaries[shard], self.heads[shard]);
        let follower = &mut self.followers[shard];
        follower.see(head.saturating_sub(losing));
        let first = follower.seen + 1;
        let lost = std::mem::take(&mut follower.unseen);
        let mut data = follower.data.clone();
        self.turn_to(node);
        self.host.swap(&mut data);
        let keys: BTreeSet<Vec<u8>> =
            lost.iter().flat_map(|(_, image)| image.keys().map(<[u8]>::to_vec)).collect();
        self.host.set_now_us(self.clock_ms(node, now_ms) * 1000);
        self.refresh(node, now_ms, keys.iter().map(Vec::as_slice));
        self.ledger.lose(u8::try_from(shard).unwrap_or(u8::MAX), first, now_ms);
        self.followers[shard].seen = head;
        (first <= head).then_some((first, head))
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
            self.host.set_now_us(self.clock_ms(node, now_ms) * 1000);
            digest.bytes(&self.host.digest());
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
