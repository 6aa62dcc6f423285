//! [`Context`]: the options and settings shared by all commands.

use crate::misspelt_variables;
use crate::settings::Settings;
use clap::Args;
use selvedge::client::{Client, Execution};
use selvedge::store::{LibraryUse, Store};
use selvedge_core::id::{ExecutionId, FlowId};
use serde_json::json;

use super::failure::{Exit, Failure};
use super::output::{Output, escape_control};

/// Options of all commands.
#[derive(Args)]
pub(crate) struct Global {
    /// URL of the store: memory://, valkey://HOST, valkeys://HOST (TLS), redis://, rediss://;
    /// several hosts or ?cluster=true for a cluster. Default: SELVEDGE_URL, or the content of the
    /// file that SELVEDGE_URL_FILE names.
    #[arg(long, global = true, value_name = "URL")]
    store: Option<String>,
    /// Print JSON, one object per line.
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Namespace of the flows, executions and workers to work on. Default: SELVEDGE_NAMESPACE, or
    /// `default`. An id of another namespace is refused. Lanes, engines, budgets, quotas, secrets
    /// and fsck belong to the whole deployment.
    #[arg(long, global = true, value_name = "NAME")]
    namespace: Option<String>,
    /// Work on flows and executions of all namespaces.
    #[arg(long, global = true)]
    all_namespaces: bool,
}

/// The settings of one invocation.
pub(crate) struct Context {
    pub(crate) settings: Settings,
    pub(crate) namespace: String,
    /// Whether ids and lists of other namespaces are allowed.
    pub(crate) all_namespaces: bool,
    /// Which of them come from flags.
    pub(crate) by_flag: ByFlag,
    pub(crate) output: Output,
}

/// Settings that were given as flags.
pub(crate) struct ByFlag {
    pub(crate) store: bool,
    pub(crate) namespace: bool,
}

impl Context {
    pub(crate) fn new(global: Global) -> Result<Self, Failure> {
        let by_flag =
            ByFlag { store: global.store.is_some(), namespace: global.namespace.is_some() };
        let store = global.store.map(|url| url.parse()).transpose().map_err(Failure::usage)?;
        let settings = Settings::from_env_for(store).map_err(Failure::usage)?;
        let said = || std::env::var("SELVEDGE_NAMESPACE").ok().filter(|name| !name.is_empty());
        let namespace = global.namespace.or_else(said).unwrap_or_else(|| "default".to_owned());
        let output = Output { json: global.json };
        let set = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
        for (name, meant) in misspelt_variables::find(set) {
            let sentence = format!("selvedge: {name} is not a setting; did you mean {meant}?");
            output.note(&sentence, json!({ "unknown_variable": name, "did_you_mean": meant }));
        }
        let all_namespaces = global.all_namespaces;
        Ok(Self { settings, namespace, all_namespaces, by_flag, output })
    }

    /// Whether this command works on this namespace. A record without one belongs to all.
    pub(crate) fn covers(&self, namespace: &str) -> bool {
        self.all_namespaces || namespace.is_empty() || namespace == self.namespace
    }

    /// Refuses what belongs to another namespace.
    pub(crate) fn check_namespace(
        &self,
        kind: &str,
        id: &dyn std::fmt::Display,
        namespace: &str,
    ) -> Result<(), Failure> {
        if self.covers(namespace) {
            return Ok(());
        }
        let (theirs, ours) = (escape_control(namespace), escape_control(&self.namespace));
        let sentence = format!("{kind} {id} is in namespace {theirs}, not in {ours}");
        Err(Failure::new(Exit::Refused, sentence)
            .hint(format!("name it with --namespace {theirs}, or allow all with --all-namespaces")))
    }

    /// Reads an execution of this namespace.
    pub(crate) async fn execution(
        &self,
        client: &Client,
        id: &ExecutionId,
    ) -> Result<Execution, Failure> {
        let execution = client.execution(id).await?;
        self.check_namespace("execution", id, &execution.namespace)?;
        Ok(execution)
    }

    /// Refuses a flow of another namespace.
    pub(crate) async fn check_flow(&self, client: &Client, id: FlowId) -> Result<(), Failure> {
        self.check_namespace("flow", &id, &client.flow(id).await?.namespace)
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

    /// The store alone, to look at its servers. It need not hold a deployment.
    pub(crate) async fn store(&self) -> Result<Store, Failure> {
        self.open(LibraryUse::Leave).await
    }

    /// Refuses the store in memory: nobody else could reach it.
    pub(crate) fn refuse_memory(&self) -> Result<(), Failure> {
        if !self.settings.store.is_memory() {
            return Ok(());
        }
        let reason = match self.by_flag.store || self.settings.store_named() {
            true => "memory:// exists only inside one process and is empty here",
            false => "no store is named",
        };
        Err(Failure::usage(reason).hint("name one with --store valkey://HOST or SELVEDGE_URL"))
    }

    async fn open(&self, library: LibraryUse) -> Result<Store, Failure> {
        let url = &self.settings.store;
        self.refuse_memory()?;
        let options = self.settings.options.clone().library(library);
        Store::open(url, options).await.map_err(|error| Failure::from(error).at(url))
    }

    async fn connect(&self, library: LibraryUse) -> Result<Client, Failure> {
        let url = &self.settings.store;
        let store = self.open(library).await?;
        let client = Client::builder(store).namespace(&self.namespace).identity("operator");
        // As for an engine: counts that somebody asks for must be those that are stored.
        let client = match self.settings.partitions() {
            Some(counts) => client.partitions(counts),
            None => client,
        };
        client.build().await.map_err(|error| Failure::from(error).at(url))
    }
}
