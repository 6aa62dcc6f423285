//! Runs seeded schedules of faults against real engines, workers and servers.
//!
//! `cargo run --release -p selvedge-tests --bin live -- [--schedules N] [--seconds N] [--seed S]
//! [--shape standalone|pair|cluster] [--lags yes|no] [--at-once N]`; it starts
//! itself as engine and as worker.

use std::collections::BTreeMap;
use std::env;
use std::path::Path;
use std::process::{self, ExitCode};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use selvedge_tests::command_line::{SEEDS, exit_code, within};
use selvedge_tests::live::fault_schedule::{Fault, FaultSchedule, ScheduleOptions, Shape};
use selvedge_tests::live::process_main::{ProcessError, engine, worker};
use selvedge_tests::live::processes::ClockShift;
use selvedge_tests::live::report::Report;
use selvedge_tests::live::schedule_run::run;
use selvedge_tests::server::Server;
use selvedge_tests::{print_error, print_line};
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

fn main() -> ExitCode {
    let words: Vec<String> = env::args().skip(1).collect();
    let done = match words.as_slice() {
        [role, _] if role == "engine" => run_role(engine()),
        [role, notes] if role == "worker" => run_role(worker(Path::new(notes))),
        _ => read(&words).and_then(|options| run_schedules(&options)),
    };
    exit_code(done)
}

/// Runs as an engine or a worker until this process is killed.
fn run_role(role: impl Future<Output = Result<(), ProcessError>>) -> Result<bool, String> {
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

fn run_schedules(options: &Options) -> Result<bool, String> {
    let live = env::current_exe().map_err(|error| error.to_string())?;
    let stop = cancelled_by_signals()?;
    // If no server can be started, report it once and not for each schedule.
    Server::valkey().map(drop).map_err(|error| error.to_string())?;
    let mut faults = BTreeMap::<Fault, usize>::new();
    let (mut ran, mut failed) = (0_u64, 0_u64);
    let (mut accepted, mut ended, mut runs, mut excused) = (0, 0, 0, 0);
    let next = AtomicU64::new(options.seed);
    let (report_to, reports) = mpsc::channel();
    thread::scope(|scope| {
        for _ in 0..options.at_once {
            let (next, report_to) = (&next, report_to.clone());
            let (live, stop) = (&live, &stop);
            scope.spawn(move || run_one_after_another(options, live, next, stop, &report_to));
        }
        drop(report_to);
        for report in reports {
            ran += 1;
            let report = match report {
                Ok(report) => report,
                Err(error) => {
                    print_line!("{error}");
                    failed += 1;
                    continue;
                }
            };
            print_line!("{}", report.to_string().trim_end());
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
    print_line!("{ran} schedules of {} s, {failed} failed", options.seconds);
    print_line!(
        "{accepted} executions accepted, {ended} ends reported to callers, {runs} handler runs"
    );
    print_line!(
        "{excused} losses excused: a primary died with writes that its replica had not received"
    );
    for (fault, _) in Fault::ALL {
        print_line!("{:6} {fault}", faults.get(fault).copied().unwrap_or(0));
    }
    if ClockShift::by(0).is_none() {
        print_line!(
            "no clock was shifted: that needs libfaketime (Debian: apt-get install libfaketime)"
        );
    }
    if stop.is_cancelled() {
        return Err("interrupted".to_owned());
    }
    if accepted == 0 || faults.values().sum::<usize>() == 0 {
        return Err(
            "nothing was accepted, or no fault was injected: the run checked nothing".to_owned()
        );
    }
    Ok(failed == 0)
}

/// Runs schedules, one after the other, while there are any. Injecting a fault blocks, so this
/// needs a thread of its own.
fn run_one_after_another(
    options: &Options,
    live: &Path,
    next: &AtomicU64,
    stop: &CancellationToken,
    reports: &mpsc::Sender<Result<Report, String>>,
) {
    let Options { seconds, shape, lags, .. } = *options;
    let like = ScheduleOptions { lasts: Duration::from_secs(seconds), shape, lags };
    while !stop.is_cancelled() {
        let seed = next.fetch_add(1, Ordering::SeqCst);
        if seed >= options.seed + options.schedules {
            return;
        }
        let schedule = FaultSchedule::from_seed(seed, &like);
        let report = runtime().and_then(|runtime| runtime.block_on(run(schedule, live, stop)));
        // The receiver is gone only after an error.
        if report.transpose().is_some_and(|report| reports.send(report).is_err()) {
            return;
        }
    }
}

/// Cancelled by SIGINT, SIGTERM or SIGHUP: then all processes and files are removed. A second
/// signal exits at once.
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
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = end.recv() => {}
                _ = hang_up.recv() => {}
            }
        };
        runtime.block_on(async {
            asked().await;
            print_error!("interrupted: stopping all processes; interrupt again to exit at once");
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
Runs N schedules of so many seconds each, from seed S on, --at-once of them at a time. A failover
to a replica that lags loses writes that callers were told about; each such loss must be proven and
is counted as excused. With --lags no, replicas never lag and nothing is excused.";
