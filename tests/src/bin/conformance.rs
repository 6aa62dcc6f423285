//! Compares the host with real servers on any number of random sequences.
//!
//! `cargo run -p selvedge-tests --bin conformance -- --sequences 20000 --seed 1`

use std::process::ExitCode;

use selvedge_tests::conformance::campaign::{Campaign, run};

fn main() -> ExitCode {
    let campaign = match Campaign::from_arguments(std::env::args().skip(1)) {
        Ok(campaign) => campaign,
        Err(advice) => {
            eprintln!("{advice}");
            return ExitCode::from(2);
        }
    };
    match run(&campaign) {
        Ok(report) => {
            println!("{report}");
            ExitCode::SUCCESS
        }
        Err(failure) => {
            eprintln!("{failure}");
            ExitCode::FAILURE
        }
    }
}
