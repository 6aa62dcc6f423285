//! [`MovingSlot`]: a slot that moves key by key, on the host and between two nodes of a real
//! cluster. The same commands go to both, and every reply is compared.

use std::fmt;

use selvedge_core::partition;
use selvedge_core::value::Value;
use selvedge_lua::host::{Host, HostConfig, Session, SlotMove, Snapshot};
use selvedge_sim::search::Draws;

use super::three_stores::spell;
use crate::cluster::Cluster;
use crate::connection::Connection;
use crate::server::{Kind, Options, Server, ServerError};

/// One node of the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Gives the slot away.
    Source,
    /// Receives it.
    Target,
}

/// One thing that happens.
#[derive(Clone, Debug)]
pub enum Step {
    /// A command comes to a node.
    Call(Side, Vec<Vec<u8>>),
    /// A key moves.
    Migrate(Vec<u8>),
}

/// The two nodes, as hosts and as servers.
pub struct MovingSlot {
    kind: Kind,
    host: Host,
    /// What the node holds that the host does not stand for now.
    other: Snapshot,
    now: Side,
    empty: Snapshot,
    sessions: [Session; 2],
    servers: [Connection; 2],
    ports: [u16; 2],
    ids: [String; 2],
    _cluster: Cluster,
}

/// The reply of the host and that of a server, where they differ.
#[derive(Debug)]
pub struct Divergence {
    step: Step,
    host: Value,
    server: Value,
}

impl fmt::Display for Divergence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = match &self.step {
            Step::Call(side, words) => format!("{side:?}: {}", spell(words)),
            Step::Migrate(key) => format!("{} moves", key.escape_ascii()),
        };
        writeln!(f, "{words}\n  host   {:?}\n  server {:?}", self.host, self.server)
    }
}

impl MovingSlot {
    /// Starts a cluster of three nodes. Its first node owns the slot; the second receives it.
    ///
    /// # Errors
    /// When a server does not start.
    pub fn start(kind: Kind) -> Result<Self, ServerError> {
        let cluster = Cluster::from_nodes(3, 0, || Server::start(kind, Options::cluster_node()))?;
        let owner = usize::from(slot()) * 3 / 16_384;
        let nodes = [owner, (owner + 1) % 3].map(|at| &cluster.primaries()[at]);
        let [mut source, mut target] = [nodes[0].connect()?, nodes[1].connect()?];
        let id = |node: &mut Connection| match node.call(&["CLUSTER", "MYID"]) {
            Ok(Value::Bulk(id)) => Ok(String::from_utf8_lossy(&id).into_owned()),
            other => Err(ServerError::Cluster(format!("answered {other:?} to CLUSTER MYID"))),
        };
        let ids = [id(&mut source)?, id(&mut target)?];
        let mut host = Host::new(HostConfig { cluster: true, ..HostConfig::default() });
        host.call(&["FUNCTION", "LOAD", LIBRARY]);
        for server in [&mut source, &mut target] {
            server.call(&["FUNCTION", "LOAD", LIBRARY])?;
        }
        let empty = host.snapshot();
        Ok(Self {
            kind,
            host,
            other: empty.clone(),
            now: Side::Source,
            empty,
            sessions: [Session::new(), Session::new()],
            ports: nodes.map(Server::port),
            servers: [source, target],
            ids,
            _cluster: cluster,
        })
    }

    /// The steps of a seed.
    #[must_use]
    pub fn draw(&self, draws: &mut Draws, steps: usize) -> Vec<Step> {
        let mut sequence = Vec::new();
        for key in 0..KEYS {
            if draws.percent(70) {
                sequence.push(Step::Call(Side::Source, words(&["SET", &name(key), "1"])));
            }
        }
        let mut sequence = vec![sequence];
        while sequence.len() < steps {
            sequence.push(self.draw_step(draws));
        }
        sequence.concat()
    }

