//! Plays seeded schedules of faults against real engines, workers and servers.
//!
//! `cargo run --release -p selvedge-tests --bin live -- [--schedules N] [--seconds N] [--seed S]
//! [--shape standalone|pair|cluster] [--lags yes|no] [--at-once N]`; engines and workers are this program again.

use std::collections::BTreeMap;
use std::env;
use std::path::Path;
use std::process::{self, ExitCode};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use selvedge_tests::live::plan::{Fault, Plan, Shape, Wishes};
use selvedge_tests::live::process::ClockShift;
use selvedge_tests::live::roles::{Deserted, engine, worker};
use selvedge_tests::live::run::{Report, run};
use selvedge_tests::server::Server;
use selvedge_tests::words::{SEEDS, within};
use selvedge_tests::{complain, say};
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

fn main() -> ExitCode {
    let words: Vec<String> = env::args().skip(1).collect();
    let done = match words.as_slice() {
        [role, _] if role == "engine" => perform(engine()),
        [role, notes] if role == "worker" => perform(worker(Path::new(notes))),
        _ => read(&words).and_then(|options| play(&options)),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            complain!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// Plays a role until this process is killed.
fn perform(role: impl Future<Output = Result<(), Deserted>>) -> Result<bool, String> {
    runtime()?.block_on(role).map(|()| true).map_err(|error| error.to_string())
}

struct Options {
    schedules: u64,
    seconds: u64,
    seed: u64,
    shape: Option<Shape>,
    lags: bool,
    at_once: u64,
}

fn read(words: &[String]) -> Result<Options, String> {
    let (schedules, seconds, seed, at_once) = (10, 30, 1, 1);
    let mut options = Options { schedules, seconds, seed, shape: None, lags: true, at_once };
    for pair in words.chunks(2) {
        let [name, value] = pair else { return Err(USAGE.to_owned()) };
        let number = || value.parse::<u64>().map_err(|_| format!("{value} is no number\n{USAGE}"));
        match name.as_str() {
            "--schedules" => options.schedules = within(name, number()?, 1..=100_000)?,
            "--seconds" => options.seconds = within(name, number()?, 4..=3_600)?,
            "--seed" => options.seed = within(name, number()?, SEEDS)?,
            "--at-once" => options.at_once = within(name, number()?, 1..=64)?,
            "--shape" => {
                options.shape = Some(match value.as_str() {
                    "standalone" => Shape::Standalone,
                    "pair" => Shape::Pair,
                    "cluster" => Shape::Cluster,
                    _ => return Err(USAGE.to_owned()),
                });
            }
            "--lags" => {
                options.lags = match value.as_str() {
                    "yes" => true,
                    "no" => false,
                    _ => return Err(USAGE.to_owned()),
                };
            }
            _ => return Err(format!("there is no {name}\n{USAGE}")),
        }
    }
    Ok(options)
}

fn play(options: &Options) -> Result<bool, String> {
    let live = env::current_exe().map_err(|error| error.to_string())?;
    let stop = cancelled_by_signals()?;
    // Where none can be started, that is said once and not by each schedule.
    Server::valkey().map(drop).map_err(|error| error.to_string())?;
    let mut faults = BTreeMap::<Fault, usize>::new();
    let (mut played, mut failed) = (0_u64, 0_u64);
    let (mut accepted, mut ended, mut runs, mut excused) = (0, 0, 0, 0);
    let next = AtomicU64::new(options.seed);
    let (report_to, reports) = mpsc::channel();
    thread::scope(|scope| {
        for _ in 0..options.at_once {
            let (next, report_to) = (&next, report_to.clone());
            let (live, stop) = (&live, &stop);
            scope.spawn(move || play_in_a_row(options, live, next, stop, &report_to));
        }
        drop(report_to);
        for report in reports {
            played += 1;
            let report = match report {
                Ok(report) => report,
                Err(error) => {
                    say!("{error}");
                    failed += 1;
                    continue;
                }
            };
            say!("{}", report.to_string().trim_end());
            for (fault, count) in &report.faults {
                *faults.entry(*fault).or_default() += count;
            }
            accepted += report.accepted;
            ended += report.ended;
            runs += report.runs;
            excused += report.verdict.excused.len();
            failed += u64::from(!report.verdict.faults.is_empty());
        }
    });
    say!("{played} schedules of {} s, {failed} failed", options.seconds);
    say!("{accepted} executions accepted, {ended} ends told, {runs} runs of handlers");
    say!("{excused} losses excused by a primary that died with what its replica had not heard");
    for (fault, _) in Fault::ALL {
        say!("{:6} {fault}", faults.get(fault).copied().unwrap_or(0));
    }
    if ClockShift::by(0).is_none() {
        say!(
            "no clock can be shifted here: that needs libfaketime (Debian: apt-get install libfaketime)"
        );
    }
    if stop.is_cancelled() {
        return Err("interrupted".to_owned());
    }
    if accepted == 0 || faults.values().sum::<usize>() == 0 {
        return Err("nothing was accepted, or nothing was hurt: that shows nothing".to_owned());
    }
    Ok(failed == 0)
}

/// Plays schedules, one after the other, while there are any. Striking blocks, so that each row has
/// threads of its own.
fn play_in_a_row(
    options: &Options,
    live: &Path,
    next: &AtomicU64,
    stop: &CancellationToken,
    reports: &mpsc::Sender<Result<Report, String>>,
) {
    let Options { seconds, shape, lags, .. } = *options;
    let wishes = Wishes { lasts: Duration::from_secs(seconds), shape, lags };
    while !stop.is_cancelled() {
        let seed = next.fetch_add(1, Ordering::SeqCst);
        if seed >= options.seed + options.schedules {
            return;
        }
        let plan = Plan::from_seed(seed, &wishes);
        let report = runtime().and_then(|runtime| runtime.block_on(run(plan, live, stop)));
        // Whoever asked for reports is gone only if one before could not be made.
        if report.transpose().is_some_and(|report| reports.send(report).is_err()) {
            return;
        }
    }
}

/// Cancelled by Ctrl-C, or by whoever ends processes in good order: then everything is put away. Who
/// asks for it twice does not want to wait for that.
fn cancelled_by_signals() -> Result<CancellationToken, String> {
    let runtime = runtime()?;
    let listen = |kind| {
        let _context = runtime.enter();
        signal(kind).map_err(|error| error.to_string())
    };
    let (mut interrupt, mut end, mut hang_up) = (
        listen(SignalKind::interrupt())?,
        listen(SignalKind::terminate())?,
        listen(SignalKind::hangup())?,
    );
    let stop = CancellationToken::new();
    let told = stop.clone();
    thread::spawn(move || {
        let mut asked = async || {
            tokio::select! { _ = interrupt.recv() => {}, _ = end.recv() => {}, _ = hang_up.recv() => {} }
        };
        runtime.block_on(async {
            asked().await;
            complain!("interrupted: putting everything away; once more to leave it");
            told.cancel();
            asked().await;
        });
        process::exit(1);
    });
    Ok(stop)
}

fn runtime() -> Result<tokio::runtime::Runtime, String> {
    tokio::runtime::Runtime::new().map_err(|error| error.to_string())
}

const USAGE: &str =
    "live [--schedules N] [--seconds N] [--seed S] [--shape standalone|pair|cluster] [--lags yes|no]
     [--at-once N]
Plays N schedules of so many seconds each, from seed S on. A failover to a replica that lags loses what
callers were told; each such loss is proven and excused. With --lags no, no replica lags, and nothing is
excused.";
