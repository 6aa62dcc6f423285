//! [`Servers`]: the servers of a schedule, behind proxies, and the faults injected into them.

mod failover;

use std::io;
use std::ops::RangeInclusive;
use std::path::Path;
use std::time::Duration;

use selvedge_core::audit::Snapshot;
use selvedge_core::partition::Partition;
use selvedge_core::value::Value;

use self::failover::Unheard;
use super::cluster_info::{info, slots_in};
use super::fault_schedule::{Fault, Shape, TimedFault};
use super::primary_crash::PrimaryCrash;
use super::processes::{Signal, signal};
use super::read_keyspace;
use crate::cluster::Cluster;
use crate::proxy::Proxy;
use crate::server::{Kind, Options, Server, ServerError};
use crate::wait::Wait;

/// Servers and the proxies that clients reach them by.
pub struct Servers {
    shape: Shape,
    servers: Vec<Server>,
    /// One for each server of a cluster; else one, which leads to the primary.
    proxies: Vec<Proxy>,
    /// What the servers of a pair replicate by, one in front of each. In a cluster replicas take
    /// the way that clients take.
    feeds: Vec<Proxy>,
    /// Which of a pair is the primary.
    primary: usize,
    crashes: Vec<PrimaryCrash>,
}

/// The effect of a fault.
#[derive(Clone, Copy, Debug)]
pub enum Injection {
    /// No effect: there was no target, or the servers were not ready for it.
    Missed,
    /// It happened and needs no undoing.
    Over,
    /// It lasts until this undoes it.
    Until(Undo),
}

/// What undoes a fault that lasts.
#[derive(Clone, Copy, Debug)]
pub enum Undo {
    /// A server goes on.
    ContinueServer(u32),
    /// Data flows freely again.
    Undelay,
}

impl Servers {
    /// Starts the servers.
    pub fn start(shape: Shape) -> Result<Self, ServerError> {
        match shape {
            Shape::Standalone => {
                let options = Options::default().line("appendonly yes").line("appendfsync always");
                let server = Server::start(Kind::Valkey, options)?;
                let proxies = vec![Proxy::start(server.port())?];
                Ok(Self::of(shape, vec![server], proxies, Vec::new()))
            }
            Shape::Pair => {
                let feeds = vec![Proxy::start(0)?, Proxy::start(0)?];
                // The port that a server announces is its feed's, so that the other one asks there.
                let start = |feed: &Proxy, lines: &[String]| {
                    let announced = format!("replica-announce-port {}", feed.port());
                    let options = Options::default().line(SYNC_AT_ONCE).line(announced);
                    let options = lines.iter().fold(options, |options, line| options.line(line));
                    let server = Server::start(Kind::Valkey, options)?;
                    feed.redirect(server.port());
                    Ok::<_, ServerError>(server)
                };
                let primary = start(&feeds[0], &[])?;
                let follow = format!("replicaof 127.0.0.1 {}", feeds[0].port());
                let replica = start(&feeds[1], &[follow])?;
                let proxies = vec![Proxy::start(primary.port())?];
                let servers = Self::of(shape, vec![primary, replica], proxies, feeds);
                servers.await_replica()?;
                Ok(servers)
            }
            Shape::Cluster => {
                // The port that a node announces is its proxy's, which therefore comes first.
                let mut proxies = Vec::new();
                let cluster = Cluster::from_nodes(3, 1, || {
                    let proxy = Proxy::start(0)?;
                    let options = Options::cluster_node()
                        .line(format!("cluster-announce-port {}", proxy.port()))
                        // No automatic failover on a machine that is busy for a while.
                        .line("cluster-node-timeout 30000")
                        .line(SYNC_AT_ONCE)
                        .line("cluster-replica-validity-factor 0");
                    let server = Server::start(Kind::Valkey, options)?;
                    proxy.redirect(server.port());
                    proxies.push(proxy);
                    Ok(server)
                })?;
                Ok(Self::of(shape, cluster.into_nodes(), proxies, Vec::new()))
            }
        }
    }

