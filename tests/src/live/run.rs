//! One schedule from start to verdict.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use selvedge::client::{Client, PublicState};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use super::judge::{Evidence, Verdict};
use super::load::{self, Told};
use super::plan::{Fault, Plan, Strike};
use super::process::{Cast, ClockShift, Commands, Role};
use super::runs::Run;
use super::site::{Healing, Site, Struck};

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

/// Plays a schedule, then judges it. The executable is `live`, which is engine and worker as well.
/// When it is stopped there is no report, and nothing stays behind.
///
/// # Errors
/// When the stage cannot be set; a schedule that went wrong is told in its report.
pub async fn run(
    plan: Plan,
    live: &Path,
    stop: &CancellationToken,
) -> Result<Option<Report>, String> {
    let folder = tempfile::Builder::new()
        .prefix(&format!("selvedge-live-{}-", plan.seed))
        .tempdir()
        .map_err(|error| format!("seed {}: no folder for logs: {error}", plan.seed))?;
    let seed = plan.seed;
    let mut stage = match Stage::set(plan, live, folder.path()) {
        Ok(stage) => stage,
        Err(_) if stop.is_cancelled() => return Ok(None),
        Err(error) => {
            return Err(format!("seed {seed}: {error}\n  logs: {}", folder.keep().display()));
        }
    };
    let (told, mut verdict) = tokio::select! {
        biased;
        // Whoever ends it himself wants no verdict and no logs: they go with the folder.
        () = stop.cancelled() => return Ok(None),
        judged = stage.play_and_judge() => judged,
    };
    let logs = if verdict.faults.is_empty() {
        None
    } else {
        // A log that is not there must not take the verdict with it.
        if let Err(error) = stage.site.keep_logs(folder.path()) {
            verdict.faults.push(format!("not all logs were kept: {error}"));
        }
        Some(folder.keep())
    };
    Ok(Some(Report {
        runs: stage.runs().len(),
        plan: stage.plan,
        faults: stage.faults,
        accepted: told.accepted.len(),
        ended: told.ended.len(),
        verdict,
        logs,
    }))
}

struct Stage {
    plan: Plan,
    site: Site,
    cast: Cast,
    notes: PathBuf,
    faults: BTreeMap<Fault, usize>,
    /// What ends later, and when.
    healings: Vec<(Instant, Healing)>,
    /// Whose process goes on later, and when.
    resting: Vec<(Instant, u32)>,
    /// Who has to be replaced, and when, and what the clock of the new one is like.
    vacancies: Vec<(Instant, Role, Option<ClockShift>)>,
}

impl Stage {
    fn set(plan: Plan, live: &Path, folder: &Path) -> Result<Self, String> {
        let site = Site::start(plan.shape).map_err(text)?;
        let notes = folder.join("runs.txt");
        let url = site.url();
        let words = |role: &str| -> Vec<OsString> {
            [live.as_os_str(), role.as_ref(), notes.as_os_str()].map(OsStr::to_owned).to_vec()
        };
        let commands = Commands {
            engine: words("engine"),
            worker: words("worker"),
            environment: environment(&url),
        };
        let mut cast = Cast::new(commands, folder);
        for _ in 0..plan.engines {
            cast.start(Role::Engine, None).map_err(text)?;
        }
        for _ in 0..plan.workers {
            cast.start(Role::Worker, None).map_err(text)?;
        }
        Ok(Self {
            plan,
            site,
            cast,
            notes,
            faults: BTreeMap::new(),
            healings: Vec::new(),
            resting: Vec::new(),
            vacancies: Vec::new(),
        })
    }

