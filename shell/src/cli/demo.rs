//! `selvedge demo`.

use std::io;

use selvedge::demo::{self, DemoError};
use selvedge::store::Store;
use serde_json::Value;

use super::context::Context;
use super::failure::{Exit, Failure};

/// Fails unless everything ended as it should.
pub(crate) async fn run(context: &Context) -> Result<(), Failure> {
    let store = Store::open(&context.settings.store, context.settings.options.clone()).await?;
    // Programs read the report; people may still follow what happens.
    let told = match context.output.json {
        true => demo::run(store, &mut io::stderr()).await,
        false => demo::run(store, &mut io::stdout()).await,
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
        Err(error @ DemoError::Deployment(_)) => Err(Failure::new(Exit::Error, error)),
    }
}