    fn of(shape: Shape, servers: Vec<Server>, proxies: Vec<Proxy>, feeds: Vec<Proxy>) -> Self {
        Self { shape, servers, proxies, feeds, primary: 0, crashes: Vec::new() }
    }

    /// Where engines, workers and callers find the store.
    #[must_use]
    pub fn url(&self) -> String {
        let hosts: Vec<_> =
            self.proxies.iter().map(|proxy| format!("127.0.0.1:{}", proxy.port())).collect();
        match self.shape {
            Shape::Standalone | Shape::Pair => format!("valkey://{}", hosts[0]),
            Shape::Cluster => format!("valkey://{}?cluster=true", hosts.join(",")),
        }
    }

    /// Injects a fault.
    pub fn inject(&mut self, timed: &TimedFault) -> Result<Injection, ServerError> {
        match timed.fault {
            Fault::KillServer => {
                self.kill(0)?;
                self.servers[0].restart()?;
                Ok(Injection::Over)
            }
            Fault::StopServer => self.stop(self.some_primary(timed)?),
            Fault::StopReplica => self.stop(self.some_replica(timed)?),
            Fault::KillReplica => {
                let Some(replica) = self.some_replica(timed)? else {
                    return Ok(Injection::Missed);
                };
                self.kill(replica)?;
                self.bring_back(replica)?;
                Ok(Injection::Over)
            }
            Fault::ResetLinks => {
                let cut: usize = self.proxies.iter().map(Proxy::reset).sum();
                Ok(if cut > 0 { Injection::Over } else { Injection::Missed })
            }
            Fault::DelayLinks => {
                let delay = Duration::from_millis(5 + u64::try_from(timed.whom % 200).unwrap_or(0));
                self.proxies.iter().for_each(|proxy| proxy.delay(delay));
                Ok(Injection::Until(Undo::Undelay))
            }
            Fault::FlushFunctions => self.flush_functions(timed),
            Fault::KillClients => self.tell_primary(timed, &["CLIENT", "KILL", "TYPE", "normal"]),
            Fault::PauseClients => {
                let time = timed.lasting.as_millis().to_string();
                self.tell_primary(timed, &["CLIENT", "PAUSE", &time, "ALL"])
            }
            Fault::Failover => self.fail_over(timed),
            Fault::Crash => self.crash(timed, Unheard::Nothing),
            Fault::LaggingCrash => self.crash(timed, Unheard::For(timed.lasting / LAG_OF_LASTING)),
            Fault::MoveSlot => self.move_slot(timed),
            Fault::KillEngine
            | Fault::KillWorker
            | Fault::StopEngine
            | Fault::StopWorker
            | Fault::ShiftClock => Ok(Injection::Missed),
        }
    }

    /// Ends a fault that lasts.
    pub fn undo(&mut self, undo: Undo) -> io::Result<()> {
        match undo {
            Undo::ContinueServer(pid) => signal(Signal::Continue, pid),
            Undo::Undelay => {
                self.proxies.iter().for_each(|proxy| proxy.delay(Duration::ZERO));
                Ok(())
            }
        }
    }

    /// Everything that the primaries hold.
    pub fn snapshot(&self) -> Result<Snapshot, ServerError> {
        let mut snapshot: Option<Snapshot> = None;
        for at in self.primaries()? {
            snapshot = Some(read_keyspace::read(snapshot, &mut self.servers[at].connect()?)?);
        }
        snapshot.ok_or_else(|| ServerError::Cluster("has no primary".into()))
    }

    /// The primaries that died, and what with each.
    #[must_use]
    pub fn crashes(&self) -> &[PrimaryCrash] {
        &self.crashes
    }

    /// Servers that exited without being killed.
    pub fn unexpected_exits(&mut self) -> io::Result<Vec<String>> {
        let mut found = Vec::new();
        for (at, server) in self.servers.iter_mut().enumerate() {
            found.extend(server.ended()?.map(|how| format!("server {at} ended by itself: {how}")));
        }
        Ok(found)
    }