    fn draw_step(&self, draws: &mut Draws) -> Vec<Step> {
        if draws.percent(15) {
            return vec![Step::Migrate(draw_key(draws).into_bytes())];
        }
        let side = if draws.percent(50) { Side::Target } else { Side::Source };
        let mut commands = Vec::new();
        if draws.percent(if side == Side::Target { 75 } else { 10 }) {
            commands.push(words(&["ASKING"]));
        }
        // Redis judges each command of a transaction when it is queued, Valkey all at the end.
        if self.kind == Kind::Valkey && draws.percent(15) {
            commands.push(words(&["MULTI"]));
            for _ in 0..=draws.index(3) {
                commands.push(draw_command(draws));
            }
            let end = if draws.percent(80) { "EXEC" } else { "DISCARD" };
            commands.push(words(&[end]));
        } else {
            commands.push(draw_command(draws));
        }
        commands.into_iter().map(|words| Step::Call(side, words)).collect()
    }

    /// Carries out steps while a slot moves, from two empty nodes on.
    ///
    /// # Errors
    /// At the first step where host and server answer differently; that of a lost server.
    pub fn run(&mut self, steps: &[Step]) -> Result<(), String> {
        self.begin(steps.iter().take_while(|step| is_set(step)))?;
        for step in steps.iter().skip_while(|step| is_set(step)) {
            let (host, server) = match step {
                Step::Call(side, words) => {
                    let reply = self.servers[*side as usize].call(words);
                    (self.call(*side, words), reply.map_err(|error| error.to_string())?)
                }
                Step::Migrate(key) => self.migrate(key)?,
            };
            let server = self.plain(server);
            let host = self.plain(host);
            if host != server {
                return Err(Divergence { step: step.clone(), host, server }.to_string());
            }
        }
        Ok(())
    }

    /// Two empty nodes; the source gets its first keys, and the slot begins to move.
    fn begin<'a>(&mut self, first: impl Iterator<Item = &'a Step>) -> Result<(), String> {
        let slot = slot().to_string();
        let [source, target] = &mut self.servers;
        let say = |node: &mut Connection, words: &[&str]| match node.call(words) {
            Ok(Value::Error(text)) if !text.contains("without MULTI") => Err(text),
            Ok(_) => Ok(()),
            Err(error) => Err(error.to_string()),
        };
        for node in [&mut *source, &mut *target] {
            say(node, &["DISCARD"])?;
            say(node, &["FLUSHALL"])?;
            say(node, &["CLUSTER", "SETSLOT", &slot, "STABLE"])?;
        }
        self.host.clear_slot_moves();
        self.host.restore(&self.empty);
        (self.other, self.now) = (self.empty.clone(), Side::Source);
        self.sessions = [Session::new(), Session::new()];
        for step in first {
            let Step::Call(_, words) = step else { continue };
            source.call(words).map_err(|error| error.to_string())?;
            self.host.call(words);
        }
        say(target, &["CLUSTER", "SETSLOT", &slot, "IMPORTING", &self.ids[0]])?;
        say(source, &["CLUSTER", "SETSLOT", &slot, "MIGRATING", &self.ids[1]])
    }

    fn call(&mut self, side: Side, words: &[Vec<u8>]) -> Value {
        self.switch_to(side);
        let slot_move = match side {
            Side::Source => SlotMove::Migrating { to: "target".to_owned() },
            Side::Target => SlotMove::Importing { from: "source".to_owned() },
        };
        self.host.set_slot_move(slot(), Some(slot_move));
        self.host.call_as(&mut self.sessions[side as usize], words)
    }

    /// What moving a key comes to on the host and on the servers.
    fn migrate(&mut self, key: &[u8]) -> Result<(Value, Value), String> {
        self.switch_to(Side::Source);
        let had = self.host.snapshot().keys_in_slot(slot()).iter().any(|had| had == key);
        let busy = self.host.migrate(&mut self.other, &[key.to_vec()]);
        let host = match (had, busy.is_empty()) {
            (false, _) => Value::Status("NOKEY".to_owned()),
            (true, true) => Value::Status("OK".to_owned()),
            (true, false) => Value::Error("BUSYKEY".to_owned()),
        };
        let port = self.ports[1].to_string();
        let command: [&[u8]; 6] = [b"MIGRATE", b"127.0.0.1", port.as_bytes(), key, b"0", b"5000"];
        let server = self.servers[0].call(&command).map_err(|error| error.to_string())?;
        let server = match &server {
            Value::Error(text) if text.contains("BUSYKEY") => Value::Error("BUSYKEY".to_owned()),
            Value::Nil
            | Value::Int(_)
            | Value::Bulk(_)
            | Value::Status(_)
            | Value::Error(_)
            | Value::Array(_) => server,
        };
        Ok((host, server))
    }

    fn switch_to(&mut self, side: Side) {
        if self.now != side {
            self.host.swap(&mut self.other);
            self.now = side;
        }
    }

    /// A reply without what is known to differ: addresses, and where in a script an error was.
    fn plain(&self, reply: Value) -> Value {
        match reply {
            Value::Error(text) => Value::Error(self.plain_text(&text)),
            Value::Bulk(text) => {
                Value::Bulk(self.plain_text(&String::from_utf8_lossy(&text)).into_bytes())
            }
            Value::Array(elements) => {
                Value::Array(elements.into_iter().map(|element| self.plain(element)).collect())
            }
            other @ (Value::Nil | Value::Int(_) | Value::Status(_)) => other,
        }
    }

    fn plain_text(&self, text: &str) -> String {
        let text = text.split(" script: ").next().unwrap_or_default();
        let text = text.replace("Script attempted to access a non", "Attempted to access a non");
        text.replace(&format!("127.0.0.1:{}", self.ports[0]), "source")
            .replace(&format!("127.0.0.1:{}", self.ports[1]), "target")
    }
}

