//! One schedule from start to verdict.

use std::collections::BTreeMap;
use std::env;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use selvedge::client::{Client, PublicState};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use super::clock_ms;
use super::judge::{Evidence, Verdict};
use super::load::{self, Told};
use super::plan::{Fault, Plan, Strike};
use super::process::{Cast, Commands, Role};
use super::runs::Run;
use super::site::{Healing, Site};

/// What a schedule did and what came of it.
#[derive(Debug)]
pub struct Report {
    /// The schedule.
    pub plan: Plan,
    /// How often each fault struck.
    pub faults: BTreeMap<Fault, usize>,
    /// Executions that callers were told are there.
    pub accepted: usize,
    /// Ends that callers were told.
    pub ended: usize,
    /// Runs of handlers.
    pub runs: usize,
    /// What is wrong, and what is excused.
    pub verdict: Verdict,
    /// Where the logs are, if anything is wrong.
    pub logs: Option<PathBuf>,
}

/// The executables of a schedule.
#[derive(Clone, Debug)]
pub struct Executables {
    /// `selvedge`.
    pub selvedge: PathBuf,
    /// `live`, which is a worker too.
    pub live: PathBuf,
}

impl Executables {
    /// Those beside this executable, where cargo puts them.
    ///
    /// # Errors
    /// When one is missing, with advice.
    pub fn beside_this() -> Result<Self, String> {
        let here = env::current_exe().map_err(|error| error.to_string())?;
        // Tests are in `deps/` below the binaries.
        let folders: Vec<_> = here.ancestors().skip(1).take(2).collect();
        let find = |name: &str, package: &str| {
            let found = folders.iter().map(|folder| folder.join(name)).find(|path| path.is_file());
            found.ok_or_else(|| {
                format!("no `{name}` beside {}: cargo build -p {package} --bins", here.display())
            })
        };
        Ok(Self { selvedge: find("selvedge", "selvedge")?, live: find("live", "selvedge-tests")? })
    }
}

/// Plays a schedule, then judges it.
///
/// # Errors
/// When the stage cannot be set; a schedule that went wrong is told in its report.
pub async fn run(plan: Plan, executables: &Executables) -> Result<Report, String> {
    let folder = tempfile::Builder::new()
        .prefix(&format!("selvedge-live-{}-", plan.seed))
        .tempdir()
        .map_err(text)?;
    let mut stage = Stage::set(plan, executables, folder.path())?;
    let played = stage.play().await;
    let (told, mut verdict) = match played {
        Ok(told) => (told, Verdict::default()),
        Err(error) => {
            let faults = vec![error];
            (Told::default(), Verdict { faults, excused: Vec::new() })
        }
    };
    let runs = stage.runs();
    if verdict.faults.is_empty() {
        verdict = stage.judge(&told, &runs);
    }
    let logs = if verdict.faults.is_empty() {
        None
    } else {
        stage.site.keep_logs(folder.path()).map_err(text)?;
        Some(folder.keep())
    };
    Ok(Report {
        plan: stage.plan,
        faults: stage.faults,
        accepted: told.accepted.len(),
        ended: told.ended.len(),
        runs: runs.len(),
        verdict,
        logs,
    })
}

struct Stage {
    plan: Plan,
    site: Site,
    cast: Cast,
    notes: PathBuf,
    faults: BTreeMap<Fault, usize>,
    /// What ends later, and when.
    healings: Vec<(Instant, Healing)>,
    /// Who has to be replaced, and when.
    vacancies: Vec<(Instant, Role)>,
    crashes_ms: Vec<u64>,
}

impl Stage {
    fn set(plan: Plan, executables: &Executables, folder: &Path) -> Result<Self, String> {
        let site = Site::start(plan.shape).map_err(text)?;
        let notes = folder.join("runs.txt");
        let url = site.url();
        let words = |words: &[&OsStr]| -> Vec<OsString> {
            words.iter().map(|word| (*word).to_owned()).collect()
        };
        let commands = Commands {
            engine: words(&[
                executables.selvedge.as_os_str(),
                "serve".as_ref(),
                "--listen".as_ref(),
                "127.0.0.1:0".as_ref(),
            ]),
            worker: words(&[
                executables.live.as_os_str(),
                "worker".as_ref(),
                url.as_ref(),
                notes.as_os_str(),
            ]),
            environment: environment(&url),
        };
        let mut cast = Cast::new(commands, folder);
        for _ in 0..plan.engines {
            cast.start(Role::Engine).map_err(text)?;
        }
        for _ in 0..plan.workers {
            cast.start(Role::Worker).map_err(text)?;
        }
        Ok(Self {
            plan,
            site,
            cast,
            notes,
            faults: BTreeMap::new(),
            healings: Vec::new(),
            vacancies: Vec::new(),
            crashes_ms: Vec::new(),
        })
    }

