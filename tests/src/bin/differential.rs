//! Compares the library in the in-process host with the library in Valkey, on the same sequences of
//! calls.
//!
//! `cargo run --release -p selvedge-tests --bin differential -- [--operations N] [--seed S]`

use std::env;
use std::path::Path;
use std::process::ExitCode;

use selvedge_tests::command_line::{COUNTS, SEEDS, within};
use selvedge_tests::differential::run::DifferentialRun;
use selvedge_tests::{print_error, print_line};

fn main() -> ExitCode {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).with_file_name("");
    match read(env::args().skip(1)).and_then(|options| {
        options.run(selvedge_lua::library::SOURCE, &root).map(|report| report.to_string())
    }) {
        Ok(report) => {
            print_line!("{}", report.trim_end());
            ExitCode::SUCCESS
        }
        Err(error) => {
            print_error!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn read(mut words: impl Iterator<Item = String>) -> Result<DifferentialRun, String> {
    let mut options = DifferentialRun { operations: 50_000, seed: 1 };
    while let Some(name) = words.next() {
        let value = words.next().and_then(|value| value.parse::<u64>().ok());
        match (name.as_str(), value) {
            ("--operations", Some(count)) => options.operations = within(&name, count, COUNTS)?,
            ("--seed", Some(seed)) => options.seed = within(&name, seed, SEEDS)?,
            _ => return Err("differential [--operations N] [--seed S]".to_owned()),
        }
    }
    Ok(options)
}
