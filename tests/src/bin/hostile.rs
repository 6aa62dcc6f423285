//! Calls the functions of the library with hostile arguments, keys and keyspaces. Reads the Lua
//! sources as they are now.
//!
//! `cargo run --release -p selvedge-tests --bin hostile -- --calls N --seed S [--function NAME]
//! [--inject] [--migrating]`

use std::collections::BTreeMap;
use std::env;
use std::path::PathBuf;
use std::process::ExitCode;

use selvedge_tests::command_line::{COUNTS, clone_root, exit_code, within};
use selvedge_tests::hostile::HostileRunner;
use selvedge_tests::hostile::fail_inner_commands::{Injected, inject};
use selvedge_tests::print_line;

fn main() -> ExitCode {
    exit_code(Options::read().and_then(|options| run(&options)))
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
    migrating: bool,
}

impl Options {
    fn read() -> Result<Self, String> {
        let root = clone_root();
        let mut options = Self {
            lua: root.join("lua"),
            spec: root.join("tests/spec"),
            calls: 20_000,
            seed: 1,
            attack: None,
            function: None,
            shown: 2,
            inject: false,
            migrating: false,
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
                "--migrating" => options.migrating = true,
                _ => return Err(USAGE.to_owned()),
            }
        }
        Ok(options)
    }
}

fn run(options: &Options) -> Result<bool, String> {
    let library = selvedge_lua::library::assemble(&options.lua)
        .map_err(|error| format!("the Lua sources: {error}"))?;
    let mut runner = HostileRunner::prepare(&library, &options.lua, &options.spec)?;
    if let Some(name) = &options.function
        && !runner.contracts.contains_key(name)
    {
        return Err(format!("there is no function {name}"));
    }
    if options.migrating {
        runner.migrate();
    }
    if options.inject && options.migrating {
        return Ok(run_moves(&mut runner, options));
    }
    if options.inject {
        return Ok(run_injections(&mut runner, options));
    }
    let attacks = match options.attack {
        Some(attack) => attack..=attack,
        None => 0..=options.calls - 1,
    };
    let mut found = BTreeMap::<String, usize>::new();
    for attack in attacks.clone() {
        let function = options.function.as_deref();
        if let Some(finding) = runner.run(options.seed, attack, function) {
            let seen = found.entry(finding.call.function.clone()).or_default();
            *seen += 1;
            if *seen <= options.shown {
                print_line!("{finding}");
            }
        }
    }
    let functions = options.function.as_ref().map_or(runner.contracts.len(), |_| 1);
    let findings: usize = found.values().sum();
    let calls = attacks.count();
    print_line!("{calls} calls of {} functions, {findings} findings", functions.min(calls));
    for (function, count) in &found {
        print_line!("{count:6} {function}");
    }
    Ok(findings == 0)
}

fn run_injections(runner: &mut HostileRunner, options: &Options) -> bool {
    let mut injected = Injected::default();
    for function in runner.corpus.functions() {
        if options.function.as_ref().is_none_or(|only| only == function) {
            for call in runner.corpus.calls(function) {
                inject(call, &mut runner.host, &mut injected);
            }
        }
    }
    let Injected { failures, faults } = injected;
    faults.iter().for_each(|fault| print_line!("{fault}"));
    print_line!("{failures} injected failures, {} faults", faults.len());
    faults.is_empty()
}

/// Makes every good call at borders along the whole move of its slot.
fn run_moves(runner: &mut HostileRunner, options: &Options) -> bool {
    let wanted = |name: &String| options.function.as_ref().is_none_or(|only| only == name);
    let functions: Vec<_> =
        runner.corpus.functions().iter().filter(|name| wanted(name)).cloned().collect();
    let (mut calls, mut faults) = (0, 0);
    for function in functions {
        let mut faults_of_function = 0;
        for call in runner.corpus.calls(&function).to_vec() {
            let (borders, found) = runner.judge_move(&call);
            calls += borders;
            for fault in found {
                faults_of_function += 1;
                if faults_of_function <= options.shown {
                    print_line!("{function}: {fault}\n{call}");
                }
            }
        }
        faults += faults_of_function;
    }
    print_line!("{calls} calls while a slot moves, {faults} faults");
    faults == 0
}

const USAGE: &str =
    "hostile [--lua-dir DIR] [--spec-dir DIR] [--calls N] [--seed S] [--attack N] [--function NAME]
        [--shown N] [--inject] [--migrating]
Makes N hostile calls of all functions in turn, or of one function, and prints the first findings of
each function. --attack N makes only call N of the seed. --inject makes good calls instead, and lets
each of their inner commands fail. --migrating makes the calls while their slot moves key by key
from one node to another, with some keys here and the rest there; with --inject, good calls at
borders along the whole move.";
