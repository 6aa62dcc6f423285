//! `selvedge demo`.

use std::io;

use selvedge::demo::{self, DemoError};
use selvedge::store::Store;

use super::context::Context;
use super::failure::{Exit, Failure};

/// Fails unless everything ended as it should.
pub(crate) async fn run(context: &Context) -> Result<(), Failure> {
    let store = Store::open(&context.settings.store, context.settings.options.clone()).await?;
    match demo::run(store, &mut io::stdout()).await {
        Ok(report) if report.is_good() => Ok(()),
        Ok(_) => Err(Failure::new(Exit::Error, "not everything ended as expected")),
        Err(DemoError::Output(error)) => Err(error.into()),
        Err(DemoError::Client(error)) => Err(error.into()),
        Err(error @ DemoError::Deployment(_)) => Err(Failure::new(Exit::Error, error)),
    }
}
