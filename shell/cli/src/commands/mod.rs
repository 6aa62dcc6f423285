//! The command line: one module per command.

mod budget;
mod completions;
mod config;
mod context;
mod demo;
mod doctor;
mod engines;
mod exec;
mod exec_list;
mod exec_many;
mod exec_show;
mod failure;
mod failures;
mod file;
mod flow;
mod flow_list;
mod fsck;
mod lane;
mod lanes;
mod library;
mod output;
mod quota;
mod scan;
mod secret;
mod serve;
mod tree;
mod where_options;
mod why;
mod workers;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use context::{Context, Global};
use failure::{Exit, Failure};

/// Durable execution on Valkey.
#[derive(Parser)]
#[command(name = "selvedge", version, arg_required_else_help = true, after_help = EXIT_CODES)]
struct Cli {
    #[command(flatten)]
    global: Global,
    #[command(subcommand)]
    command: Command,
}

const EXIT_CODES: &str = "Exit codes: 0 success, 1 failure, 2 invalid usage, input or configuration, \
3 not found, 4 refused by the store or without effect, 5 partly done, inconsistent data or a \
warning of doctor.";

#[derive(Subcommand)]
enum Command {
    /// Run sample flows and workers on the in-memory store or another one.
    Demo(demo::Options),
    /// Submit, show, list, cancel and replay flows.
    #[command(subcommand)]
    Flow(flow::Options),
    /// List executions; show and signal one; cancel, replay and purge one or many.
    #[command(subcommand)]
    Exec(exec::Options),
    /// Group failed executions by reason: the newest, if there are more than can be looked at.
    Failures(failures::Options),
    /// Create, show, reset and delete budgets, which bound what tasks spend.
    #[command(subcommand)]
    Budget(budget::Options),
    /// Create, show, reset and delete quotas, which bound how many tasks start and run.
    #[command(subcommand)]
    Quota(quota::Options),
    /// Explain what an execution, a flow or the namespace waits for, who acts next, and by when.
    Why(why::Options),
    /// Check the consistency of the data, and repair it.
    Fsck(fsck::Options),
    /// Check the settings of the servers: report risky ones, and the command that fixes each.
    Doctor(doctor::Options),
    /// Run every background check (scanner) of an engine once.
    Scan(scan::Options),
    /// Count the executions of every lane by state, over all namespaces.
    Lanes,
    /// Pause, resume, drain and forget lanes.
    #[command(subcommand)]
    Lane(lane::Options),
    /// List the engines: who runs, since when, and how far behind.
    Engines,
    /// List the registered workers of the namespace.
    Workers,
    /// Rotate and list the secrets that sign waitpoint tokens.
    #[command(subcommand)]
    Secret(secret::Options),
    /// Show the effective settings.
    #[command(subcommand)]
    Config(config::Options),
    /// Print the function library, in the format for `FUNCTION LOAD`.
    Library(library::Options),
    /// Print a completion script for a shell.
    Completions(completions::Options),
    /// Run the engine, with metrics and health over HTTP, until SIGTERM or Ctrl-C.
    Serve(serve::Options),
}

/// Runs the command line of this process.
#[must_use]
pub fn run() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) if error.use_stderr() => {
            let told = error.render();
            if std::env::args_os().any(|argument| argument == "--json") {
                let told = without_credentials(told.to_string().trim_end());
                anstream::eprintln!("{}", Failure::usage(told).as_json());
            } else {
                anstream::eprint!("{}", without_credentials(&told.ansi().to_string()));
            }
            return Exit::Usage.into();
        }
        Err(help) => help.exit(),
    };
    let json = cli.global.json;
    match execute(cli) {
        Ok(code) => code,
        Err(failure) if failure.is_broken_pipe() => ExitCode::SUCCESS,
        Err(failure) => {
            match json {
                true => anstream::eprintln!("{}", failure.as_json()),
                false => anstream::eprintln!("selvedge: {failure}"),
            }
            failure.exit.into()
        }
    }
}

/// The text with credentials masked: a usage error quotes the arguments, among which may be a store
/// URL or a signal ticket.
fn without_credentials(text: &str) -> String {
    let urls_masked = without_passwords(text);
    let words = urls_masked.split_inclusive(char::is_whitespace);
    words.map(without_token).collect()
}

/// The word without its token if it is a signal ticket: `EXECUTION/WAITPOINT/TOKEN`.
fn without_token(word: &str) -> String {
    let (front, back) = word.rsplit_once('/').unwrap_or((word, ""));
    let is_ticket = front.contains('/') && front.contains("{fp:") && back.contains(':');
    if !is_ticket {
        return word.to_owned();
    }
    let end = back.find(['\'', '`', '"', ' ', '\n', '\x1b']).unwrap_or(back.len());
    format!("{front}/***{}", &back[end..])
}

fn without_passwords(text: &str) -> String {
    let mut parts = text.split("://");
    let mut masked = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let end = part.find(char::is_whitespace).unwrap_or(part.len());
        let shown = part[..end].rfind('@').map_or(part, |at| &part[at..]);
        masked.push_str(if shown.len() == part.len() { "://" } else { "://***" });
        masked.push_str(shown);
    }
    masked
}

fn execute(cli: Cli) -> Result<ExitCode, Failure> {
    let context = Context::new(cli.global)?;
    match cli.command {
        Command::Demo(options) => wait_for(demo::run(&context, &options))?,
        Command::Library(options) => library::run(&context, &options)?,
        Command::Completions(options) => completions::run(&context, &options)?,
        Command::Flow(options) => wait_for(flow::run(&context, options))?,
        Command::Exec(options) => wait_for(exec::run(&context, options))?,
        Command::Failures(options) => wait_for(failures::run(&context, &options))?,
        Command::Budget(options) => wait_for(budget::run(&context, options))?,
        Command::Quota(options) => wait_for(quota::run(&context, options))?,
        Command::Why(options) => wait_for(why::run(&context, &options))?,
        Command::Doctor(options) => wait_for(doctor::run(&context, &options))?,
        Command::Fsck(options) => wait_on_all_cores(fsck::run(&context, &options))?,
        Command::Scan(options) => wait_for(scan::run(&context, &options))?,
        Command::Secret(options) => wait_for(secret::run(&context, &options))?,
        Command::Config(options) => wait_for(config::run(&context, &options))?,
        Command::Lane(options) => wait_for(lane::run(&context, options))?,
        Command::Lanes => wait_for(lanes::run(&context))?,
        Command::Engines => wait_for(engines::run(&context))?,
        Command::Workers => wait_for(workers::run(&context))?,
        Command::Serve(options) => serve::run(&context, &options)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Runs a command that computes as much as it reads.
fn wait_on_all_cores(command: impl Future<Output = Result<(), Failure>>) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::new(Exit::Error, error))?;
    runtime.block_on(command)
}

/// Runs a command that talks to a store.
fn wait_for(command: impl Future<Output = Result<(), Failure>>) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::new(Exit::Error, error))?;
    runtime.block_on(command)
}
