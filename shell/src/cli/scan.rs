//! `selvedge scan --once`: one round of all scanners, now.

use clap::Args;
use selvedge::client::Client;
use selvedge::inspect::{self, Round};
use serde_json::Value;

use super::context::Context;
use super::failure::{Exit, Failure};

/// How often.
#[derive(Args)]
pub(crate) struct Options {
    /// Make one round and stop; `selvedge serve` goes on for ever.
    #[arg(long, required = true)]
    once: bool,
}

pub(crate) async fn run(context: &Context, _: &Options) -> Result<(), Failure> {
    let client = context.client().await?;
    let round = one_round(context, &client).await?;
    let rows = round.tallies.iter().map(|(scanner, tally)| {
        let counts = [
            tally.processed,
            tally.nothing,
            tally.refused,
            tally.skipped,
            tally.failed,
            tally.deferred,
            tally.poisoned,
        ];
        let mut row = vec![Value::from(scanner.as_str())];
        row.extend(counts.map(Value::from));
        row
    });
    let columns =
        ["scanner", "processed", "nothing", "refused", "skipped", "failed", "deferred", "poisoned"];
    context.output.rows(&columns, rows.collect())?;
    for failure in &round.failures {
        anstream::eprintln!("{failure}");
    }
    match round.failures.len() {
        0 => Ok(()),
        1 => Err(Failure::new(Exit::Partial, "something failed; the rest was done")),
        many => {
            Err(Failure::new(Exit::Partial, format!("{many} things failed; the rest was done")))
        }
    }
}

/// One round over all lanes of the registry, with the settings of this environment.
pub(super) async fn one_round(context: &Context, client: &Client) -> Result<Round, Failure> {
    let mut config = context.settings.engine.clone();
    config.partitions = *client.partitions();
    for lane in client.lanes().await? {
        if !config.lanes.contains(&lane) {
            config.lanes.push(lane);
        }
    }
    let round = inspect::one_round(client.store(), config).await;
    if round.is_complete() {
        return Ok(round);
    }
    let trouble = client.store().trouble().map(|error| error.to_string()).unwrap_or_default();
    Err(Failure::new(Exit::Partial, format!("not every scanner got through: {trouble}")))
}
