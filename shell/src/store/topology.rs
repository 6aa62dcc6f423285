//! [`Topology`]: the servers of a store, a single one or a cluster.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use selvedge_core::command::{Answer, Command};
use selvedge_core::error::{Class, ServerError};
use selvedge_core::retry::Retry;
use selvedge_core::value::Value;
use tokio::sync::watch;
use tokio::time::Instant;

use super::cluster::Cluster;
use super::connection::diagnose_hangup;
use super::connector::{Connector, argv};
use super::library::{Library, LibraryUse};
use super::node::Node;
use super::url::{Address, Servers};
use super::{StoreError, StoreOptions};

/// The servers of a store.
pub(super) struct Topology {
    pub(super) factory: NodeFactory,
    layout: Layout,
}

enum Layout {
    Single(Arc<Node>),
    Cluster(Cluster),
}

/// Makes nodes, all with the same connector and the same use of the library.
pub(super) struct NodeFactory {
    pub(super) connector: Arc<Connector>,
    library: LibraryUse,
    loads: Arc<watch::Sender<u64>>,
}

impl NodeFactory {
    pub(super) fn node(&self, address: Address) -> Arc<Node> {
        let library = Library::new(self.library, self.loads.clone());
        Node::start(address, self.connector.clone(), library)
    }
}

impl Topology {
    pub(super) async fn open(
        servers: &Servers,
        options: &StoreOptions,
    ) -> Result<Self, StoreError> {
        let factory = NodeFactory {
            connector: Arc::new(Connector::new(servers, options)?),
            library: options.library,
            loads: Arc::new(watch::Sender::new(0)),
        };
        let layout = if servers.cluster {
            Layout::Cluster(Cluster::open(&factory, servers.hosts.clone()).await?)
        } else {
            Layout::Single(open_one(&factory, servers).await?)
        };
        Ok(Self { factory, layout })
    }

    /// Runs a batch: one pipeline per server, one answer per command, in order. A read whose
    /// connection ended before the reply is retried once.
    pub(super) async fn run(&self, batch: &[Command], within: Duration) -> Vec<Answer> {
        let until = Instant::now() + within.min(WAIT_MAX);
        let mut answers = self.run_once(batch, until).await;
        let cut_off = |index: &usize| {
            matches!(&answers[*index], Answer::PerhapsApplied(error)
                if error.retry(batch[*index].idempotency()) != Retry::Never)
        };
        let indexes: Vec<usize> = (0..answers.len()).filter(cut_off).collect();
        if !indexes.is_empty() && Instant::now() < until {
            let reads: Vec<Command> = indexes.iter().map(|&index| batch[index].clone()).collect();
            for (index, answer) in indexes.into_iter().zip(self.run_once(&reads, until).await) {
                answers[index] = answer;
            }
        }
        answers
    }

    async fn run_once(&self, batch: &[Command], until: Instant) -> Vec<Answer> {
        match &self.layout {
            Layout::Single(node) => {
                let commands: Vec<&[Vec<u8>]> =
                    batch.iter().map(|command| command.argv.as_slice()).collect();
                node.execute(&commands, until, until).await
            }
            Layout::Cluster(cluster) => cluster.run(&self.factory, batch, until).await,
        }
    }

    /// The server for the next subscription; round robin in a cluster.
    pub(super) fn next_subscribe_address(&self) -> Address {
        match &self.layout {
            Layout::Single(node) => node.address.clone(),
            Layout::Cluster(cluster) => cluster.next_subscribe_address(),
        }
    }

    /// Why a server is not connected; `None` if all are.
    pub(super) fn connection_error(&self) -> Option<ServerError> {
        match &self.layout {
            Layout::Single(node) => node.connection_error(),
            Layout::Cluster(cluster) => cluster.connection_error(),
        }
    }

    /// Counts loads of the library on all servers.
    pub(super) fn library_loads(&self) -> watch::Receiver<u64> {
        self.factory.loads.subscribe()
    }

    /// One slot of each server that owns data.
    pub(super) fn slot_per_server(&self) -> BTreeMap<Address, u16> {
        match &self.layout {
            Layout::Single(node) => BTreeMap::from([(node.address.clone(), 0)]),
            Layout::Cluster(cluster) => cluster.slot_per_server(),
        }
    }

    /// The servers that own data, by address.
    pub(super) fn addresses(&self) -> Vec<String> {
        match &self.layout {
            Layout::Single(node) => vec![node.address.to_string()],
            Layout::Cluster(cluster) => cluster.addresses(),
        }
    }
}

/// Longer than any process runs. A later time could not be counted.
const WAIT_MAX: Duration = Duration::from_secs(30 * 365 * 86_400);

async fn open_one(factory: &NodeFactory, servers: &Servers) -> Result<Arc<Node>, StoreError> {
    let address = servers.hosts.first().cloned().ok_or(StoreError::NoHost)?;
    let node = factory.node(address);
    let connected = node.first_connect().await;
    let until = Instant::now() + factory.connector.connect_within;
    let info = argv(&["INFO", "cluster"]);
    let answer = match &connected {
        Ok(()) => node.execute(&[&info], until, until).await.pop(),
        Err(_) => None,
    };
    let is_silent = connected.as_ref().is_err_and(|error| error.class == Class::Silence)
        || matches!(answer, Some(Answer::PerhapsApplied(_)));
    if is_silent && let Some(why) = diagnose_hangup(&node.address, &factory.connector).await {
        return Err(why);
    }
    connected?;
    // Without the right to run INFO, a cluster is noticed later, by its redirects.
    if let Some(Answer::Applied(Value::Bulk(text))) = answer
        && String::from_utf8_lossy(&text).contains("cluster_enabled:1")
    {
        return Err(StoreError::IsCluster(node.address.to_string()));
    }
    Ok(node)
}
