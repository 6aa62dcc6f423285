//! [`Processes`]: engines and workers as processes, which can be killed, stopped and replaced.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::process_guard::ProcessGuard;

/// What a process does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// `selvedge serve`.
    Engine,
    /// The worker of the harness.
    Worker,
}

/// A signal of the operating system.
#[derive(Clone, Copy, Debug)]
pub enum Signal {
    /// SIGSTOP.
    Stop,
    /// SIGCONT.
    Continue,
    /// SIGINT.
    Interrupt,
    /// SIGTERM.
    End,
}

/// All processes of a schedule. They end with it, however it ends.
pub struct Processes {
    commands: Commands,
    folder: PathBuf,
    running: Vec<(Role, ProcessGuard)>,
    started: usize,
    /// Those that are stopped.
    stopped: BTreeSet<u32>,
    /// Those that had exited by themselves before they were to be killed.
    exited: Vec<String>,
}

/// How a process of each role is started.
#[derive(Clone, Debug)]
pub struct Commands {
    /// The executable of an engine, and its arguments.
    pub engine: Vec<OsString>,
    /// The executable of a worker, and its arguments.
    pub worker: Vec<OsString>,
    /// What both find in their environment.
    pub environment: Vec<(String, String)>,
}

impl Processes {
    /// No process yet; logs go to this folder.
    #[must_use]
    pub fn new(commands: Commands, folder: &Path) -> Self {
        let (running, stopped, exited) = (Vec::new(), BTreeSet::new(), Vec::new());
        Self { commands, folder: folder.to_owned(), running, started: 0, stopped, exited }
    }

    /// Starts one more; its clock goes right, or is so far off.
    pub fn start(&mut self, role: Role, off: Option<&ClockShift>) -> io::Result<()> {
        self.started += 1;
        let (name, line) = match role {
            Role::Engine => ("engine", &self.commands.engine),
            Role::Worker => ("worker", &self.commands.worker),
        };
        // A folder of its own: it goes when the process is abandoned.
        let home = self.folder.join(format!("{name}-{}", self.started));
        fs::create_dir_all(&home)?;
        let log = self.folder.join(format!("{name}-{}.log", self.started));
        let (executable, arguments) =
            line.split_first().ok_or_else(|| io::Error::other("nothing to start"))?;
        let mut environment = self.commands.environment.clone();
        environment.extend(off.into_iter().flat_map(ClockShift::environment));
        let guard =
            ProcessGuard::start(Path::new(executable), arguments, &environment, &home, &log)?;
        self.running.push((role, guard));
        Ok(())
    }

    /// Kills one of a role with SIGKILL; says whether there was any.
    pub fn kill(&mut self, role: Role, whom: usize) -> io::Result<bool> {
        let Some(at) = self.pick(role, whom, |_| true) else { return Ok(false) };
        let (role, mut guard) = self.running.remove(at);
        self.stopped.remove(&guard.server_pid());
        self.exited.extend(unexpected_exit(role, &mut guard)?);
        guard.kill()?;
        Ok(true)
    }

    /// Lets one of a role stand still that does not yet; its process, to let it go on.
    pub fn stop(&mut self, role: Role, whom: usize) -> io::Result<Option<u32>> {
        let runs = |pid| !self.stopped.contains(&pid);
        let Some(at) = self.pick(role, whom, runs) else { return Ok(None) };
        let pid = self.running[at].1.server_pid();
        signal(Signal::Stop, pid)?;
        self.stopped.insert(pid);
        Ok(Some(pid))
    }

    /// Lets one go on, unless it was killed meanwhile.
    pub fn resume(&mut self, pid: u32) -> io::Result<()> {
        if self.stopped.remove(&pid) { signal(Signal::Continue, pid) } else { Ok(()) }
    }

    /// Those that exited without being killed.
    pub fn unexpected_exits(&mut self) -> io::Result<Vec<String>> {
        let mut found = self.exited.clone();
        for (role, guard) in &mut self.running {
            found.extend(unexpected_exit(*role, guard)?);
        }
        Ok(found)
    }

    /// What engines and workers say about functions that raised an error: no fault of ours makes
    /// them.
    #[must_use]
    pub fn raised(&self) -> Vec<String> {
        let logs = fs::read_dir(&self.folder).into_iter().flatten().filter_map(Result::ok);
        let logs = logs.filter(|entry| entry.path().extension().is_some_and(|end| end == "log"));
        let texts = logs.filter_map(|entry| fs::read(entry.path()).ok());
        texts
            .flat_map(|text| {
                let text = String::from_utf8_lossy(&text).into_owned();
                let raised = text.lines().filter(|line| line.contains("user_function")).take(3);
                raised.map(|line| format!("a function raised: {line}")).collect::<Vec<_>>()
            })
            .collect()
    }

