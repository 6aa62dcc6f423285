//! `selvedge config show`: the settings in force. Secrets are shown as `given` or `none`.

use std::path::Path;

use clap::Subcommand;
use selvedge::deployment;
use selvedge::store::{LibraryUse, Store};
use selvedge_core::engine::{AUDIT_COMMANDS, AUDIT_SHARE, LONGEST_SLEEP, scanner_specs};
use selvedge_core::partition::PartitionCounts;
use serde_json::Value;

use super::context::Context;
use super::failure::Failure;
use crate::settings::{RETENTION, RETENTION_COUNT};

/// The subcommands.
#[derive(Subcommand)]
pub(crate) enum Options {
    /// Show every setting with its value and origin, and the partition counts of the store beside
    /// the configured ones.
    Show,
}

pub(crate) async fn run(context: &Context, options: &Options) -> Result<(), Failure> {
    match options {
        Options::Show => show(context).await,
    }
}

async fn show(context: &Context) -> Result<(), Failure> {
    let engine = &context.settings.engine;
    let mut rows = of_store(context);
    let listen = context.settings.listen.to_string();
    rows.push(Row::new("listen", listen, "SELVEDGE_LISTEN"));
    let retention = humantime::format_duration(engine.retention).to_string();
    rows.push(Row::new("retention", retention, RETENTION));
    let keep = engine.keep_ended.map_or("any".to_owned(), |most| most.to_string());
    rows.push(Row::new("retention count", keep, RETENTION_COUNT));
    rows.extend(counts(engine.partitions, stored(context).await));
    let lanes: Vec<String> = engine.lanes.iter().map(ToString::to_string).collect();
    rows.push(Row::new("lanes", lanes.join(","), "FF_LANES"));
    let sleep = humantime::format_duration(engine.longest_sleep).to_string();
    rows.push(Row::new("longest sleep", sleep, LONGEST_SLEEP));
    let share = format!("{} thousandths", engine.audit.share_permille);
    rows.push(Row::new("audit share of a server", share, AUDIT_SHARE));
    let count = engine.audit.commands_per_second.to_string();
    rows.push(Row::new("audit commands per second", count, AUDIT_COMMANDS));
    for spec in scanner_specs() {
        let every =
            humantime::format_duration(engine.interval(spec.name, spec.interval)).to_string();
        rows.push(Row::new(format!("{} every", spec.name), every, spec.interval_variable));
    }
    let columns = ["setting", "value", "origin", "variable", "stored"];
    Ok(context.output.rows(&columns, rows.into_iter().map(Row::cells).collect())?)
}

/// The store, its credentials and certificates.
fn of_store(context: &Context) -> Vec<Row> {
    let settings = &context.settings;
    let (url, tls) = (&settings.store, &settings.options.tls);
    let (names_user, has_password) = settings.credentials_in_url();
    let is_there = |there: bool| if there { "given" } else { "none" }.to_owned();
    let file = |path: &Option<std::path::PathBuf>, otherwise: &str| {
        path.as_deref().map(Path::display).map_or(otherwise.to_owned(), |path| path.to_string())
    };
    vec![
        Row::new("store", url.to_string(), "SELVEDGE_URL")
            .with_origin("flag", context.by_flag.store),
        Row::new("user", url.user().unwrap_or("none").to_owned(), "SELVEDGE_USER")
            .with_origin("URL", names_user),
        Row::new("password", is_there(url.has_password()), "SELVEDGE_PASSWORD")
            .with_origin("URL", has_password),
        Row::new("TLS", if url.is_tls() { "on" } else { "off" }.to_owned(), "SELVEDGE_URL")
            .with_origin("flag", context.by_flag.store),
        Row::new("TLS authorities", file(&tls.ca_file, "the system's"), "SELVEDGE_TLS_CA_FILE"),
        Row::new("TLS certificate", file(&tls.cert_file, "none"), "SELVEDGE_TLS_CERT_FILE"),
        Row::new("TLS key", file(&tls.key_file, "none"), "SELVEDGE_TLS_KEY_FILE"),
        Row::new("namespace", context.namespace.clone(), "SELVEDGE_NAMESPACE")
            .with_origin("flag", context.by_flag.namespace),
        Row::new(
            "waitpoint secret",
            is_there(settings.secret.is_some()),
            "SELVEDGE_WAITPOINT_SECRET",
        ),
    ]
}

fn counts(set: PartitionCounts, stored: Option<PartitionCounts>) -> [Row; 3] {
    let row = |name, variable, count: fn(PartitionCounts) -> u16| Row {
        stored: stored.map(|stored| count(stored).to_string()),
        ..Row::new(name, count(set).to_string(), variable)
    };
    [
        row("flow partitions", "FF_FLOW_PARTITIONS", |counts| counts.flow.get()),
        row("budget partitions", "FF_BUDGET_PARTITIONS", |counts| counts.budget.get()),
        row("quota partitions", "FF_QUOTA_PARTITIONS", |counts| counts.quota.get()),
    ]
}

/// The partition counts of the store. Without a store the settings are shown all the same.
async fn stored(context: &Context) -> Option<PartitionCounts> {
    let url = &context.settings.store;
    if url.is_memory() {
        return None;
    }
    let options = context.settings.options.clone().library(LibraryUse::Leave);
    let asked = match Store::open(url, options).await {
        Ok(store) => deployment::counts(&store).await.map_err(Failure::from),
        Err(error) => Err(Failure::from(error)),
    };
    asked.unwrap_or_else(|failure| {
        anstream::eprintln!("cannot read the stored partition counts: {}", failure.at(url));
        None
    })
}

/// One setting.
struct Row {
    name: String,
    value: String,
    origin: &'static str,
    variable: &'static str,
    stored: Option<String>,
}

impl Row {
    /// A setting that the environment can make.
    fn new(name: impl Into<String>, value: String, variable: &'static str) -> Self {
        let is_set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        let origin = if is_set(variable) {
            "environment"
        } else if is_set(&format!("{variable}_FILE")) {
            "file"
        } else {
            "default"
        };
        Self { name: name.into(), value, origin, variable, stored: None }
    }

    /// The same, unless something that goes before the environment has made it.
    fn with_origin(self, origin: &'static str, so: bool) -> Self {
        if so { Self { origin, ..self } } else { self }
    }

    fn cells(self) -> Vec<Value> {
        let Self { name, value, origin, variable, stored } = self;
        let mut cells: Vec<Value> =
            [name.as_str(), &value, origin, variable].map(Value::from).into();
        cells.push(stored.map_or(Value::Null, Value::from));
        cells
    }
}
