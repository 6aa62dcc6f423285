//! [`Fleet`]: the servers of a store, one or a cluster of them.

use std::sync::Arc;
use std::time::Duration;

use selvedge_core::engine::{Answer, Command};
use selvedge_core::error::{Class, ServerError};
use selvedge_core::value::Value;
use tokio::sync::watch;
use tokio::time::Instant;

use super::access::{Access, words};
use super::cluster::Cluster;
use super::library::{Library, LibraryUse};
use super::link::why_hung_up;
use super::node::Node;
use super::url::{Address, Servers};
use super::{StoreError, StoreOptions};

pub(super) struct Fleet {
    pub(super) yard: Yard,
    shape: Shape,
}

enum Shape {
    One(Arc<Node>),
    Cluster(Cluster),
}

/// Where nodes are made: all of them with the same access and the same library.
pub(super) struct Yard {
    pub(super) access: Arc<Access>,
    library: LibraryUse,
    loads: Arc<watch::Sender<u64>>,
}

impl Yard {
    pub(super) fn node(&self, address: Address) -> Arc<Node> {
        let library = Library::new(self.library, self.loads.clone());
        Node::start(address, self.access.clone(), library)
    }
}

impl Fleet {
    pub(super) async fn open(
        servers: &Servers,
        options: &StoreOptions,
    ) -> Result<Self, StoreError> {
        let yard = Yard {
            access: Arc::new(Access::new(servers, options)?),
            library: options.library,
            loads: Arc::new(watch::Sender::new(0)),
        };
        let shape = if servers.cluster {
            Shape::Cluster(Cluster::open(&yard, servers.hosts.clone()).await?)
        } else {
            Shape::One(open_one(&yard, servers).await?)
        };
        Ok(Self { yard, shape })
    }

    /// Carries out a batch: one pipeline per server, one answer per command, in order. A read whose
    /// connection ended before its answer came is asked once more.
    pub(super) async fn run(&self, batch: &[Command], within: Duration) -> Vec<Answer> {
        let until = Instant::now() + within;
        let mut answers = self.run_once(batch, until).await;
        let cut_off = |place: &usize| {
            batch[*place].reads && matches!(answers[*place], Answer::PerhapsApplied(_))
        };
        let places: Vec<usize> = (0..answers.len()).filter(cut_off).collect();
        if !places.is_empty() && Instant::now() < until {
            let reads: Vec<Command> = places.iter().map(|&place| batch[place].clone()).collect();
            for (place, answer) in places.into_iter().zip(self.run_once(&reads, until).await) {
                answers[place] = answer;
            }
        }
        answers
    }

    async fn run_once(&self, batch: &[Command], until: Instant) -> Vec<Answer> {
        match &self.shape {
            Shape::One(node) => {
                let commands: Vec<&[Vec<u8>]> =
                    batch.iter().map(|command| command.argv.as_slice()).collect();
                node.carry_out(&commands, until, until).await
            }
            Shape::Cluster(cluster) => cluster.run(&self.yard, batch, until).await,
        }
    }

    /// A server that takes subscriptions; another one each time, where there are several.
    pub(super) fn any_address(&self) -> Address {
        match &self.shape {
            Shape::One(node) => node.address.clone(),
            Shape::Cluster(cluster) => cluster.any_address(),
        }
    }

    /// What keeps us from a server, if anything does.
    pub(super) fn trouble(&self) -> Option<ServerError> {
        match &self.shape {
            Shape::One(node) => node.trouble(),
            Shape::Cluster(cluster) => cluster.trouble(),
        }
    }

    /// Counts the loads of the library, on whichever server.
    pub(super) fn library_loads(&self) -> watch::Receiver<u64> {
        self.yard.loads.subscribe()
    }

    /// One slot of each server that owns data.
    pub(super) fn a_slot_per_server(&self) -> Vec<u16> {
        match &self.shape {
            Shape::One(_) => vec![0],
            Shape::Cluster(cluster) => cluster.a_slot_per_server(),
        }
    }

    /// The servers that own data, by address.
    pub(super) fn addresses(&self) -> Vec<String> {
        match &self.shape {
            Shape::One(node) => vec![node.address.to_string()],
            Shape::Cluster(cluster) => cluster.addresses(),
        }
    }
}

async fn open_one(yard: &Yard, servers: &Servers) -> Result<Arc<Node>, StoreError> {
    let address = servers.hosts.first().cloned().ok_or(StoreError::NoHost)?;
    let node = yard.node(address);
    let greeted = node.first_attempt().await;
    let until = Instant::now() + yard.access.connect_within;
    let about = words(&["INFO", "cluster"]);
    let answer = match &greeted {
        Ok(()) => node.carry_out(&[&about], until, until).await.pop(),
        Err(_) => None,
    };
    let is_silent = greeted.as_ref().is_err_and(|error| error.class == Class::Silence)
        || matches!(answer, Some(Answer::PerhapsApplied(_)));
    if is_silent && let Some(why) = why_hung_up(&node.address, &yard.access).await {
        return Err(ServerError::silence(why).into());
    }
    greeted?;
    // Who may not ask is not told, and finds out by redirects.
    if let Some(Answer::Applied(Value::Bulk(text))) = answer
        && String::from_utf8_lossy(&text).contains("cluster_enabled:1")
    {
        return Err(StoreError::IsCluster(node.address.to_string()));
    }
    Ok(node)
}
