//! The executable wire contract: spec files, and what runs them.
//!
//! `tests/spec/README.md` describes the files. Text becomes [`word`]s, words become a [`syntax`]
//! tree through the [`parser`]; the [`suite`] is all files together; the [`runner`] carries out
//! each case on an [`arm`] and judges it with the [`matcher`] and [`expect`]; [`report`] says what
//! went wrong, and [`coverage`] what no file speaks of.

pub mod arm;
pub mod coverage;
pub mod expect;
pub mod keyspace;
pub mod matcher;
pub mod parser;
pub mod report;
pub mod runner;
pub mod scope;
pub mod suite;
pub mod syntax;
pub mod word;

use crate::server::Kind;
use arm::{Arm, HostArm, ServerArm};
use runner::Tally;
use suite::Suite;

/// The arms on which every case must hold.
pub const ARMS: [&str; 3] = ["host", "valkey", "redis"];

/// Starts an arm by its name, with a library in it.
pub fn start(arm: &str, library: &str) -> Result<Box<dyn Arm>, String> {
    let server = |kind| ServerArm::start(kind).map_err(|error| error.to_string());
    let mut arm: Box<dyn Arm> = match arm {
        "host" => Box::new(HostArm::start()),
        "valkey" => Box::new(server(Kind::Valkey)?),
        "redis" => Box::new(server(Kind::Redis)?),
        _ => return Err(format!("no arm {arm}; there are {}", ARMS.join(", "))),
    };
    arm::load(&mut *arm, library)?;
    Ok(arm)
}

/// Runs every case whose file or name contains the filter.
pub fn run_on(suite: &Suite, filter: &str, arm: &mut dyn Arm) -> Tally {
    let mut tally = Tally::default();
    for file in &suite.functions {
        runner::run_file(suite, file, filter, arm, &mut tally);
    }
    tally
}
