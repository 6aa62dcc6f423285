//! Compares the library in the host with the library in Valkey on one stream of operations.
//!
//! `cargo run --release -p selvedge-tests --bin differential -- [--operations N] [--seed S]`

use std::env;
use std::path::Path;
use std::process::ExitCode;

use selvedge_tests::differential::campaign::Campaign;
use selvedge_tests::words::{COUNTS, SEEDS, within};
use selvedge_tests::{complain, say};

fn main() -> ExitCode {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).with_file_name("");
    match read(env::args().skip(1)).and_then(|campaign| {
        campaign.run(selvedge_lua::library::SOURCE, &root).map(|report| report.to_string())
    }) {
        Ok(report) => {
            say!("{}", report.trim_end());
            ExitCode::SUCCESS
        }
        Err(error) => {
            complain!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn read(mut words: impl Iterator<Item = String>) -> Result<Campaign, String> {
    let mut campaign = Campaign { operations: 50_000, seed: 1 };
    while let Some(name) = words.next() {
        let value = words.next().and_then(|value| value.parse::<u64>().ok());
        match (name.as_str(), value) {
            ("--operations", Some(count)) => campaign.operations = within(&name, count, COUNTS)?,
            ("--seed", Some(seed)) => campaign.seed = within(&name, seed, SEEDS)?,
            _ => return Err("differential [--operations N] [--seed S]".to_owned()),
        }
    }
    Ok(campaign)
}
