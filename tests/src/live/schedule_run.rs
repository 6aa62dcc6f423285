//! Runs one schedule: starts everything, injects the faults, undoes them, and has the result
//! judged.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use selvedge::client::{Client, PublicState};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use super::fault_schedule::{Fault, FaultSchedule, TimedFault};
use super::handler_runs::Run;
use super::judge::{Evidence, Verdict};
use super::load::{self, CallerRecord};
use super::process_main::{PARTITIONS, environment};
use super::processes::{ClockShift, Commands, Processes, Role};
use super::report::Report;
use super::servers::{Injection, Servers, Undo};

/// Plays a schedule, then judges it. The executable is `live`, which is engine and worker as well.
/// When it is stopped there is no report, and nothing stays behind.
///
/// # Errors
/// When servers or processes do not start; a schedule that fails is in its report.
pub async fn run(
    schedule: FaultSchedule,
    live: &Path,
    stop: &CancellationToken,
) -> Result<Option<Report>, String> {
    let folder = tempfile::Builder::new()
        .prefix(&format!("selvedge-live-{}-", schedule.seed))
        .tempdir()
        .map_err(|error| format!("seed {}: no folder for logs: {error}", schedule.seed))?;
    let seed = schedule.seed;
    let mut run_of = match ScheduleRun::set(schedule, live, folder.path()) {
        Ok(run_of) => run_of,
        Err(_) if stop.is_cancelled() => return Ok(None),
        Err(error) => {
            return Err(format!("seed {seed}: {error}\n  logs: {}", folder.keep().display()));
        }
    };
    let (told, mut verdict) = tokio::select! {
        biased;
        // An interrupted run needs no verdict and no logs: they go with the folder.
        () = stop.cancelled() => return Ok(None),
        judged = run_of.play_and_judge() => judged,
    };
    let logs = if verdict.faults.is_empty() {
        None
    } else {
        // A log that is not there must not take the verdict with it.
        if let Err(error) = run_of.servers.keep_logs(folder.path()) {
            verdict.faults.push(format!("not all logs were kept: {error}"));
        }
        Some(folder.keep())
    };
    Ok(Some(Report {
        runs: run_of.runs().len(),
        schedule: run_of.schedule,
        faults: run_of.faults,
        accepted: told.accepted.len(),
        ended: told.ended.len(),
        verdict,
        logs,
    }))
}

struct ScheduleRun {
    schedule: FaultSchedule,
    servers: Servers,
    processes: Processes,
    notes: PathBuf,
    faults: BTreeMap<Fault, usize>,
    /// Faults to be undone, and when.
    undos: Vec<(Instant, Undo)>,
    /// Stopped processes, and when they continue.
    stopped: Vec<(Instant, u32)>,
    /// Processes to be started in place of killed ones: when, which, and their clock.
    replacements: Vec<(Instant, Role, Option<ClockShift>)>,
}

impl ScheduleRun {
    fn set(schedule: FaultSchedule, live: &Path, folder: &Path) -> Result<Self, String> {
        let servers = Servers::start(schedule.shape).map_err(text)?;
        let notes = folder.join("runs.txt");
        let url = servers.url();
        let words = |role: &str| -> Vec<OsString> {
            [live.as_os_str(), role.as_ref(), notes.as_os_str()].map(OsStr::to_owned).to_vec()
        };
        let commands = Commands {
            engine: words("engine"),
            worker: words("worker"),
            environment: environment(&url),
        };
        let mut processes = Processes::new(commands, folder);
        for _ in 0..schedule.engines {
            processes.start(Role::Engine, None).map_err(text)?;
        }
        for _ in 0..schedule.workers {
            processes.start(Role::Worker, None).map_err(text)?;
        }
        Ok(Self {
            schedule,
            servers,
            processes,
            notes,
            faults: BTreeMap::new(),
            undos: Vec::new(),
            stopped: Vec::new(),
            replacements: Vec::new(),
        })
    }

