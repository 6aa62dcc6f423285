//! `selvedge demo`.

use std::io;
use std::process::ExitCode;

use selvedge::demo::{self, DemoError};

/// Exit code 0 when everything ended as it should.
pub(crate) fn run() -> ExitCode {
    match demo::run(&mut io::stdout().lock()) {
        Ok(report) if report.is_good() => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(DemoError::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => {
            ExitCode::SUCCESS
        }
        Err(error) => {
            anstream::eprintln!("selvedge: {error}");
            ExitCode::FAILURE
        }
    }
}
