//! Prints what every function of the library costs, against the last release.
//!
//! `cargo run -p selvedge-tests --bin costs -- [--lua-dir DIR] [--against FILE] [--write FILE]`

use std::path::PathBuf;
use std::process::ExitCode;
use std::{env, fs};

use selvedge_tests::command_line::{clone_root, exit_code};
use selvedge_tests::ledger::{compare, measure, parse, render};
use selvedge_tests::print_line;
use selvedge_tests::spec::suite::Suite;

fn main() -> ExitCode {
    exit_code(run().map(|()| true))
}

fn run() -> Result<(), String> {
    let root = clone_root();
    let mut lua = root.join("lua");
    let mut against = root.join("tests/costs/release.txt");
    let mut written: Option<PathBuf> = None;
    let mut words = env::args().skip(1);
    while let Some(word) = words.next() {
        let value = words.next().ok_or(USAGE)?.into();
        match word.as_str() {
            "--lua-dir" => lua = value,
            "--against" => against = value,
            "--write" => written = Some(value),
            _ => return Err(USAGE.to_owned()),
        }
    }
    let library = selvedge_lua::library::assemble(&lua)
        .map_err(|error| format!("the Lua sources: {error}"))?;
    let lines = measure(&library, &Suite::read(&root.join("tests/spec"))?)?;
    match written {
        Some(path) => fs::write(&path, render(&lines))
            .map_err(|error| format!("{}: {error}", path.display()))?,
        None => {
            let other = fs::read_to_string(&against)
                .map_err(|error| format!("{}: {error}", against.display()))?;
            print_line!("{}", compare(&lines, &parse(&other)));
        }
    }
    Ok(())
}

const USAGE: &str = "costs [--lua-dir DIR] [--against FILE] [--write FILE]
Prints the inner commands and the instructions of Lua that every function takes on its usual path,
beside those of the last release (tests/costs/release.txt) or of another ledger. --write writes the
ledger to a file instead.";
