//! `selvedge library`: the function library as text.

use std::io::{self, Write};

use clap::Args;
use selvedge_lua::library;
use serde_json::json;

use super::context::Context;

/// How to print the library.
#[derive(Args)]
pub(crate) struct Options {
    /// Omit the line `#!lua name=…`, for tools that write their own.
    #[arg(long)]
    no_header: bool,
}

pub(crate) fn run(context: &Context, options: &Options) -> io::Result<()> {
    let mut text = library::SOURCE;
    if options.no_header
        && let Some((_, body)) = text.split_once('\n')
    {
        text = body;
    }
    if context.output.json {
        let object = json!({
            "revision": library::REVISION,
            "digest": library::DIGEST,
            "source": text,
        });
        return context.output.message("", object);
    }
    io::stdout().lock().write_all(text.as_bytes())
}