    async fn play_and_judge(&mut self) -> (Told, Verdict) {
        match self.play().await {
            Ok(told) => {
                let mut verdict = self.judge_at_rest(&told).await;
                verdict.faults.extend(self.cast.raised());
                (told, verdict)
            }
            Err(error) => (Told::default(), Verdict { faults: vec![error], excused: Vec::new() }),
        }
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
        let told = load.await.map_err(text)?;
        self.settle(&client, &told).await?;
        let mut deserters = self.cast.deserters().map_err(text)?;
        deserters.extend(self.site.deserters().map_err(text)?);
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
            sleep_until(self.due().min().unwrap_or(until).min(until)).await;
            self.heal_due(now())?;
            if now() >= until {
                return Ok(());
            }
        }
    }

    fn strike(&mut self, strike: &Strike) -> Result<(), String> {
        let ends = now() + strike.lasting;
        let struck = match strike.fault {
            Fault::KillEngine => self.kill(Role::Engine, strike.whom, ends, None)?,
            Fault::KillWorker => self.kill(Role::Worker, strike.whom, ends, None)?,
            Fault::ShiftClock => {
                let off = if strike.whom.is_multiple_of(2) { CLOCK_OFF_S } else { -CLOCK_OFF_S };
                match ClockShift::by(off) {
                    None => Struck::Missed,
                    shift => self.kill(Role::Engine, strike.whom, now(), shift)?,
                }
            }
            Fault::StopEngine => self.stop(Role::Engine, strike.whom, ends)?,
            Fault::StopWorker => self.stop(Role::Worker, strike.whom, ends)?,
            Fault::KillServer
            | Fault::StopServer
            | Fault::KillReplica
            | Fault::StopReplica
            | Fault::ResetLinks
            | Fault::DelayLinks
            | Fault::FlushFunctions
            | Fault::KillClients
            | Fault::PauseClients
            | Fault::Failover
            | Fault::Crash
            | Fault::LaggingCrash
            | Fault::MoveSlot => self.strike_servers(strike)?,
        };
        count(&mut self.faults, strike.fault, &struck);
        if let Struck::Until(healing) = struck {
            self.healings.push((ends, healing));
        }
        Ok(())
    }

    fn kill(
        &mut self,
        role: Role,
        whom: usize,
        replaced_at: Instant,
        off: Option<ClockShift>,
    ) -> Result<Struck, String> {
        if !self.cast.kill(role, whom).map_err(text)? {
            return Ok(Struck::Missed);
        }
        self.vacancies.push((replaced_at, role, off));
        Ok(Struck::Over)
    }

    fn stop(&mut self, role: Role, whom: usize, ends: Instant) -> Result<Struck, String> {
        let stopped = self.cast.stop(role, whom).map_err(text)?;
        self.resting.extend(stopped.map(|pid| (ends, pid)));
        Ok(if stopped.is_some() { Struck::Over } else { Struck::Missed })
    }

    fn strike_servers(&mut self, strike: &Strike) -> Result<Struck, String> {
        // Whoever was told what dies with a server must be able to note it before.
        if strike.fault == Fault::LaggingCrash {
            for (_, pid) in self.resting.drain(..) {
                self.cast.resume(pid).map_err(text)?;
            }
        }
        // A server that stands still cannot be told anything.
        if strike.fault != Fault::ResetLinks {
            for (_, healing) in self.healings.drain(..) {
                self.site.heal(healing).map_err(text)?;
            }
        }
        self.site.strike(strike).map_err(text)
    }

    /// When anything ends that lasts.
    fn due(&self) -> impl Iterator<Item = Instant> {
        let healings = self.healings.iter().map(|(at, _)| *at);
        let resting = self.resting.iter().map(|(at, _)| *at);
        healings.chain(resting).chain(self.vacancies.iter().map(|(at, ..)| *at))
    }

    fn heal_due(&mut self, now: Instant) -> Result<(), String> {
        for (_, healing) in self.healings.extract_if(.., |(at, _)| *at <= now) {
            self.site.heal(healing).map_err(text)?;
        }
        for (_, pid) in self.resting.extract_if(.., |(at, _)| *at <= now) {
            self.cast.resume(pid).map_err(text)?;
        }
        for (_, role, off) in self.vacancies.extract_if(.., |(at, ..)| *at <= now) {
            self.cast.start(role, off.as_ref()).map_err(text)?;
        }
        Ok(())
    }

    /// Ends whatever lasts.
    fn heal_all(&mut self) -> Result<(), String> {
        let last = self.due().max();
        self.heal_due(last.unwrap_or_else(now))
    }

    /// Waits until everything that was accepted has ended.
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
        Ok(())
    }

    fn runs(&self) -> Vec<Run> {
        let notes = fs::read_to_string(&self.notes).unwrap_or_default();
        notes.lines().filter_map(Run::read).collect()
    }

    /// Judges until nothing is wrong any more: debts are paid and indexes mended within a bound.
    /// What was lost or doubled stays so, however long one waits.
    async fn judge_at_rest(&self, told: &Told) -> Verdict {
        let deadline = now() + AT_REST_WITHIN;
        loop {
            let verdict = self.judge(told);
            if verdict.faults.is_empty() || now() >= deadline {
                return verdict;
            }
            sleep_until(now() + Duration::from_secs(1)).await;
        }
    }

    fn judge(&self, told: &Told) -> Verdict {
        match look(|| self.site.snapshot(), || self.runs()) {
            Ok((snapshot, runs)) => {
                let crashes = self.site.crashes();
                Evidence { snapshot: &snapshot, told, runs: &runs, crashes }.judge()
            }
            Err(error) => Verdict { faults: vec![error.to_string()], excused: Vec::new() },
        }
    }
}