    fn pick(&self, role: Role, whom: usize, suits: impl Fn(u32) -> bool) -> Option<usize> {
        let of_role: Vec<_> = self
            .running
            .iter()
            .enumerate()
            .filter(|(_, (known, guard))| *known == role && suits(guard.server_pid()))
            .map(|(at, _)| at)
            .collect();
        of_role.get(whom % of_role.len().max(1)).copied()
    }
}

/// The finding about a process that has exited without being killed.
fn unexpected_exit(role: Role, guard: &mut ProcessGuard) -> io::Result<Option<String>> {
    let pid = guard.server_pid();
    Ok(guard.ended()?.map(|status| format!("{role:?} {pid} ended by itself: {status}")))
}

/// A wall clock that is off, by the means of libfaketime.
#[derive(Clone, Debug)]
pub struct ClockShift {
    library: PathBuf,
    /// By how many seconds.
    seconds: i64,
}

impl ClockShift {
    /// None where libfaketime is not installed.
    #[must_use]
    pub fn by(seconds: i64) -> Option<Self> {
        let folders = fs::read_dir("/usr/lib").ok()?.filter_map(Result::ok);
        let library = folders
            .map(|folder| folder.path().join("faketime/libfaketime.so.1"))
            .find(|library| library.exists())?;
        Some(Self { library, seconds })
    }

    fn environment(&self) -> [(String, String); 3] {
        [
            ("LD_PRELOAD".to_owned(), self.library.display().to_string()),
            ("FAKETIME".to_owned(), format!("{:+}", self.seconds)),
            // Pauses are measured by the other clock, which never jumps.
            ("FAKETIME_DONT_FAKE_MONOTONIC".to_owned(), "1".to_owned()),
        ]
    }
}

/// Sends a signal to a process that this harness started, or behind a `-` to its whole group.
pub fn signal(what: Signal, whom: impl ToString) -> io::Result<()> {
    let name = match what {
        Signal::Stop => "-STOP",
        Signal::Continue => "-CONT",
        Signal::Interrupt => "-INT",
        Signal::End => "-TERM",
    };
    // One that was killed meanwhile needs no signal.
    let whom = whom.to_string();
    Command::new("kill").args([name, "--", &whom]).stderr(Stdio::null()).status().map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wait::Wait;
    use std::time::Duration;

    /// Engines run on; workers say this and end.
    fn processes(folder: &Path, worker_says: &str) -> Processes {
        let words = |words: &[&str]| words.iter().map(OsString::from).collect();
        let engine = words(&["sleep", "60"]);
        let worker = words(&["sh", "-c", "echo \"$0\"", worker_says]);
        Processes::new(Commands { engine, worker, environment: Vec::new() }, folder)
    }

    #[test]
    fn an_unexpected_exit_is_reported_even_after_a_kill() {
        let folder = tempfile::tempdir().unwrap();
        let mut processes = processes(folder.path(), "bye");
        assert!(!processes.kill(Role::Engine, 0).unwrap(), "there is none");
        assert_eq!(processes.stop(Role::Worker, 0).unwrap(), None, "there is none");
        processes.start(Role::Engine, None).unwrap();
        assert!(processes.kill(Role::Engine, 7).unwrap());
        processes.start(Role::Engine, None).unwrap();
        assert!(processes.unexpected_exits().unwrap().is_empty(), "one was killed, one runs");
        processes.start(Role::Worker, None).unwrap();
        let ended = || processes.unexpected_exits().unwrap().pop();
        let ended = Wait::at_most(Duration::from_secs(30)).until(ended).unwrap();
        assert!(ended.contains("ended by itself"), "{ended}");
        processes.kill(Role::Worker, 0).unwrap();
        assert_eq!(processes.unexpected_exits().unwrap(), [ended]);
    }

    #[test]
    fn a_stopped_process_is_not_stopped_again() {
        let folder = tempfile::tempdir().unwrap();
        let mut processes = processes(folder.path(), "bye");
        processes.start(Role::Engine, None).unwrap();
        let stopped = processes.stop(Role::Engine, 0).unwrap();
        assert!(stopped.is_some());
        assert_eq!(processes.stop(Role::Engine, 0).unwrap(), None, "it stands still");
        processes.resume(stopped.unwrap()).unwrap();
        assert_eq!(processes.stop(Role::Engine, 0).unwrap(), stopped, "it went on");
        assert!(processes.kill(Role::Engine, 0).unwrap(), "whoever stands still can be killed");
    }

    #[test]
    fn a_script_error_is_found_in_the_logs_of_processes() {
        for (says, found) in [("all is well", 0), ("error at user_function:7: nil value", 1)] {
            let folder = tempfile::tempdir().unwrap();
            let mut processes = processes(folder.path(), says);
            processes.start(Role::Worker, None).unwrap();
            let ended = || processes.unexpected_exits().unwrap().pop();
            Wait::at_most(Duration::from_secs(30)).until(ended).unwrap();
            let raised = processes.raised();
            assert_eq!(raised.len(), found, "{raised:?}");
            assert!(raised.iter().all(|told| told.contains(says)), "{raised:?}");
        }
    }
}
