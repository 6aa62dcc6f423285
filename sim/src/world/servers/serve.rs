//! How a node serves a call.

use selvedge_core::time::ServerTime;
use selvedge_core::value::Value;
use selvedge_lua::host::{Message, Outcome};

use super::Servers;
use crate::event::CallId;
use crate::world::commit_log::Commit;

/// The error of a node that is out of memory.
pub const OUT_OF_MEMORY: &str = "OOM command not allowed when used memory > 'maxmemory'.";

/// How to serve a call.
#[derive(Clone, Copy, Debug, Default)]
pub struct ServeOptions {
    /// Fails one of the commands up to the first write of the function.
    pub raise_at: Option<u64>,
    /// Serves it from a replica that is this many commits behind.
    pub behind: Option<u64>,
    /// The client has said ASKING.
    pub asking: bool,
}

/// The result of a call on a node.
pub struct Served {
    /// The reply.
    pub reply: Value,
    /// The commands that wrote something.
    pub writes: Vec<Vec<Vec<u8>>>,
    /// The keys they wrote.
    pub touched: Vec<Vec<u8>>,
    /// The messages it published.
    pub published: Vec<Message>,
    /// Its number in the commit log.
    pub commit: Option<u64>,
    /// The node's clock.
    pub server_time_us: u64,
    /// How many commands the function ran.
    pub inner_commands: usize,
}

impl Servers {
    /// Serves a call on a node.
    pub fn serve(
        &mut self,
        node: usize,
        call: CallId,
        argv: &[Vec<u8>],
        now_ms: u64,
        options: ServeOptions,
    ) -> Served {
        self.switch_to(node);
        let clock_ms = self.clock_ms(node, now_ms);
        self.host.set_now_us(clock_ms * 1000);
        let full = self.nodes[node].keys_max.is_some_and(|max| self.host.key_count() > max);
        let refusal = match &self.nodes[node].outage {
            Some(outage) if outage.reads_pass => Some(outage.error.clone()),
            _ => full.then(|| OUT_OF_MEMORY.to_owned()),
        };
        self.host.refuse_writes(refusal);
        self.announce_moves(node);
        if options.asking {
            self.host.call(&["ASKING"]);
        }
        let reply = self.carry_out(node, argv, options);
        let mut served = Served {
            reply,
            writes: Vec::new(),
            touched: Vec::new(),
            published: self.host.take_published(),
            commit: None,
            server_time_us: clock_ms * 1000,
            inner_commands: self.host.last_inner_commands(),
        };
        if self.host.has_written() && options.behind.is_none() {
            self.commit(node, call, now_ms, &mut served);
        }
        served.writes = self.host.take_writes();
        served
    }

    fn carry_out(&mut self, node: usize, argv: &[Vec<u8>], options: ServeOptions) -> Value {
        if let Some(behind) = options.behind {
            let shard = self.nodes[node].shard;
            let head = self.heads[shard];
            let replica = &mut self.replicas[shard];
            replica.catch_up(head.saturating_sub(behind));
            self.host.swap(&mut replica.data);
            // A replica accepts no writes.
            self.host.refuse_writes(Some(
                "READONLY You can't write against a read only replica.".to_owned(),
            ));
            let reply = self.host.call_words(argv);
            self.host.swap(&mut self.replicas[shard].data);
            return reply;
        }
        let Some(drawn) = options.raise_at else { return self.host.call_words(argv) };
        // A server can refuse a command before the first write of a function, but not after it.
        // Find out which command that is.
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

    /// Records what a call wrote, for the oracles, the commit log and the replica.
    fn commit(&mut self, node: usize, call: CallId, now_ms: u64, served: &mut Served) {
        let keys = self.host.last_written_keys();
        let shard = self.nodes[node].shard;
        self.heads[shard] += 1;
        let number = self.heads[shard];
        served.commit = Some(number);
        // Writes of a replaced node are not seen by anyone else.
        if !self.nodes[node].superseded {
            self.refresh(node, now_ms, keys.iter().map(Vec::as_slice));
            if self.keeps_replicas {
                let copy = self.host.copy_keys(keys.iter().map(Vec::as_slice));
                self.replicas[shard].pending.push_back((number, copy));
            }
        }
        served.touched = keys.iter().cloned().collect();
        let numbered = |number: usize| u8::try_from(number).unwrap_or(u8::MAX);
        self.commit_log.add(Commit {
            number,
            shard: numbered(shard),
            node: numbered(node + 1),
            at_ms: now_ms,
            call,
            keys,
            lost_at_ms: None,
        });
    }

    /// Copies these keys for the oracles.
    fn refresh<'a>(&mut self, node: usize, now_ms: u64, keys: impl Iterator<Item = &'a [u8]>) {
        let clock_ms = self.clock_ms(node, now_ms);
        let shard = self.nodes[node].shard;
        self.audited[shard].advance(ServerTime(clock_ms.cast_signed()));
        for key in keys {
            let at = self.audited_at(key, shard);
            self.audited[at].put(key, self.host.entry(key));
        }
    }
}
