//! `selvedge completions SHELL`: a completion script for a shell.

use std::io::{self, Write as _};

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use super::Cli;
use super::context::Context;
use super::failure::Failure;

/// The shell.
#[derive(Args)]
pub(crate) struct Options {
    /// The shell to print the script for.
    shell: Shell,
}

pub(crate) fn run(context: &Context, options: &Options) -> Result<(), Failure> {
    if context.output.json {
        return Err(Failure::usage("--json does not apply"));
    }
    let mut script = Vec::new();
    clap_complete::generate(options.shell, &mut Cli::command(), "selvedge", &mut script);
    Ok(io::stdout().lock().write_all(&script)?)
}