    /// Kills a server, which must not have ended by itself.
    fn kill(&mut self, at: usize) -> Result<(), ServerError> {
        let unexpected_exits = self.unexpected_exits()?;
        if !unexpected_exits.is_empty() {
            return Err(ServerError::Cluster(unexpected_exits.join("; ")));
        }
        self.servers[at].kill_9()
    }

    /// Copies what the servers logged into a folder.
    pub fn keep_logs(&self, folder: &Path) -> io::Result<()> {
        for (index, server) in self.servers.iter().enumerate() {
            let log = server.folder().join("server.log");
            std::fs::copy(log, folder.join(format!("server-{index}.log")))?;
        }
        Ok(())
    }

    fn flush_functions(&self, timed: &TimedFault) -> Result<Injection, ServerError> {
        let Some(at) = self.some_primary(timed)? else { return Ok(Injection::Missed) };
        let had = self.tell(at, &["FUNCTION", "LIST"])?;
        self.tell(at, &["FUNCTION", "FLUSH"])?;
        Ok(if had == Value::Array(Vec::new()) { Injection::Missed } else { Injection::Over })
    }

    fn tell_primary(&self, timed: &TimedFault, command: &[&str]) -> Result<Injection, ServerError> {
        let Some(at) = self.some_primary(timed)? else { return Ok(Injection::Missed) };
        // `CLIENT KILL` answers how many connections it closed.
        let done = self.tell(at, command)?;
        Ok(if done == Value::Int(0) { Injection::Missed } else { Injection::Over })
    }

    /// Tells a server to do something, which it must not refuse.
    fn tell(&self, at: usize, command: &[&str]) -> Result<Value, ServerError> {
        match self.servers[at].connect()?.call(command)? {
            Value::Error(error) => {
                Err(ServerError::Cluster(format!("refused {command:?}: {error}")))
            }
            done @ (Value::Nil
            | Value::Int(_)
            | Value::Bulk(_)
            | Value::Status(_)
            | Value::Array(_)) => Ok(done),
        }
    }

    /// Lets a server stand still.
    fn stop(&self, at: Option<usize>) -> Result<Injection, ServerError> {
        let Some(pid) = at.map(|at| self.servers[at].pid()) else { return Ok(Injection::Missed) };
        signal(Signal::Stop, pid)?;
        Ok(Injection::Until(Undo::ContinueServer(pid)))
    }

    /// Which servers are primaries that hold data.
    fn primaries(&self) -> Result<Vec<usize>, ServerError> {
        if self.shape != Shape::Cluster {
            return Ok(vec![self.primary]);
        }
        let mut found = Vec::new();
        for (index, server) in self.servers.iter().enumerate() {
            if let Ok(mut connection) = server.connect()
                && let Ok(Value::Bulk(known)) = connection.call(&["CLUSTER", "NODES"])
                && let Some(line) =
                    String::from_utf8_lossy(&known).lines().find(|line| line.contains("myself"))
                && line.contains("master")
                && line.split(' ').count() > SLOTS_COLUMN
            {
                found.push(index);
            }
        }
        Ok(found)
    }

    /// The slots that a server holds.
    fn slots_of(&self, at: usize) -> Result<Vec<RangeInclusive<u16>>, ServerError> {
        if self.shape != Shape::Cluster {
            return Ok(vec![0..=u16::MAX]);
        }
        let shards = self.servers[at].connect()?.call(&["CLUSTER", "SHARDS"])?;
        Ok(slots_in(&shards, self.proxies[at].port()))
    }