/// Counts a fault that struck.
fn count(faults: &mut BTreeMap<Fault, usize>, fault: Fault, struck: &Struck) {
    match struck {
        Struck::Missed => {}
        Struck::Over | Struck::Until(_) => *faults.entry(fault).or_default() += 1,
    }
}

/// The notes are read last: whatever the keyspace holds was noted before.
fn look<K, N, E>(
    keyspace: impl FnOnce() -> Result<K, E>,
    notes: impl FnOnce() -> N,
) -> Result<(K, N), E> {
    let keyspace = keyspace()?;
    Ok((keyspace, notes()))
}

/// A small deployment whose scanners come often, so that a schedule of seconds sees many cycles.
fn environment(url: &str) -> Vec<(String, String)> {
    let pairs = [
        ("SELVEDGE_URL", url.to_owned()),
        ("SELVEDGE_LISTEN", "127.0.0.1:0".to_owned()),
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
        let excused = verdict.excused.iter().take(SHOWN_MAX);
        excused.into_iter().try_for_each(|loss| writeln!(f, "  excused: {loss}"))?;
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

/// More than any lease, timeout or interval of a schedule.
const CLOCK_OFF_S: i64 = 600;

const STARTS_WITHIN: Duration = Duration::from_secs(30);

/// After callers had their answers: leases run out, retries wait, cascades run. Usually that takes a
/// second or two; the bound is for a machine with other things to do.
const SETTLES_WITHIN: Duration = Duration::from_secs(240);

/// After the last end: debts, indexes and notes follow.
const AT_REST_WITHIN: Duration = Duration::from_secs(30);

const SHOWN_MAX: usize = 20;

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;

    #[test]
    fn what_struck_nobody_is_not_counted() {
        let mut faults = BTreeMap::new();
        let until = Struck::Until(Healing::Undelay);
        for struck in [Struck::Over, Struck::Missed, until, Struck::Missed] {
            count(&mut faults, Fault::StopServer, &struck);
        }
        count(&mut faults, Fault::KillServer, &Struck::Missed);
        assert_eq!(faults, BTreeMap::from([(Fault::StopServer, 2)]));
    }

    #[test]
    fn what_is_done_while_the_keyspace_is_read_is_among_the_notes() {
        let done = RefCell::new(Vec::new());
        let keyspace = || {
            done.borrow_mut().push("a run");
            Ok::<_, ()>("its result")
        };
        assert_eq!(look(keyspace, || done.borrow().clone()), Ok(("its result", vec!["a run"])));
    }
}