    async fn play_and_judge(&mut self) -> (CallerRecord, Verdict) {
        match self.play().await {
            Ok(told) => {
                let mut verdict = self.judge_at_rest(&told).await;
                verdict.faults.extend(self.processes.raised());
                (told, verdict)
            }
            Err(error) => {
                (CallerRecord::default(), Verdict { faults: vec![error], excused: Vec::new() })
            }
        }
    }

    /// Injects the faults under load, undoes them all, and waits for all work to end.
    async fn play(&mut self) -> Result<CallerRecord, String> {
        let client = self.client().await?;
        let stop = CancellationToken::new();
        let load =
            tokio::spawn(load::submit_until(client.clone(), self.schedule.seed, stop.clone()));
        let begins = now();
        for timed in self.schedule.faults.clone() {
            self.pass_until(begins + timed.at).await?;
            self.inject(&timed)?;
        }
        self.pass_until(begins + self.schedule.lasts).await?;
        stop.cancel();
        self.undo_all()?;
        let told = load.await.map_err(text)?;
        self.settle(&client, &told).await?;
        let mut unexpected_exits = self.processes.unexpected_exits().map_err(text)?;
        unexpected_exits.extend(self.servers.unexpected_exits().map_err(text)?);
        if unexpected_exits.is_empty() { Ok(told) } else { Err(unexpected_exits.join("; ")) }
    }

