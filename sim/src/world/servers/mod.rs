//! The servers. One Lua host serves all nodes; each node has its own keyspace, library and clock.
//! The host holds the keyspace of the current node, the others are kept aside.

mod failover;
mod key_moves;
mod library;
mod serve;

use std::collections::BTreeMap;

use selvedge_core::audit;
use selvedge_core::partition::SLOTS;
use selvedge_core::time::ServerTime;
use selvedge_lua::host::{HostConfig, Snapshot};

use super::commit_log::CommitLog;
use super::host_pool::LoadedHost;
use crate::plan::Config;

use failover::Replica;
pub use key_moves::KeyMove;
pub use serve::{OUT_OF_MEMORY, ServeOptions, Served};

/// The server time at the start, in milliseconds.
pub const EPOCH_MS: u64 = 1_700_000_000_000;

/// A server.
pub struct Node {
    /// The shard that it belongs to.
    pub shard: usize,
    /// The offset of its clock.
    pub skew_ms: i64,
    /// What it answers during an outage.
    pub outage: Option<Outage>,
    /// With more keys than this it is out of memory.
    pub keys_max: Option<usize>,
    /// Whether another node has replaced it as primary, without its knowledge.
    pub superseded: bool,
    /// Whether it knows that, and redirects calls to the new primary.
    pub knows_successor: bool,
    /// The last commit before it was replaced.
    split_at: Option<u64>,
    data: Snapshot,
}

/// Why a node does not serve.
#[derive(Clone, Debug)]
pub struct Outage {
    /// The error that it answers.
    pub error: String,
    /// Whether reads are served.
    pub reads_pass: bool,
    /// Until when.
    pub until_ms: u64,
}

/// A slot that moves from one shard to another.
#[derive(Clone, Copy, Debug)]
pub struct Move {
    /// The old shard.
    pub from: usize,
    /// The new shard.
    pub to: usize,
    /// Whether the keys have moved.
    pub handed_over: bool,
}

/// All servers of a world.
pub struct Servers {
    /// All nodes: the first primaries, one for each shard, then those that were added.
    pub nodes: Vec<Node>,
    /// The keyspace of the primary of each shard, for the oracles.
    pub audited: Vec<audit::Snapshot>,
    /// Every write, and which were lost.
    pub commit_log: CommitLog,
    /// Slots that are moving.
    pub moves: BTreeMap<u16, Move>,
    /// Slots that move key by key.
    key_moves: BTreeMap<u16, KeyMove>,
    /// Whether the host knows of a slot that moves.
    moves_announced: bool,
    host: LoadedHost,
    current: usize,
    primaries: Vec<usize>,
    replicas: Vec<Replica>,
    keeps_replicas: bool,
    heads: Vec<u64>,
    owners: Vec<u8>,
    /// How long an item may be due before oracles report it.
    grace_ms: i64,
}

impl Servers {
    /// The servers of a plan, with this library. Replicas are only kept if a fault needs them.
    ///
    /// # Errors
    /// When the library does not load.
    pub fn new(
        config: &Config,
        library: &str,
        host_seed: u64,
        keeps_replicas: bool,
    ) -> Result<Self, String> {
        let shards = usize::try_from(config.shards.clamp(1, 3)).unwrap_or(1);
        let host_config = HostConfig {
            cluster: shards > 1,
            seed: host_seed,
            unruly_scans: config.unruly_scans,
            // Other tests check that every loop of the library is bounded.
            instruction_budget: u64::MAX,
            ..HostConfig::default()
        };
        let mut host = LoadedHost::new(library, host_config)?;
        host.set_now_us(EPOCH_MS * 1000);
        let fresh = host.fresh.clone();
        let epoch = ServerTime(EPOCH_MS.cast_signed());
        // With a long interval, scanners get the time of two cycles.
        let grace_ms = audit::GRACE_MS.max((3 * config.interval.0).cast_signed());
        let mut audited = audit::Snapshot::new(epoch);
        audited.set_grace_ms(grace_ms);
        let owner = |slot: u16| u8::try_from(usize::from(slot) % shards).unwrap_or(0);
        let replica = |_| Replica { data: fresh.clone(), ..Replica::default() };
        Ok(Self {
            nodes: (0..shards).map(|shard| Node::new(shard, fresh.clone())).collect(),
            audited: vec![audited; shards],
            grace_ms,
            commit_log: CommitLog::default(),
            moves: BTreeMap::new(),
            key_moves: BTreeMap::new(),
            moves_announced: false,
            host,
            current: 0,
            primaries: (0..shards).collect(),
            replicas: (0..shards).map(replica).collect(),
            keeps_replicas,
            heads: vec![0; shards],
            owners: (0..SLOTS).map(owner).collect(),
        })
    }

    /// Returns the host to the pool at the end of a run.
    pub(crate) fn release_host(self) {
        self.host.return_to_pool();
    }

    /// How many shards there are.
    #[must_use]
    pub fn shards(&self) -> usize {
        self.primaries.len()
    }

    /// The shard that owns a slot.
    #[must_use]
    pub fn owner(&self, slot: u16) -> usize {
        self.owners.get(usize::from(slot)).map_or(0, |shard| usize::from(*shard))
    }

    /// The primary of a shard.
    #[must_use]
    pub fn primary(&self, shard: usize) -> usize {
        self.primaries[shard]
    }

    /// The number of commits of a shard.
    #[must_use]
    pub fn head(&self, shard: usize) -> u64 {
        self.heads[shard]
    }

    /// The clock of a node.
    #[must_use]
    pub fn clock_ms(&self, node: usize, now_ms: u64) -> u64 {
        (EPOCH_MS + now_ms).saturating_add_signed(self.nodes[node].skew_ms)
    }

    /// Copies the whole keyspace of a primary for the oracles.
    fn refresh_all(&mut self, shard: usize, now_ms: u64) {
        let node = self.primaries[shard];
        self.switch_to(node);
        let clock_ms = self.clock_ms(node, now_ms);
        self.host.set_now_us(clock_ms * 1000);
        self.audited[shard] = self.host.audited();
        self.audited[shard].set_grace_ms(self.grace_ms);
        self.follow_key_moves(shard);
    }

    /// Advances the clocks of the oracles' copies.
    pub fn advance(&mut self, now_ms: u64) {
        for shard in 0..self.audited.len() {
            let clock_ms = self.clock_ms(self.primaries[shard], now_ms);
            self.audited[shard].advance(ServerTime(clock_ms.cast_signed()));
        }
    }

    /// A digest of the keyspaces of all primaries.
    pub fn digest(&mut self, now_ms: u64) -> u64 {
        let mut digest = crate::trace::Digest::default();
        for shard in 0..self.primaries.len() {
            let node = self.primaries[shard];
            self.switch_to(node);
            let clock_ms = self.clock_ms(node, now_ms);
            self.host.set_now_us(clock_ms * 1000);
            self.host.visit_bytes(|call| digest.bytes(call));
        }
        digest.finish()
    }

    fn switch_to(&mut self, node: usize) {
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
            outage: None,
            keys_max: None,
            superseded: false,
            knows_successor: false,
            split_at: None,
            data,
        }
    }
}
