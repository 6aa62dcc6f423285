//! Compares the in-process host with Valkey and Redis on random sequences of commands and scripts.
//!
//! `cargo run -p selvedge-tests --bin conformance -- --sequences 20000 --seed 1`

use std::process::ExitCode;

use selvedge_tests::conformance::run::{ConformanceRun, run};
use selvedge_tests::{print_error, print_line};

fn main() -> ExitCode {
    let options = match ConformanceRun::from_arguments(std::env::args().skip(1)) {
        Ok(options) => options,
        Err(advice) => {
            print_error!("{advice}");
            return ExitCode::from(2);
        }
    };
    match run(&options) {
        Ok(report) => {
            print_line!("{report}");
            ExitCode::SUCCESS
        }
        Err(failure) => {
            print_error!("{failure}");
            ExitCode::FAILURE
        }
    }
}
