//! `selvedge completions SHELL`: a script that completes this command line.

use std::io;

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use super::Cli;

/// Which shell.
#[derive(Args)]
pub(crate) struct Options {
    /// The shell to complete in.
    shell: Shell,
}

pub(crate) fn run(options: &Options) {
    let mut script = Vec::new();
    clap_complete::generate(options.shell, &mut Cli::command(), "selvedge", &mut script);
    // Nobody reads any further: `selvedge completions bash | head`.
    drop(io::Write::write_all(&mut io::stdout().lock(), &script));
}