    /// Moves the slot of a partition to another primary, and all of it at one instant.
    fn move_slot(&self, timed: &TimedFault) -> Result<Injection, ServerError> {
        let slot = Partition::flow(u16::try_from(timed.whom % 8).unwrap_or(0)).slot();
        let number = slot.to_string();
        let primaries = self.primaries()?;
        let owns = |at: usize| -> Result<bool, ServerError> {
            Ok(self.slots_of(at)?.iter().any(|slots| slots.contains(&slot)))
        };
        let mut owner = None;
        for at in primaries.iter().copied() {
            if owns(at)? {
                owner = Some(at);
            }
        }
        let Some(owner) = owner else { return Ok(Injection::Missed) };
        let others: Vec<_> = primaries.into_iter().filter(|at| *at != owner).collect();
        let Some(next) = others.get(timed.whom % others.len().max(1)).copied() else {
            return Ok(Injection::Missed);
        };
        let Value::Bulk(id) = self.servers[next].connect()?.call(&["CLUSTER", "MYID"])? else {
            return Ok(Injection::Missed);
        };
        let id = String::from_utf8_lossy(&id).into_owned();
        let move_it = ["CLUSTER", "MIGRATESLOTS", "SLOTSRANGE", &number, &number, "NODE", &id];
        match self.servers[owner].connect()?.call(&move_it)? {
            // Another move is under way, or a node is not ready: then this one does not happen.
            Value::Error(_) => return Ok(Injection::Missed),
            Value::Nil | Value::Int(_) | Value::Bulk(_) | Value::Status(_) | Value::Array(_) => {}
        }
        Wait::at_most(TAKEN_OVER_WITHIN)
            .until(|| owns(next).is_ok_and(|owns| owns).then_some(Injection::Over))
            .ok_or_else(|| ServerError::Cluster(format!("did not move slot {slot}")))
    }

    fn some_primary(&self, timed: &TimedFault) -> Result<Option<usize>, ServerError> {
        let primaries = self.primaries()?;
        Ok(primaries.get(timed.whom % primaries.len().max(1)).copied())
    }

    fn some_replica(&self, timed: &TimedFault) -> Result<Option<usize>, ServerError> {
        let primaries = self.primaries()?;
        let replicas: Vec<_> =
            (0..self.servers.len()).filter(|at| !primaries.contains(at)).collect();
        let Some(chosen) = replicas.get(timed.whom % replicas.len().max(1)).copied() else {
            return Ok(None);
        };
        self.await_role(chosen, "master_link_status:up")?;
        Ok(Some(chosen))
    }

    fn primary_of(&self, replica: usize) -> Result<Option<usize>, ServerError> {
        let told = info(&self.servers[replica], "replication")?;
        let port = told.lines().find_map(|line| line.strip_prefix("master_port:"));
        let port: Option<u16> = port.and_then(|port| port.trim().parse().ok());
        Ok(self.proxies.iter().position(|proxy| Some(proxy.port()) == port))
    }

    fn lead_to(&mut self, primary: usize) {
        self.primary = primary;
        self.proxies[0].redirect(self.servers[primary].port());
    }

    fn await_replica(&self) -> Result<(), ServerError> {
        self.await_role(1 - self.primary, "master_link_status:up")
    }

    fn await_role(&self, at: usize, sign: &str) -> Result<(), ServerError> {
        let server = &self.servers[at];
        Wait::at_most(TAKEN_OVER_WITHIN)
            .until(|| {
                info(server, "replication").is_ok_and(|told| told.contains(sign)).then_some(())
            })
            .ok_or_else(|| ServerError::Cluster(format!("has a server that never said {sign}")))
    }
}

/// A replica gets its copy as soon as it asks for one, not after a few seconds.
const SYNC_AT_ONCE: &str = "repl-diskless-sync-delay 0";

/// Columns of `CLUSTER NODES` before the slots.
const SLOTS_COLUMN: usize = 8;

/// A replica lags by this part of the time that other faults last: up to half a second.
const LAG_OF_LASTING: u32 = 8;

/// An election and a few rounds of gossip take seconds; a copy of everything takes its time on a
/// busy machine.
const TAKEN_OVER_WITHIN: Duration = Duration::from_secs(120);
