//! `selvedge completions SHELL`: a script that completes this command line.

use std::io::{self, Write as _};

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use super::Cli;
use super::context::Context;
use super::failure::Failure;

/// Which shell.
#[derive(Args)]
pub(crate) struct Options {
    /// The shell to complete in.
    shell: Shell,
}

pub(crate) fn run(context: &Context, options: &Options) -> Result<(), Failure> {
    if context.output.json {
        return Err(Failure::usage("a shell reads its completions as they are: leave --json out"));
    }
    let mut script = Vec::new();
    clap_complete::generate(options.shell, &mut Cli::command(), "selvedge", &mut script);
    Ok(io::stdout().lock().write_all(&script)?)
}
