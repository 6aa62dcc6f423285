//! Damages one key or member of a busy deployment per seed, repairs it, lets an engine and a worker
//! run, and checks that everything has ended or is named.
//!
//! `cargo run --release -p selvedge-tests --bin damage -- [--seeds N] [--seed S]
//! [--on memory|valkey] [--at-once N]`

use std::env;
use std::process::ExitCode;

use selvedge_tests::command_line::{COUNTS, SEEDS, exit_code, within};
use selvedge_tests::damage::{Place, run};
use selvedge_tests::print_line;

fn main() -> ExitCode {
    let words: Vec<String> = env::args().skip(1).collect();
    exit_code(read(&words).and_then(|options| campaign(&options)))
}

struct Options {
    seeds: u64,
    seed: u64,
    place: Place,
    at_once: usize,
}

fn read(words: &[String]) -> Result<Options, String> {
    let mut options = Options { seeds: 100, seed: 0, place: Place::Memory, at_once: 4 };
    for pair in words.chunks(2) {
        let [name, value] = pair else { return Err(USAGE.to_owned()) };
        let number = || value.parse::<u64>().map_err(|_| format!("{value} is no number\n{USAGE}"));
        match (name.as_str(), value.as_str()) {
            ("--seeds", _) => options.seeds = within(name, number()?, COUNTS)?,
            ("--seed", _) => options.seed = within(name, number()?, SEEDS)?,
            ("--at-once", _) => {
                let at_once = within(name, number()?, 1..=64)?;
                options.at_once = usize::try_from(at_once).unwrap_or(1);
            }
            ("--on", "memory") => options.place = Place::Memory,
            ("--on", "valkey") => options.place = Place::Valkey,
            _ => return Err(USAGE.to_owned()),
        }
    }
    Ok(options)
}

fn campaign(options: &Options) -> Result<bool, String> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.map_err(|error| error.to_string())?;
    let seeds = (options.seed..options.seed + options.seeds).collect();
    let report = runtime.block_on(run(options.place, seeds, options.at_once))?;
    print_line!("{report}");
    Ok(report.failures.is_empty())
}

const USAGE: &str = "damage [--seeds N] [--seed S] [--on memory|valkey] [--at-once N]";
