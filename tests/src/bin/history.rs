//! Runs random histories of calls on the in-process host, and checks every oracle after each call.
//!
//! `cargo run --release -p selvedge-tests --bin history -- [--histories N] [--length N] [--seed S]
//! [--lua-dir DIR] [--survey] [--migrating]`

use std::env;
use std::path::PathBuf;
use std::process::ExitCode;

use selvedge_tests::command_line::{COUNTS, SEEDS, STEPS, jobs, within};
use selvedge_tests::history::run::HistoryRun;
use selvedge_tests::{print_error, print_line};

fn main() -> ExitCode {
    match Options::read().and_then(|options| run(&options)) {
        Ok(report) => {
            print_line!("{report}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            print_error!("{error}");
            ExitCode::FAILURE
        }
    }
}

struct Options {
    options: HistoryRun,
    lua: Option<PathBuf>,
    survey: bool,
}

impl Options {
    fn read() -> Result<Self, String> {
        let options =
            HistoryRun { seed: 0, histories: 1_000, length: 60, jobs: jobs(), migrating: false };
        let mut options = Self { options, lua: None, survey: false };
        let mut words = env::args().skip(1);
        while let Some(word) = words.next() {
            let mut value = || words.next().ok_or(format!("{word} needs a value"));
            let number = |text: String| text.parse().map_err(|_| format!("{text} is no number"));
            match word.as_str() {
                "--histories" => {
                    options.options.histories = within(&word, number(value()?)?, COUNTS)?;
                }
                "--length" => {
                    let length = within(&word, number(value()?)?, STEPS)?;
                    options.options.length = usize::try_from(length).unwrap_or(usize::MAX);
                }
                "--seed" => options.options.seed = within(&word, number(value()?)?, SEEDS)?,
                "--lua-dir" => options.lua = Some(value()?.into()),
                "--migrating" => options.options.migrating = true,
                "--survey" => options.survey = true,
                _ => return Err(USAGE.to_owned()),
            }
        }
        Ok(options)
    }
}

fn run(options: &Options) -> Result<String, String> {
    let library = match &options.lua {
        Some(folder) => selvedge_lua::library::assemble(folder)
            .map_err(|error| format!("the Lua sources: {error}"))?,
        None => selvedge_lua::library::SOURCE.to_owned(),
    };
    if options.survey {
        let failures = options.options.survey(&library);
        return if failures.is_empty() {
            Ok("no history fails".to_owned())
        } else {
            Err(failures.join("\n"))
        };
    }
    let tally = options.options.run(&library)?;
    let lines = tally.iter().map(|(function, [accepted, refused])| {
        format!("{function}: {accepted} accepted, {refused} refused\n")
    });
    Ok(format!("{}{} histories, no failure", lines.collect::<String>(), options.options.histories))
}

const USAGE: &str = "history [--histories N] [--length N] [--seed S] [--lua-dir DIR] [--survey]
        [--migrating]
--lua-dir reads the Lua sources of a folder instead of the compiled library. --survey continues
after a failure, and prints one failure of each kind. --migrating lets the slot of a call move key
by key to another node, now and then, while the call is made.";
