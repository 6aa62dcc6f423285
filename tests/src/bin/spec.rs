//! Runs the spec files on chosen stores. Reads the Lua sources as they are now.
//!
//! `cargo run -p selvedge-tests --bin spec --
//! [--lua-dir DIR] [--store host|valkey|redis]… [filter]`

use std::path::PathBuf;
use std::process::ExitCode;
use std::{env, io};

use selvedge_tests::command_line::{clone_root, exit_code};
use selvedge_tests::lua_header::Header;
use selvedge_tests::print_line;
use selvedge_tests::spec::coverage;
use selvedge_tests::spec::runner::Tally;
use selvedge_tests::spec::suite::Suite;
use selvedge_tests::spec::{STORES, run_on, start};

fn main() -> ExitCode {
    exit_code(Options::read().and_then(|options| run(&options)))
}

struct Options {
    lua: PathBuf,
    spec: PathBuf,
    stores: Vec<String>,
    filter: String,
    coverage: bool,
}

impl Options {
    fn read() -> Result<Self, String> {
        let root = clone_root();
        let mut options = Self {
            lua: root.join("lua"),
            spec: root.join("tests/spec"),
            stores: Vec::new(),
            filter: String::new(),
            coverage: false,
        };
        let mut words = env::args().skip(1);
        while let Some(word) = words.next() {
            let mut value = || words.next().ok_or(format!("{word} needs a value"));
            match word.as_str() {
                "--lua-dir" => options.lua = value()?.into(),
                "--spec-dir" => options.spec = value()?.into(),
                "--store" => options.stores.push(value()?),
                "--coverage" => options.coverage = true,
                _ if word.starts_with('-') => return Err(USAGE.to_owned()),
                _ => options.filter = word,
            }
        }
        if options.stores.is_empty() {
            options.stores = STORES.map(str::to_owned).to_vec();
        }
        Ok(options)
    }
}

fn run(options: &Options) -> Result<bool, String> {
    let library = selvedge_lua::library::assemble(&options.lua).map_err(in_lua)?;
    let suite = Suite::read(&options.spec)?;
    let mut good = true;
    for name in &options.stores {
        let mut store = start(name, &library)?;
        let Tally { cases, failed, failures } = run_on(&suite, &options.filter, &mut *store);
        for failure in &failures {
            print_line!("{failure}\n");
        }
        print_line!("{}: {cases} cases, {failed} failed", store.name());
        if cases == 0 {
            return Err(format!("no case has `{}` in its name or file", options.filter));
        }
        good &= failed == 0;
    }
    if options.coverage {
        let headers = Header::read_all(&options.lua).map_err(in_lua)?;
        let mut store = start(&options.stores[0], &library)?;
        for gap in coverage::gaps(&suite, &headers, &mut *store)? {
            print_line!("{gap}");
            good = false;
        }
    }
    Ok(good)
}

fn in_lua(error: io::Error) -> String {
    format!("the Lua sources: {error}")
}

const USAGE: &str = "spec [--lua-dir DIR] [--spec-dir DIR] [--store STORE]… [--coverage] [FILTER]
Runs the cases whose file or name contains FILTER on each store. --coverage lists functions, replies
and errors without a case.";
