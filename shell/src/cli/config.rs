//! `selvedge config show`: the settings in force. Secrets are only said to be there.

use clap::Subcommand;
use selvedge_core::engine::scan::SCANNERS;
use serde_json::Value;

use super::context::Context;
use super::failure::Failure;

/// What to do.
#[derive(Subcommand)]
pub(crate) enum Options {
    /// Show every setting with its value and where that comes from.
    Show,
}

pub(crate) fn run(context: &Context, options: &Options) -> Result<(), Failure> {
    match options {
        Options::Show => show(context),
    }
}

fn show(context: &Context) -> Result<(), Failure> {
    let settings = &context.settings;
    let engine = &settings.engine;
    let lanes: Vec<String> = engine.lanes.iter().map(ToString::to_string).collect();
    let secret = if settings.secret.is_some() { "given" } else { "none" };
    let mut rows = vec![
        row("store", settings.store.to_string(), "SELVEDGE_URL"),
        row("waitpoint secret", secret.to_owned(), "SELVEDGE_WAITPOINT_SECRET"),
        row("listen", settings.listen.to_string(), "SELVEDGE_LISTEN"),
        row("flow partitions", engine.partitions.flow.to_string(), "FF_FLOW_PARTITIONS"),
        row("budget partitions", engine.partitions.budget.to_string(), "FF_BUDGET_PARTITIONS"),
        row("quota partitions", engine.partitions.quota.to_string(), "FF_QUOTA_PARTITIONS"),
        row("lanes", lanes.join(","), "FF_LANES"),
    ];
    for spec in SCANNERS.iter().map(|scanner| scanner.spec()) {
        let every = humantime::format_duration(engine.interval(spec.name, spec.every)).to_string();
        rows.push(row(&format!("{} every", spec.name), every, spec.interval_variable));
    }
    Ok(context.output.rows(&["setting", "value", "origin", "variable"], rows)?)
}

fn row(name: &str, value: String, variable: &str) -> Vec<Value> {
    let file = format!("{variable}_FILE");
    let is_set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let origin = if is_set(variable) {
        "environment"
    } else if is_set(&file) {
        "file"
    } else {
        "default"
    };
    vec![Value::from(name), Value::from(value), Value::from(origin), Value::from(variable)]
}
