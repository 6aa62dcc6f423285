//! Runs the spec files on chosen arms, with the library as its sources are right now.
//!
//! `cargo run -p selvedge-tests --bin spec -- [--lua-dir DIR] [--arm host|valkey|redis]… [filter]`

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::{env, io};

use selvedge_tests::header::Header;
use selvedge_tests::spec::coverage;
use selvedge_tests::spec::runner::Tally;
use selvedge_tests::spec::suite::Suite;
use selvedge_tests::spec::{ARMS, run_on, start};
use selvedge_tests::{complain, say};

fn main() -> ExitCode {
    match Options::read().and_then(|options| run(&options)) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            complain!("{error}");
            ExitCode::FAILURE
        }
    }
}

struct Options {
    lua: PathBuf,
    spec: PathBuf,
    arms: Vec<String>,
    filter: String,
    coverage: bool,
}

impl Options {
    fn read() -> Result<Self, String> {
        let built_from = Path::new(env!("CARGO_MANIFEST_DIR")).with_file_name("");
        // The clone it is run in, which need not be the one it was built in.
        let root = env::current_dir().ok().filter(|here| here.join("tests/spec").is_dir());
        let root = root.unwrap_or(built_from);
        let mut options = Self {
            lua: root.join("lua"),
            spec: root.join("tests/spec"),
            arms: Vec::new(),
            filter: String::new(),
            coverage: false,
        };
        let mut words = env::args().skip(1);
        while let Some(word) = words.next() {
            let mut value = || words.next().ok_or(format!("{word} needs a value"));
            match word.as_str() {
                "--lua-dir" => options.lua = value()?.into(),
                "--spec-dir" => options.spec = value()?.into(),
                "--arm" => options.arms.push(value()?),
                "--coverage" => options.coverage = true,
                _ if word.starts_with('-') => return Err(USAGE.to_owned()),
                _ => options.filter = word,
            }
        }
        if options.arms.is_empty() {
            options.arms = ARMS.map(str::to_owned).to_vec();
        }
        Ok(options)
    }
}

fn run(options: &Options) -> Result<bool, String> {
    let library = selvedge_lua::library::assemble(&options.lua).map_err(in_lua)?;
    let suite = Suite::read(&options.spec)?;
    let mut good = true;
    for name in &options.arms {
        let mut arm = start(name, &library)?;
        let Tally { cases, failed, failures } = run_on(&suite, &options.filter, &mut *arm);
        for failure in &failures {
            say!("{failure}\n");
        }
        say!("{}: {cases} cases, {failed} failed", arm.name());
        if cases == 0 {
            return Err(format!("no case has `{}` in its name or file", options.filter));
        }
        good &= failed == 0;
    }
    if options.coverage {
        let headers = Header::read_all(&options.lua).map_err(in_lua)?;
        let mut arm = start(&options.arms[0], &library)?;
        for gap in coverage::gaps(&suite, &headers, &mut *arm)? {
            say!("{gap}");
            good = false;
        }
    }
    Ok(good)
}

fn in_lua(error: io::Error) -> String {
    format!("the Lua sources: {error}")
}

const USAGE: &str = "spec [--lua-dir DIR] [--spec-dir DIR] [--arm ARM]… [--coverage] [FILTER]
Runs the cases whose file or name contains FILTER on each arm, and with --coverage lists what the
spec files do not speak of.";
