//! `selvedge demo`.

use std::io;

use crate::demo::{self, DemoError};
use clap::Args;
use selvedge::client::ClientError;
use selvedge::store::Store;
use serde_json::Value;

use super::context::Context;
use super::failure::{Exit, Failure};

/// The options.
#[derive(Args)]
pub(crate) struct Options {
    /// Print what would be submitted, and submit nothing.
    #[arg(long)]
    dry_run: bool,
}

/// Fails unless everything ended as it should.
pub(crate) async fn run(context: &Context, options: &Options) -> Result<(), Failure> {
    if options.dry_run {
        return would(context);
    }
    let settings = &context.settings;
    let store = Store::open(&settings.store, settings.options.clone())
        .await
        .map_err(|error| Failure::from(error).at(&settings.store))?;
    let counts = settings.partitions();
    // Programs read the report; people may still follow what happens.
    let told = match context.output.json {
        true => demo::run(store, counts, &context.namespace, &mut io::stderr()).await,
        false => demo::run(store, counts, &context.namespace, &mut io::stdout()).await,
    };
    if let (true, Ok(report)) = (context.output.json, &told) {
        let rows = report.rows().map(|row| {
            let [work, shows, found] = [row.name, row.shows, row.found.as_str()].map(Value::from);
            vec![work, shows, found, Value::from(row.as_expected)]
        });
        let columns = ["work", "what it shows", "how it ended", "as expected"];
        context.output.rows(&columns, rows.collect())?;
    }
    match told {
        Ok(report) if report.is_good() => Ok(()),
        Ok(_) => Err(Failure::new(Exit::Error, "not everything ended as expected")),
        Err(DemoError::Output(error)) => Err(error.into()),
        Err(DemoError::Client(error)) => Err(error.into()),
        Err(DemoError::Deployment(error)) => Err(ClientError::from(error).into()),
    }
}

/// Prints what would be submitted, without connecting to the store.
fn would(context: &Context) -> Result<(), Failure> {
    let rows = demo::planned().into_iter().map(|planned| {
        let [work, shows] = [planned.name, planned.shows].map(Value::from);
        vec![work, shows, Value::from(planned.tasks)]
    });
    let columns = ["work", "what it shows", "tasks"];
    context.output.rows(&columns, rows.collect())?;
    if !context.output.json {
        anstream::eprintln!("nothing was submitted to {}", context.settings.store);
    }
    Ok(())
}