    /// Lets the faults strike under load, heals everything, and waits for all work to end.
    async fn play(&mut self) -> Result<Told, String> {
        let client = self.client().await?;
        let stop = CancellationToken::new();
        let load = tokio::spawn(load::submit_until(client.clone(), self.plan.seed, stop.clone()));
        let begins = now();
        for strike in self.plan.strikes.clone() {
            self.pass_until(begins + strike.at).await?;
            self.strike(&strike)?;
        }
        self.pass_until(begins + self.plan.lasts).await?;
        stop.cancel();
        self.heal_all()?;
        let told = tokio::time::timeout(SETTLES_WITHIN, load)
            .await
            .map_err(|_| "callers still wait for an end that does not come".to_owned())?
            .map_err(text)?;
        self.settle(&client, &told).await?;
        let deserters = self.cast.deserters().map_err(text)?;
        if deserters.is_empty() { Ok(told) } else { Err(deserters.join("; ")) }
    }

    /// The servers have just started, and the first engine writes down what the deployment is.
    async fn client(&self) -> Result<Client, String> {
        let deadline = now() + STARTS_WITHIN;
        loop {
            let error = match Client::connect(&self.site.url()).await {
                Ok(client) if client.partitions().flow.get() == PARTITIONS => return Ok(client),
                Ok(_) => "no engine has written the partition counts".to_owned(),
                Err(error) => error.to_string(),
            };
            if now() > deadline {
                return Err(format!("no client: {error}"));
            }
            sleep_until(now() + Duration::from_millis(100)).await;
        }
    }

    /// Lets time pass, and what is due in it happen.
    async fn pass_until(&mut self, until: Instant) -> Result<(), String> {
        loop {
            let due = self.healings.iter().map(|(at, _)| *at);
            let next = due.chain(self.vacancies.iter().map(|(at, _)| *at)).min();
            sleep_until(next.unwrap_or(until).min(until)).await;
            self.heal_due(now())?;
            if now() >= until {
                return Ok(());
            }
        }
    }

    fn strike(&mut self, strike: &Strike) -> Result<(), String> {
        *self.faults.entry(strike.fault).or_default() += 1;
        let ends = now() + strike.lasting;
        let (role, kills) = match strike.fault {
            Fault::KillEngine => (Role::Engine, true),
            Fault::KillWorker => (Role::Worker, true),
            Fault::StopEngine => (Role::Engine, false),
            Fault::StopWorker => (Role::Worker, false),
            Fault::KillServer
            | Fault::StopServer
            | Fault::ResetLinks
            | Fault::DelayLinks
            | Fault::FlushFunctions
            | Fault::KillClients
            | Fault::Failover
            | Fault::Crash
            | Fault::MoveSlot => return self.strike_servers(strike, ends),
        };
        if kills {
            self.cast.kill(role, strike.whom).map_err(text)?;
            self.vacancies.push((ends, role));
        } else if let Some(pid) = self.cast.stop(role, strike.whom).map_err(text)? {
            self.healings.push((ends, Healing::Continue(pid)));
        }
        Ok(())
    }

    fn strike_servers(&mut self, strike: &Strike, ends: Instant) -> Result<(), String> {
        // A server that stands still cannot be told anything.
        if strike.fault != Fault::ResetLinks {
            self.heal_servers()?;
        }
        if strike.fault == Fault::Crash {
            self.crashes_ms.push(clock_ms());
        }
        let healing = self.site.strike(strike).map_err(text)?;
        self.healings.extend(healing.map(|healing| (ends, healing)));
        Ok(())
    }

    fn heal_due(&mut self, at: Instant) -> Result<(), String> {
        let (due, later) = self.healings.drain(..).partition(|(when, _)| *when <= at);
        self.healings = later;
        let due: Vec<(Instant, Healing)> = due;
        for (_, healing) in due {
            self.site.heal(healing).map_err(text)?;
        }
        let (due, later) = self.vacancies.drain(..).partition(|(when, _)| *when <= at);
        self.vacancies = later;
        let due: Vec<(Instant, Role)> = due;
        for (_, role) in due {
            self.cast.start(role).map_err(text)?;
        }
        Ok(())
    }

