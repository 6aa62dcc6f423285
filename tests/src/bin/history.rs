//! Runs many random histories on the library as it was built, or as its sources are right now.
//!
//! `cargo run --release -p selvedge-tests --bin history -- [--histories N] [--length N] [--seed S]
//! [--lua-dir DIR] [--survey]`

use std::env;
use std::path::PathBuf;
use std::process::ExitCode;

use selvedge_tests::history::campaign::Campaign;
use selvedge_tests::words::{COUNTS, SEEDS, STEPS, within};
use selvedge_tests::{complain, say};

fn main() -> ExitCode {
    match Options::read().and_then(|options| run(&options)) {
        Ok(report) => {
            say!("{report}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            complain!("{error}");
            ExitCode::FAILURE
        }
    }
}

struct Options {
    campaign: Campaign,
    lua: Option<PathBuf>,
    survey: bool,
}

impl Options {
    fn read() -> Result<Self, String> {
        let campaign = Campaign { seed: 0, histories: 1_000, length: 60 };
        let mut options = Self { campaign, lua: None, survey: false };
        let mut words = env::args().skip(1);
        while let Some(word) = words.next() {
            let mut value = || words.next().ok_or(format!("{word} needs a value"));
            let number = |text: String| text.parse().map_err(|_| format!("{text} is no number"));
            match word.as_str() {
                "--histories" => {
                    options.campaign.histories = within(&word, number(value()?)?, COUNTS)?;
                }
                "--length" => {
                    let length = within(&word, number(value()?)?, STEPS)?;
                    options.campaign.length = usize::try_from(length).unwrap_or(usize::MAX);
                }
                "--seed" => options.campaign.seed = within(&word, number(value()?)?, SEEDS)?,
                "--lua-dir" => options.lua = Some(value()?.into()),
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
        let downfalls = options.campaign.survey(&library);
        return if downfalls.is_empty() {
            Ok("nothing goes wrong".to_owned())
        } else {
            Err(downfalls.join("\n"))
        };
    }
    let tally = options.campaign.run(&library)?;
    let lines = tally.iter().map(|(function, [accepted, refused])| {
        format!("{function}: {accepted} accepted, {refused} refused\n")
    });
    Ok(format!(
        "{}{} histories, all in order",
        lines.collect::<String>(),
        options.campaign.histories
    ))
}

const USAGE: &str = "history [--histories N] [--length N] [--seed S] [--lua-dir DIR] [--survey]
With --survey it goes on after a failure and tells of each kind once.";
