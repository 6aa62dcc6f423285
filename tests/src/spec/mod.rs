//! The executable wire contract: spec files, and the code that runs them.
//!
//! `tests/spec/README.md` describes the files. The [`parser`] turns the [`word`]s of a file into a
//! [`syntax`] tree; the [`suite`] is all files together; the [`runner`] runs each case on a
//! [`store`] and checks it with the [`matcher`] and [`expect`]; [`report`] prints failures, and
//! [`coverage`] lists what has no case.

pub mod coverage;
pub mod expect;
pub mod keyspace;
mod line_words;
pub mod matcher;
pub mod parser;
pub mod report;
pub mod runner;
pub mod scope;
pub mod store;
pub mod suite;
pub mod syntax;
pub mod word;

use crate::server::Kind;
use runner::Tally;
use store::{HostStore, ServerStore, SpecStore};
use suite::Suite;

/// The stores on which every case must hold.
pub const STORES: [&str; 3] = ["host", "valkey", "redis"];

/// Starts a store by its name, with a library in it.
pub fn start(store: &str, library: &str) -> Result<Box<dyn SpecStore>, String> {
    let server = |kind| ServerStore::start(kind).map_err(|error| error.to_string());
    let mut store: Box<dyn SpecStore> = match store {
        "host" => Box::new(HostStore::start()),
        "valkey" => Box::new(server(Kind::Valkey)?),
        "redis" => Box::new(server(Kind::Redis)?),
        _ => return Err(format!("no store {store}; there are {}", STORES.join(", "))),
    };
    store::load(&mut *store, library)?;
    Ok(store)
}

/// Runs every case whose file or name contains the filter.
pub fn run_on(suite: &Suite, filter: &str, store: &mut dyn SpecStore) -> Tally {
    let mut tally = Tally::default();
    for file in &suite.functions {
        runner::run_file(suite, file, filter, store, &mut tally);
    }
    tally
}
