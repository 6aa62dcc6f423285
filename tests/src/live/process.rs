//! [`Cast`]: engines and workers as processes, which can be killed, stopped and replaced.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::keeper::Keeper;

/// Who is who among the processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// `selvedge serve`.
    Engine,
    /// The worker of the harness.
    Worker,
}

/// What a process can be told by the system.
#[derive(Clone, Copy, Debug)]
pub enum Signal {
    /// Stand still.
    Stop,
    /// Go on.
    Continue,
    /// End in good order.
    Interrupt,
}

/// All processes of a schedule. They end with it, however it ends.
pub struct Cast {
    commands: Commands,
    folder: PathBuf,
    players: Vec<(Role, Keeper)>,
    started: usize,
    /// Those that had ended by themselves when somebody came to kill them.
    deserted: Vec<String>,
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

impl Cast {
    /// Nobody yet; logs will be in this folder.
    #[must_use]
    pub fn new(commands: Commands, folder: &Path) -> Self {
        let (players, deserted) = (Vec::new(), Vec::new());
        Self { commands, folder: folder.to_owned(), players, started: 0, deserted }
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
        let keeper = Keeper::start(Path::new(executable), arguments, &environment, &home, &log)?;
        self.players.push((role, keeper));
        Ok(())
    }

    /// Kills one of a role with SIGKILL; says whether there was any.
    pub fn kill(&mut self, role: Role, whom: usize) -> io::Result<bool> {
        let Some(at) = self.pick(role, whom) else { return Ok(false) };
        let (role, mut keeper) = self.players.remove(at);
        self.deserted.extend(deserter(role, &mut keeper)?);
        keeper.kill()?;
        Ok(true)
    }

    /// Lets one of a role stand still; its process, to let it go on.
    pub fn stop(&mut self, role: Role, whom: usize) -> io::Result<Option<u32>> {
        let Some(at) = self.pick(role, whom) else { return Ok(None) };
        let pid = self.players[at].1.server_pid();
        signal(Signal::Stop, pid)?;
        Ok(Some(pid))
    }

    /// Those that ended although nobody killed them.
    pub fn deserters(&mut self) -> io::Result<Vec<String>> {
        let mut found = self.deserted.clone();
        for (role, keeper) in &mut self.players {
            found.extend(deserter(*role, keeper)?);
        }
        Ok(found)
    }

    fn pick(&self, role: Role, whom: usize) -> Option<usize> {
        let of_role: Vec<_> = self
            .players
            .iter()
            .enumerate()
            .filter(|(_, (known, _))| *known == role)
            .map(|(at, _)| at)
            .collect();
        of_role.get(whom % of_role.len().max(1)).copied()
    }
}

/// What to say of a process that has ended, though nobody has killed it.
fn deserter(role: Role, keeper: &mut Keeper) -> io::Result<Option<String>> {
    let pid = keeper.server_pid();
    Ok(keeper.ended()?.map(|status| format!("{role:?} {pid} ended by itself: {status}")))
}

/// A wall clock that is off, by the means of libfaketime.
#[derive(Clone, Debug)]
pub struct ClockShift {
    library: PathBuf,
    /// By how many seconds.
    seconds: i64,
}

impl ClockShift {
    /// None where nobody installed libfaketime.
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

/// Sends a signal to a process that this harness started.
pub fn signal(what: Signal, pid: u32) -> io::Result<()> {
    let name = match what {
        Signal::Stop => "-STOP",
        Signal::Continue => "-CONT",
        Signal::Interrupt => "-INT",
    };
    // One that was killed meanwhile needs no signal.
    Command::new("kill").args([name, &pid.to_string()]).stderr(Stdio::null()).status().map(drop)
}
