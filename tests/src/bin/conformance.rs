//! Compares the host with real servers on any number of random sequences.
//!
//! `cargo run -p selvedge-tests --bin conformance -- --sequences 20000 --seed 1`

use std::process::ExitCode;

use selvedge_tests::conformance::campaign::{Campaign, run};
use selvedge_tests::{complain, say};

fn main() -> ExitCode {
    let campaign = match Campaign::from_arguments(std::env::args().skip(1)) {
        Ok(campaign) => campaign,
        Err(advice) => {
            complain!("{advice}");
            return ExitCode::from(2);
        }
    };
    match run(&campaign) {
        Ok(report) => {
            say!("{report}");
            ExitCode::SUCCESS
        }
        Err(failure) => {
            complain!("{failure}");
            ExitCode::FAILURE
        }
    }
}