    /// Ends whatever lasts.
    fn heal_all(&mut self) -> Result<(), String> {
        let furthest = self.healings.iter().map(|(at, _)| *at);
        let last = furthest.chain(self.vacancies.iter().map(|(at, _)| *at)).max();
        self.heal_due(last.unwrap_or_else(now))
    }

    fn heal_servers(&mut self) -> Result<(), String> {
        for (_, healing) in std::mem::take(&mut self.healings) {
            self.site.heal(healing).map_err(text)?;
        }
        Ok(())
    }

    /// Waits until everything that was accepted has ended, and debts had time to be paid.
    async fn settle(&self, client: &Client, told: &Told) -> Result<(), String> {
        let deadline = now() + SETTLES_WITHIN;
        let mut open: Vec<_> = told.accepted.keys().cloned().collect();
        while !open.is_empty() && now() < deadline {
            let mut still = Vec::new();
            for some in open.chunks(500) {
                let states = client.states(some.to_vec()).await.map_err(text)?;
                still.extend(
                    states
                        .into_iter()
                        .filter(|one| one.state.is_some_and(|state| !has_ended(state)))
                        .map(|one| one.id),
                );
            }
            open = still;
            sleep_until(now() + Duration::from_millis(300)).await;
        }
        sleep_until(now() + DEBTS_PAID_WITHIN).await;
        Ok(())
    }

    fn runs(&self) -> Vec<Run> {
        let notes = fs::read_to_string(&self.notes).unwrap_or_default();
        notes.lines().filter_map(Run::read).collect()
    }

    fn judge(&self, told: &Told, runs: &[Run]) -> Verdict {
        match self.site.snapshot() {
            Ok(snapshot) => {
                Evidence { snapshot: &snapshot, told, runs, crashes_ms: &self.crashes_ms }.judge()
            }
            Err(error) => Verdict { faults: vec![error.to_string()], excused: Vec::new() },
        }
    }
}

/// A small deployment whose scanners come often, so that a schedule of seconds sees many cycles.
fn environment(url: &str) -> Vec<(String, String)> {
    let pairs = [
        ("SELVEDGE_URL", url.to_owned()),
        ("FF_FLOW_PARTITIONS", PARTITIONS.to_string()),
        ("FF_BUDGET_PARTITIONS", "2".to_owned()),
        ("FF_QUOTA_PARTITIONS", "2".to_owned()),
        ("FF_LEASE_EXPIRY_INTERVAL_MS", "300".to_owned()),
        ("FF_DELAYED_PROMOTER_INTERVAL_MS", "200".to_owned()),
        ("FF_SUSPENSION_TIMEOUT_INTERVAL_MS", "300".to_owned()),
        ("FF_DEPENDENCY_RECONCILER_INTERVAL_MS", "1000".to_owned()),
        ("RUST_LOG", "info".to_owned()),
    ];
    let secret = ("SELVEDGE_WAITPOINT_SECRET".to_owned(), "5e".repeat(32));
    pairs.map(|(name, value)| (name.to_owned(), value)).into_iter().chain([secret]).collect()
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { plan, accepted, ended, runs, verdict, logs, .. } = self;
        let struck: usize = self.faults.values().sum();
        writeln!(
            f,
            "seed {} {:?}: {struck} faults, {accepted} accepted, {ended} ends told, {runs} runs, \
             {} excused, {} faults found",
            plan.seed,
            plan.shape,
            verdict.excused.len(),
            verdict.faults.len()
        )?;
        verdict.faults.iter().take(SHOWN_MAX).try_for_each(|fault| writeln!(f, "  {fault}"))?;
        if let Some(logs) = logs {
            writeln!(f, "  logs: {}", logs.display())?;
        }
        Ok(())
    }
}

fn now() -> Instant {
    Instant::now()
}

fn has_ended(state: PublicState) -> bool {
    matches!(
        state,
        PublicState::Completed
            | PublicState::Failed
            | PublicState::Cancelled
            | PublicState::Expired
            | PublicState::Skipped
    )
}

fn text(error: impl fmt::Display) -> String {
    error.to_string()
}

/// Few partitions, so that each is visited often.
const PARTITIONS: u16 = 8;

const STARTS_WITHIN: Duration = Duration::from_secs(30);

/// After the last fault: leases run out, retries wait, cascades run.
const SETTLES_WITHIN: Duration = Duration::from_secs(60);

const DEBTS_PAID_WITHIN: Duration = Duration::from_secs(3);

const SHOWN_MAX: usize = 20;
