//! `selvedge library`: the function library as text.

use std::io::{self, Write};

use clap::Args;
use selvedge_lua::library;

/// How to print it.
#[derive(Args)]
pub(crate) struct Options {
    /// Leave out the `#!lua name=…` line, for tools that write their own.
    #[arg(long)]
    no_header: bool,
}

pub(crate) fn run(options: &Options) -> io::Result<()> {
    let mut text = library::SOURCE;
    if options.no_header
        && let Some((_, body)) = text.split_once('\n')
    {
        text = body;
    }
    io::stdout().lock().write_all(text.as_bytes())
}
