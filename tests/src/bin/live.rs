//! Plays seeded schedules of faults against real engines, workers and servers.
//!
//! `cargo run --release -p selvedge-tests --bin live -- [--schedules N] [--seconds N] [--seed S]
//! [--shape standalone|pair|cluster]`; the engine is `selvedge`, built beside it.

use std::collections::BTreeMap;
use std::env;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use selvedge_tests::live::plan::{Fault, Plan, Shape};
use selvedge_tests::live::run::{Executables, run};
use selvedge_tests::live::worker::work;

#[tokio::main]
async fn main() -> ExitCode {
    let words: Vec<String> = env::args().skip(1).collect();
    let done = match words.as_slice() {
        [role, url, notes] if role == "worker" => {
            work(url, Path::new(notes)).await.map(|()| true).map_err(|error| error.to_string())
        }
        _ => match read(&words) {
            Ok(options) => play(&options).await,
            Err(error) => Err(error),
        },
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

struct Options {
    schedules: u64,
    seconds: u64,
    seed: u64,
    shape: Option<Shape>,
}

fn read(words: &[String]) -> Result<Options, String> {
    let mut options = Options { schedules: 10, seconds: 30, seed: 1, shape: None };
    for pair in words.chunks(2) {
        let [name, value] = pair else { return Err(USAGE.to_owned()) };
        let number = || value.parse::<u64>().map_err(|_| format!("{value} is no number\n{USAGE}"));
        match name.as_str() {
            "--schedules" => options.schedules = number()?,
            "--seconds" => options.seconds = number()?,
            "--seed" => options.seed = number()?,
            "--shape" => {
                options.shape = Some(match value.as_str() {
                    "standalone" => Shape::Standalone,
                    "pair" => Shape::Pair,
                    "cluster" => Shape::Cluster,
                    _ => return Err(USAGE.to_owned()),
                });
            }
            _ => return Err(USAGE.to_owned()),
        }
    }
    Ok(options)
}

async fn play(options: &Options) -> Result<bool, String> {
    let executables = Executables::beside_this()?;
    let mut faults = BTreeMap::<Fault, usize>::new();
    let (mut accepted, mut excused, mut failed) = (0, 0, 0_u64);
    for seed in options.seed..options.seed + options.schedules {
        let lasts = Duration::from_secs(options.seconds);
        let report = run(Plan::from_seed(seed, lasts, options.shape), &executables).await?;
        print!("{report}");
        for (fault, count) in &report.faults {
            *faults.entry(*fault).or_default() += count;
        }
        accepted += report.accepted;
        excused += report.verdict.excused.len();
        failed += u64::from(!report.verdict.faults.is_empty());
    }
    println!("{} schedules, {failed} failed, {accepted} executions accepted", options.schedules);
    println!("{excused} losses excused by a primary that died with what its replica had not heard");
    for (fault, _) in Fault::ALL {
        println!("{:6} {fault}", faults.get(fault).copied().unwrap_or(0));
    }
    println!("     0 clock of one process shifted: that needs libfaketime, which is not used");
    Ok(failed == 0)
}

const USAGE: &str =
    "live [--schedules N] [--seconds N] [--seed S] [--shape standalone|pair|cluster]
Plays N schedules of so many seconds each, from seed S on.";
