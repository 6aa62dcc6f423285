//! Selvedge beside BullMQ on one Valkey, in turns: `cargo bench -p selvedge-tests --bench bullmq`.
//!
//! 5,000 no-op jobs, 64 side by side, three rounds each: added one by one, and in bulk (`addBulk`,
//! `start_many`). Printed for each: jobs per second, and per job the calls (functions and scripts),
//! the commands with those inside of them, the CPU of the server, and the CPU of the process that
//! adds the jobs and works on them. No engine runs: single executions need none until one fails.
//!
//! Installs the npm packages `bullmq` and `ioredis` into a temporary folder, or uses the folder
//! that `SELVEDGE_BULLMQ` names. Ends with a failure when a promise is broken: in both ways of
//! adding at least 0.8 of BullMQ's rate with at most twice its server CPU, and no more CPU for
//! client and worker than for the server.

mod ours;
mod server_stats;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use selvedge_tests::server::Server;
use serde_json::Value as Json;

use server_stats::ServerStats;

type Fault = Box<dyn std::error::Error>;

const JOBS: u32 = 5_000;
const SIDE_BY_SIDE: usize = 64;
const ROUNDS: usize = 3;

/// How jobs are added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Adding {
    OneByOne,
    InBulk,
}

/// What a run took.
#[derive(Clone, Copy)]
struct Took {
    seconds: f64,
    /// The CPU of the process that adds and works.
    client_cpu: f64,
}

/// The figures of a run, per job.
#[derive(Clone, Copy)]
struct Figures {
    rate: f64,
    calls: f64,
    commands: f64,
    server_us: f64,
    client_us: f64,
}

fn main() -> ExitCode {
    match measure() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn measure() -> Result<bool, Fault> {
    let folder = tempfile::tempdir()?;
    let packages = install(folder.path())?;
    let server = Server::valkey()?;
    let mut holds = true;
    for adding in [Adding::OneByOne, Adding::InBulk] {
        println!("\n{JOBS} no-op jobs, {SIDE_BY_SIDE} side by side, {adding:?}");
        println!("            jobs/s  calls  commands  server µs  client and worker µs");
        let (mut bullmq, mut selvedge) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            bullmq.push(run("bullmq", &server, || run_bullmq(&packages, server.port(), adding))?);
            selvedge.push(run("selvedge", &server, || ours::run(server.port(), adding))?);
        }
        holds &= compare(&middle(bullmq), &middle(selvedge));
    }
    Ok(holds)
}

/// Runs one side on an empty server.
fn run(
    name: &str,
    server: &Server,
    jobs: impl FnOnce() -> Result<Took, Fault>,
) -> Result<Figures, Fault> {
    server.connect()?.call(&["FLUSHALL"])?;
    let before = ServerStats::read(server)?;
    let took = jobs()?;
    let used = ServerStats::read(server)?.since(&before);
    let jobs = f64::from(JOBS);
    let figures = Figures {
        rate: jobs / took.seconds,
        calls: used.calls / jobs,
        commands: used.commands / jobs,
        server_us: used.cpu * 1e6 / jobs,
        client_us: took.client_cpu * 1e6 / jobs,
    };
    figures.print(name);
    Ok(figures)
}

impl Figures {
    fn print(&self, name: &str) {
        println!(
            "{name:10} {:7.0} {:6.2} {:9.1} {:10.0} {:21.0}",
            self.rate, self.calls, self.commands, self.server_us, self.client_us
        );
    }
}

/// The run with the median rate.
fn middle(mut runs: Vec<Figures>) -> Figures {
    runs.sort_by(|one, two| one.rate.total_cmp(&two.rate));
    runs[runs.len() / 2]
}

/// Prints the ratios of the median runs; whether the promises hold.
fn compare(bullmq: &Figures, selvedge: &Figures) -> bool {
    let rate = selvedge.rate / bullmq.rate;
    let server = selvedge.server_us / bullmq.server_us;
    let client = selvedge.client_us / selvedge.server_us;
    let holds = |good: bool| if good { "holds" } else { "BROKEN" };
    println!("rate         {rate:.2} of bullmq's, promised 0.80: {}", holds(rate >= 0.8));
    println!("server CPU   {server:.2} of bullmq's, promised 2.00: {}", holds(server <= 2.0));
    println!("client CPU   {client:.2} of the server's, promised 1.00: {}", holds(client <= 1.0));
    rate >= 0.8 && server <= 2.0 && client <= 1.0
}

/// A folder with the npm packages and the program.
fn install(temporary: &Path) -> Result<PathBuf, Fault> {
    let folder = match std::env::var_os("SELVEDGE_BULLMQ") {
        Some(folder) => PathBuf::from(folder),
        None => {
            let npm = Command::new("npm")
                .args(["install", "--no-audit", "--no-fund", "--silent", "--prefix"])
                .arg(temporary)
                .args(["bullmq", "ioredis"])
                .status()?;
            if !npm.success() {
                return Err("npm could not install bullmq and ioredis".into());
            }
            temporary.to_owned()
        }
    };
    let package = std::fs::read(folder.join("node_modules/bullmq/package.json"))?;
    let package: Json = serde_json::from_slice(&package)?;
    println!("BullMQ {}", package["version"].as_str().unwrap_or("?"));
    std::fs::write(folder.join("jobs.mjs"), include_str!("jobs.mjs"))?;
    Ok(folder)
}

fn run_bullmq(packages: &Path, port: u16, adding: Adding) -> Result<Took, Fault> {
    let how = if adding == Adding::InBulk { "bulk" } else { "one" };
    let output = Command::new("node")
        .current_dir(packages)
        .arg("jobs.mjs")
        .args([port.to_string(), JOBS.to_string(), SIDE_BY_SIDE.to_string(), how.to_owned()])
        .output()?;
    let printed: Json = serde_json::from_slice(&output.stdout)
        .map_err(|error| format!("{error}: {}", String::from_utf8_lossy(&output.stderr)))?;
    let number = |name: &str| printed[name].as_f64().ok_or(format!("no {name}"));
    Ok(Took { seconds: number("seconds")?, client_cpu: number("cpu")? })
}
