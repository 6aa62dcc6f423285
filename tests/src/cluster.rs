//! [`Cluster`]: several Valkey nodes that share the hash slots.

use std::time::Duration;

use selvedge_core::value::Value;

use crate::server::{Kind, Options, Server, ServerError};
use crate::wait::Wait;

/// A running Valkey cluster on loopback. Dropping it ends every node.
#[derive(Debug)]
pub struct Cluster {
    primaries: Vec<Server>,
    replicas: Vec<Server>,
}

impl Cluster {
    /// Starts this many primaries and no replica.
    pub fn start(primaries: usize) -> Result<Self, ServerError> {
        Self::with_replicas(primaries, 0)
    }

    /// Starts this many primaries with this many replicas each, and returns when every node sees a
    /// whole cluster and every replica follows its primary.
    pub fn with_replicas(primaries: usize, replicas_each: usize) -> Result<Self, ServerError> {
        Self::from_nodes(primaries, replicas_each, || {
            let options = Options::cluster_node().line("cluster-node-timeout 2000");
            Server::start(Kind::Valkey, options)
        })
    }

    /// The same from nodes that `start` starts.
    pub fn from_nodes(
        primaries: usize,
        replicas_each: usize,
        mut start: impl FnMut() -> Result<Server, ServerError>,
    ) -> Result<Self, ServerError> {
        if primaries == 0 {
            return Err(ServerError::Cluster("needs a primary".into()));
        }
        let mut nodes = |count| (0..count).map(|_| start()).collect::<Result<Vec<_>, _>>();
        let cluster =
            Self { primaries: nodes(primaries)?, replicas: nodes(primaries * replicas_each)? };
        cluster.assign_slots()?;
        cluster.introduce()?;
        cluster.await_on_all("does not know all its nodes", &cluster.knows_everybody())?;
        cluster.follow(replicas_each)?;
        cluster.await_on_all("has no state ok on every node", &|node| {
            Ok(ask(node, &["CLUSTER", "INFO"])?.contains("cluster_state:ok"))
        })?;
        Ok(cluster)
    }

    /// The nodes that own slots, in the order of their slots.
    #[must_use]
    pub fn primaries(&self) -> &[Server] {
        &self.primaries
    }

    /// The nodes that follow: those of the first primary, then those of the second, and so on.
    #[must_use]
    pub fn replicas(&self) -> &[Server] {
        &self.replicas
    }

    /// All nodes, primaries first.
    #[must_use]
    pub fn into_nodes(self) -> Vec<Server> {
        self.primaries.into_iter().chain(self.replicas).collect()
    }

    /// All nodes, to be killed and restarted.
    pub fn nodes_mut(&mut self) -> impl Iterator<Item = &mut Server> {
        self.primaries.iter_mut().chain(&mut self.replicas)
    }

    fn nodes(&self) -> impl Iterator<Item = &Server> {
        self.primaries.iter().chain(&self.replicas)
    }

    /// Nodes start with different epochs: equal ones would have to resolve the collision first.
    fn assign_slots(&self) -> Result<(), ServerError> {
        let count = self.primaries.len();
        for (index, node) in self.primaries.iter().enumerate() {
            let epoch = (index + 1).to_string();
            ask(node, &["CLUSTER", "SET-CONFIG-EPOCH", &epoch])?;
            let (first, next) = (SLOTS * index / count, SLOTS * (index + 1) / count);
            let (first, last) = (first.to_string(), (next - 1).to_string());
            ask(node, &["CLUSTER", "ADDSLOTSRANGE", &first, &last])?;
        }
        Ok(())
    }

    fn introduce(&self) -> Result<(), ServerError> {
        let host = &self.primaries[0];
        for node in self.nodes().skip(1) {
            let (port, bus) = (node.port().to_string(), node.bus_port().to_string());
            ask(host, &["CLUSTER", "MEET", "127.0.0.1", &port, &bus])?;
        }
        Ok(())
    }

    fn knows_everybody(&self) -> impl Fn(&Server) -> Result<bool, ServerError> + use<> {
        let everybody = self.nodes().count();
        move |node| {
            let known = ask(node, &["CLUSTER", "NODES"])?;
            Ok(known.lines().count() == everybody && !known.contains("handshake"))
        }
    }

    fn follow(&self, replicas_each: usize) -> Result<(), ServerError> {
        for (index, replica) in self.replicas.iter().enumerate() {
            let primary = &self.primaries[index / replicas_each];
            let primary_id = ask(primary, &["CLUSTER", "MYID"])?;
            ask(replica, &["CLUSTER", "REPLICATE", &primary_id])?;
        }
        let follows = |replica: &Server| {
            Ok(ask(replica, &["INFO", "replication"])?.contains("master_link_status:up"))
        };
        await_on(self.replicas.iter(), "has replicas that do not follow", &follows)
    }

    fn await_on_all(
        &self,
        otherwise: &str,
        holds: &dyn Fn(&Server) -> Result<bool, ServerError>,
    ) -> Result<(), ServerError> {
        await_on(self.nodes(), otherwise, holds)
    }
}

fn await_on<'a>(
    nodes: impl Iterator<Item = &'a Server>,
    otherwise: &str,
    holds: &dyn Fn(&Server) -> Result<bool, ServerError>,
) -> Result<(), ServerError> {
    let wait = Wait::at_most(TOGETHER_WITHIN);
    for node in nodes {
        wait.until(|| match holds(node) {
            Ok(false) => None,
            Ok(true) => Some(Ok(())),
            Err(error) => Some(Err(error)),
        })
        .ok_or_else(|| ServerError::Cluster(otherwise.to_owned()))??;
    }
    Ok(())
}

/// Asks a node for a text.
fn ask(node: &Server, command: &[&str]) -> Result<String, ServerError> {
    match node.connect()?.call(command)? {
        Value::Bulk(text) => Ok(String::from_utf8_lossy(&text).into_owned()),
        Value::Status(text) => Ok(text),
        other @ (Value::Nil | Value::Int(_) | Value::Error(_) | Value::Array(_)) => {
            Err(ServerError::Cluster(format!("answered {other:?} to {command:?}")))
        }
    }
}

const SLOTS: usize = 16_384;

/// Gossip goes once a second, so a cluster needs a few of them.
const TOGETHER_WITHIN: Duration = Duration::from_secs(60);
