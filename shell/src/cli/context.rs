//! What every command needs: the store, and how to print.

use clap::Args;
use selvedge::client::Client;
use selvedge::store::{Store, StoreOptions, StoreUrl};

use super::failure::Failure;
use super::output::Output;

/// Options of all commands.
#[derive(Args)]
pub(crate) struct Global {
    /// Where the store is: memory://, valkey://HOST, valkeys://HOST (TLS), redis://, rediss://;
    /// several hosts or ?cluster=true for a cluster.
    #[arg(
        long,
        global = true,
        env = "SELVEDGE_URL",
        hide_env_values = true,
        default_value = "memory://",
        value_name = "URL"
    )]
    store: String,
    /// Print JSON, one object per line.
    #[arg(long, global = true)]
    json: bool,
    /// The namespace of what is submitted and looked at.
    #[arg(long, global = true, env = "SELVEDGE_NAMESPACE", default_value = "default")]
    namespace: String,
}

/// What every command needs.
pub(crate) struct Context {
    url: StoreUrl,
    namespace: String,
    pub(crate) output: Output,
}

impl Context {
    pub(crate) fn new(global: Global) -> Result<Self, Failure> {
        let url = global.store.parse().map_err(Failure::usage)?;
        let output = Output { json: global.json };
        Ok(Self { url, namespace: global.namespace, output })
    }

    /// A client for a store that outlives this command.
    pub(crate) async fn client(&self) -> Result<Client, Failure> {
        if self.url.is_memory() {
            return Err(Failure::usage("memory:// ends with its process: there is nothing in it")
                .hint("name a store with --store valkey://HOST or SELVEDGE_URL"));
        }
        let store = Store::open(&self.url, StoreOptions::default()).await?;
        let client = Client::builder(store).namespace(&self.namespace).identity("operator");
        Ok(client.build().await?)
    }
}
