//! What every command needs: the store, and how to print.

use clap::Args;
use selvedge::client::Client;
use selvedge::config::Settings;
use selvedge::store::{LibraryUse, Store, StoreOptions};

use super::failure::Failure;
use super::output::Output;

/// Options of all commands.
#[derive(Args)]
pub(crate) struct Global {
    /// Where the store is: memory://, valkey://HOST, valkeys://HOST (TLS), redis://, rediss://;
    /// several hosts or ?cluster=true for a cluster. Otherwise SELVEDGE_URL says, or
    /// SELVEDGE_URL_FILE names a file that does.
    #[arg(long, global = true, value_name = "URL")]
    store: Option<String>,
    /// Print JSON, one object per line.
    #[arg(long, global = true)]
    json: bool,
    /// The namespace of the flows that are submitted and listed.
    #[arg(long, global = true, env = "SELVEDGE_NAMESPACE", default_value = "default")]
    namespace: String,
}

/// What every command needs.
pub(crate) struct Context {
    pub(crate) settings: Settings,
    namespace: String,
    pub(crate) output: Output,
}

impl Context {
    pub(crate) fn new(global: Global) -> Result<Self, Failure> {
        let mut settings = Settings::from_env().map_err(Failure::usage)?;
        if let Some(url) = global.store {
            settings = settings.at(url.parse().map_err(Failure::usage)?);
        }
        let output = Output { json: global.json };
        Ok(Self { settings, namespace: global.namespace, output })
    }

    /// A client for a store that outlives this command.
    pub(crate) async fn client(&self) -> Result<Client, Failure> {
        self.connect(LibraryUse::Ensure).await
    }

    /// The same for commands that only look: they change nothing, not even the library.
    pub(crate) async fn reader(&self) -> Result<Client, Failure> {
        self.connect(LibraryUse::Leave).await
    }

    /// One of the two: whoever only says what would be done only looks.
    pub(crate) async fn client_unless(&self, dry_run: bool) -> Result<Client, Failure> {
        if dry_run { self.reader().await } else { self.client().await }
    }

    async fn connect(&self, library: LibraryUse) -> Result<Client, Failure> {
        let url = &self.settings.store;
        if url.is_memory() {
            return Err(Failure::usage("memory:// ends with its process: there is nothing in it")
                .hint("name a store with --store valkey://HOST or SELVEDGE_URL"));
        }
        let options = StoreOptions { library, ..self.settings.options.clone() };
        let store =
            Store::open(url, options).await.map_err(|error| Failure::from(error).at(url))?;
        let client = Client::builder(store)
            .namespace(&self.namespace)
            .identity("operator")
            .assume_partitions(self.settings.engine.partitions);
        client.build().await.map_err(|error| Failure::from(error).at(url))
    }
}