fn is_set(step: &Step) -> bool {
    matches!(step, Step::Call(Side::Source, words) if words.len() == 3 && words[0] == b"SET")
}

fn draw_command(draws: &mut Draws) -> Vec<Vec<u8>> {
    let mut command = match draws.index(12) {
        0..=2 => Vec::new(),
        3..=7 => {
            let keys = draws.index(4);
            let mut call = words(&["FCALL", "run", &keys.to_string()]);
            call.extend((0..keys).map(|_| draw_key(draws).into_bytes()));
            call
        }
        8 => words(&["EVAL", "return redis.call(unpack(ARGV))", "0"]),
        9 => return words(&["EVAL", "return 1", "1", &draw_key(draws)]),
        10 => return words(&["PING"]),
        _ => return words(&["FCALL", "nobody", "1", &draw_key(draws)]),
    };
    for at in 0..if command.is_empty() || command[0] == b"EVAL" { 1 } else { 1 + draws.index(4) } {
        if at > 0 {
            command.push(b";".to_vec());
        }
        command.extend(draw_plain(draws));
    }
    command
}

fn draw_plain(draws: &mut Draws) -> Vec<Vec<u8>> {
    let [one, two] = [draw_key(draws), draw_key(draws)];
    match draws.index(10) {
        0 | 1 => words(&["get", &one]),
        2 => words(&["mget", &one, &two]),
        3 => words(&["exists", &one, &two]),
        4 => words(&["set", &one, "2", "keepttl"]),
        5 => words(&["mset", &one, "3", &two, "4"]),
        6 => words(&["del", &one]),
        7 => words(&["del", &one, &two]),
        8 => words(&["incr", &one]),
        _ => words(&["hget", &one, "field"]),
    }
}

fn draw_key(draws: &mut Draws) -> String {
    name(draws.index(KEYS))
}

fn name(key: usize) -> String {
    format!("{{moves}}:{key}")
}

fn slot() -> u16 {
    partition::slot(b"{moves}")
}

fn words(words: &[&str]) -> Vec<Vec<u8>> {
    words.iter().map(|word| word.as_bytes().to_vec()).collect()
}

/// Few enough that most commands are about keys on both nodes.
const KEYS: usize = 5;

/// `run` carries out commands, separated by `;`, and tells each reply.
const LIBRARY: &str = "#!lua name=moves
local function run(keys, args)
  local replies, words = {}, {}
  for i = 1, #args + 1 do
    if args[i] == nil or args[i] == ';' then
      local reply = redis.pcall(unpack(words))
      if type(reply) == 'table' then reply = reply.err or reply.ok or reply end
      replies[#replies + 1], words = reply or 'nil', {}
    else
      words[#words + 1] = args[i]
    end
  end
  return replies
end
redis.register_function('run', run)";
