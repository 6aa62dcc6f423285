//! What the suites of the shell share.

use std::future::Future;

use selvedge::store::{Store, StoreOptions, StoreUrl};
use selvedge_tests::cluster::Cluster;
use selvedge_tests::server::Server;

/// Runs a test's future on a runtime of its own.
pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap()
        .block_on(future)
}

/// The URL of a server of the kit.
pub(crate) fn url_of(server: &Server) -> StoreUrl {
    format!("valkey://127.0.0.1:{}", server.port()).parse().unwrap()
}

/// The URL of a cluster of the kit.
pub(crate) fn url_of_cluster(cluster: &Cluster) -> StoreUrl {
    let hosts: Vec<String> =
        cluster.primaries().iter().map(|node| format!("127.0.0.1:{}", node.port())).collect();
    format!("valkey://{}?cluster=true", hosts.join(",")).parse().unwrap()
}

/// Opens a store, which must work.
pub(crate) async fn open(url: &StoreUrl) -> Store {
    Store::open(url, StoreOptions::default()).await.unwrap_or_else(|error| panic!("{url}: {error}"))
}
