//! Attacks the function library with hostile calls, with its sources as they are right now.
//!
//! `cargo run --release -p selvedge-tests --bin hostile -- --calls N --seed S [--function NAME]`

use std::collections::BTreeMap;
use std::env;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use selvedge_tests::hostile::Campaign;
use selvedge_tests::hostile::inject::{Injected, inject};
use selvedge_tests::words::{COUNTS, within};
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
    calls: u64,
    seed: u64,
    attack: Option<u64>,
    function: Option<String>,
    shown: usize,
    inject: bool,
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
            calls: 20_000,
            seed: 1,
            attack: None,
            function: None,
            shown: 2,
            inject: false,
        };
        let mut words = env::args().skip(1);
        while let Some(word) = words.next() {
            let mut value = || words.next().ok_or(format!("{word} needs a value"));
            let number =
                |text: String| text.parse::<u64>().map_err(|error| format!("{text}: {error}"));
            match word.as_str() {
                "--lua-dir" => options.lua = value()?.into(),
                "--spec-dir" => options.spec = value()?.into(),
                "--calls" => options.calls = within(&word, number(value()?)?, COUNTS)?,
                "--seed" => options.seed = number(value()?)?,
                "--attack" => options.attack = Some(number(value()?)?),
                "--function" => options.function = Some(value()?),
                "--shown" => {
                    options.shown = usize::try_from(number(value()?)?).unwrap_or(usize::MAX)
                }
                "--inject" => options.inject = true,
                _ => return Err(USAGE.to_owned()),
            }
        }
        Ok(options)
    }
}

fn run(options: &Options) -> Result<bool, String> {
    let library = selvedge_lua::library::assemble(&options.lua)
        .map_err(|error| format!("the Lua sources: {error}"))?;
    let mut campaign = Campaign::prepare(&library, &options.lua, &options.spec)?;
    if let Some(name) = &options.function
        && !campaign.contracts.contains_key(name)
    {
        return Err(format!("there is no function {name}"));
    }
    if options.inject {
        return Ok(run_injections(&mut campaign, options));
    }
    let attacks = match options.attack {
        Some(attack) => attack..=attack,
        None => 0..=options.calls - 1,
    };
    let mut found = BTreeMap::<String, usize>::new();
    for attack in attacks.clone() {
        let function = options.function.as_deref();
        if let Some(finding) = campaign.run(options.seed, attack, function) {
            let seen = found.entry(finding.call.function.clone()).or_default();
            *seen += 1;
            if *seen <= options.shown {
                say!("{finding}");
            }
        }
    }
    let functions = options.function.as_ref().map_or(campaign.contracts.len(), |_| 1);
    let findings: usize = found.values().sum();
    let calls = attacks.count();
    say!("{calls} calls of {} functions, {findings} findings", functions.min(calls));
    for (function, count) in &found {
        say!("{count:6} {function}");
    }
    Ok(findings == 0)
}

fn run_injections(campaign: &mut Campaign, options: &Options) -> bool {
    let mut injected = Injected::default();
    for function in campaign.corpus.functions() {
        if options.function.as_ref().is_none_or(|only| only == function) {
            for call in campaign.corpus.calls(function) {
                inject(call, &mut campaign.host, &mut injected);
            }
        }
    }
    let Injected { failures, faults } = injected;
    faults.iter().for_each(|fault| say!("{fault}"));
    say!("{failures} injected failures, {} faults", faults.len());
    faults.is_empty()
}

const USAGE: &str = "hostile [--lua-dir DIR] [--spec-dir DIR] [--calls N] [--seed S] [--attack N] [--function NAME]
        [--shown N] [--inject]
Makes N hostile calls, of all functions in turn or of one; shows the first findings of each function.
With --attack only that one; with --inject, lets each inner command of good calls fail instead.";