    /// The servers have just started, and the first engine writes down what the deployment is.
    async fn client(&self) -> Result<Client, String> {
        let deadline = now() + STARTS_WITHIN;
        loop {
            let error = match Client::connect(&self.servers.url()).await {
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
            self.undo_due(now())?;
            if now() >= until {
                return Ok(());
            }
        }
    }

    fn inject(&mut self, timed: &TimedFault) -> Result<(), String> {
        let ends = now() + timed.lasting;
        let injection = match timed.fault {
            Fault::KillEngine => self.kill(Role::Engine, timed.whom, ends, None)?,
            Fault::KillWorker => self.kill(Role::Worker, timed.whom, ends, None)?,
            Fault::ShiftClock => {
                let off = if timed.whom.is_multiple_of(2) { CLOCK_OFF_S } else { -CLOCK_OFF_S };
                match ClockShift::by(off) {
                    None => Injection::Missed,
                    shift => self.kill(Role::Engine, timed.whom, now(), shift)?,
                }
            }
            Fault::StopEngine => self.stop(Role::Engine, timed.whom, ends)?,
            Fault::StopWorker => self.stop(Role::Worker, timed.whom, ends)?,
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
            | Fault::MoveSlot => self.inject_into_servers(timed)?,
        };
        count(&mut self.faults, timed.fault, &injection);
        if let Injection::Until(undo) = injection {
            self.undos.push((ends, undo));
        }
        Ok(())
    }

    fn kill(
        &mut self,
        role: Role,
        whom: usize,
        replaced_at: Instant,
        off: Option<ClockShift>,
    ) -> Result<Injection, String> {
        if !self.processes.kill(role, whom).map_err(text)? {
            return Ok(Injection::Missed);
        }
        self.replacements.push((replaced_at, role, off));
        Ok(Injection::Over)
    }

    fn stop(&mut self, role: Role, whom: usize, ends: Instant) -> Result<Injection, String> {
        let stopped = self.processes.stop(role, whom).map_err(text)?;
        self.stopped.extend(stopped.map(|pid| (ends, pid)));
        Ok(if stopped.is_some() { Injection::Over } else { Injection::Missed })
    }

    fn inject_into_servers(&mut self, timed: &TimedFault) -> Result<Injection, String> {
        // Processes must be able to record the replies that are about to be lost.
        if timed.fault == Fault::LaggingCrash {
            for (_, pid) in self.stopped.drain(..) {
                self.processes.resume(pid).map_err(text)?;
            }
        }
        // A stopped server takes no commands.
        if timed.fault != Fault::ResetLinks {
            for (_, undo) in self.undos.drain(..) {
                self.servers.undo(undo).map_err(text)?;
            }
        }
        self.servers.inject(timed).map_err(text)
    }

    /// When anything ends that lasts.
    fn due(&self) -> impl Iterator<Item = Instant> {
        let undos = self.undos.iter().map(|(at, _)| *at);
        let stopped = self.stopped.iter().map(|(at, _)| *at);
        undos.chain(stopped).chain(self.replacements.iter().map(|(at, ..)| *at))
    }

    fn undo_due(&mut self, now: Instant) -> Result<(), String> {
        for (_, undo) in self.undos.extract_if(.., |(at, _)| *at <= now) {
            self.servers.undo(undo).map_err(text)?;
        }
        for (_, pid) in self.stopped.extract_if(.., |(at, _)| *at <= now) {
            self.processes.resume(pid).map_err(text)?;
        }
        for (_, role, off) in self.replacements.extract_if(.., |(at, ..)| *at <= now) {
            self.processes.start(role, off.as_ref()).map_err(text)?;
        }
        Ok(())
    }

    /// Ends whatever lasts.
    fn undo_all(&mut self) -> Result<(), String> {
        let last = self.due().max();
        self.undo_due(last.unwrap_or_else(now))
    }

    /// Waits until everything that was accepted has ended.
    async fn settle(&self, client: &Client, told: &CallerRecord) -> Result<(), String> {
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

    /// Judges until nothing is wrong any more: cancels are made and indexes mended within a bound.
    /// What was lost or doubled stays so, however long one waits.
    async fn judge_at_rest(&self, told: &CallerRecord) -> Verdict {
        let deadline = now() + AT_REST_WITHIN;
        loop {
            let verdict = self.judge(told);
            if verdict.faults.is_empty() || now() >= deadline {
                return verdict;
            }
            sleep_until(now() + Duration::from_secs(1)).await;
        }
    }

    fn judge(&self, told: &CallerRecord) -> Verdict {
        match look(|| self.servers.snapshot(), || self.runs()) {
            Ok((snapshot, runs)) => {
                let crashes = self.servers.crashes();
                Evidence { snapshot: &snapshot, told, runs: &runs, crashes }.judge()
            }
            Err(error) => Verdict { faults: vec![error.to_string()], excused: Vec::new() },
        }
    }
}

/// Counts a fault that had an effect.
fn count(faults: &mut BTreeMap<Fault, usize>, fault: Fault, injection: &Injection) {
    match injection {
        Injection::Missed => {}
        Injection::Over | Injection::Until(_) => *faults.entry(fault).or_default() += 1,
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

/// More than any lease, timeout or interval of a schedule.
const CLOCK_OFF_S: i64 = 600;

const STARTS_WITHIN: Duration = Duration::from_secs(30);

/// After callers had their answers: leases run out, retries wait, cascades run. Usually that takes
/// a second or two; the bound is for a machine with other things to do.
const SETTLES_WITHIN: Duration = Duration::from_secs(240);

/// After the last end: pending cancels, indexes and summaries follow.
const AT_REST_WITHIN: Duration = Duration::from_secs(30);

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;

    #[test]
    fn a_fault_without_effect_is_not_counted() {
        let mut faults = BTreeMap::new();
        let until = Injection::Until(Undo::Undelay);
        for injection in [Injection::Over, Injection::Missed, until, Injection::Missed] {
            count(&mut faults, Fault::StopServer, &injection);
        }
        count(&mut faults, Fault::KillServer, &Injection::Missed);
        assert_eq!(faults, BTreeMap::from([(Fault::StopServer, 2)]));
    }

    #[test]
    fn runs_during_the_read_of_the_keyspace_are_in_the_log() {
        let done = RefCell::new(Vec::new());
        let keyspace = || {
            done.borrow_mut().push("a run");
            Ok::<_, ()>("its result")
        };
        assert_eq!(look(keyspace, || done.borrow().clone()), Ok(("its result", vec!["a run"])));
    }
}
