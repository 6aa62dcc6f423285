//! [`ProcessGuard`]: ends a process with the process that started it, however that ends.
//!
//! A `Drop` does not run for a static, nor in a process that is killed. So a server is started
//! through a small shell that holds the reading end of a pipe: when this process ends, the kernel
//! closes the pipe, and the shell kills the server and removes its folder.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};

/// `$1` is the server's folder, the rest is the server's command line. Signals that ask for an end
/// are ignored: the shell must outlive whoever started it to clean up after him. The guard waits on
/// the pipe. The word `kill` leaves the folder in place for a restart; the end of the pipe does
/// not, which the guard marks by a file, because the shell may be faster than its ending.
const SCRIPT: &str = r#"
trap '' HUP INT TERM
folder=$1; shift
exec 3<&0
"$@" </dev/null >&2 3<&- &
server=$!
(
  read -r word <&3
  [ "$word" = kill ] || : >"$folder/abandoned"
  kill -9 $server
) &
guard=$!
exec 3<&-
echo $server
exec >/dev/null
wait $server
status=$?
kill -9 $guard
[ -e "$folder/abandoned" ] && rm -rf -- "$folder"
exit $status
"#;

/// The shell that watches over one server process.
#[derive(Debug)]
pub(crate) struct ProcessGuard {
    shell: Child,
    /// Our end of the pipe: dropping it ends the server and removes its folder.
    line: Option<ChildStdin>,
    server_pid: u32,
}

impl ProcessGuard {
    /// Starts an executable with these arguments, its output appended to `log`, all in `folder`.
    pub(crate) fn start(
        executable: &Path,
        arguments: &[OsString],
        environment: &[(String, String)],
        folder: &Path,
        log: &Path,
    ) -> io::Result<Self> {
        let mut shell = Command::new("sh")
            .args(["-c", SCRIPT, "selvedge-guard"])
            .arg(folder)
            .arg(executable)
            .args(arguments)
            .envs(environment.iter().cloned())
            .current_dir(folder)
            // A Ctrl-C goes to the whole group. It is for us: the server ends when we say so.
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(File::options().create(true).append(true).open(log)?)
            .spawn()?;
        let line = shell.stdin.take();
        let mut announced = String::new();
        let said = shell.stdout.take().ok_or_else(|| io::Error::other("no output to read from"))?;
        BufReader::new(said).read_line(&mut announced)?;
        let server_pid = announced
            .trim()
            .parse()
            .map_err(|_| io::Error::other(format!("the guard announced no pid: {announced:?}")))?;
        Ok(Self { shell, line, server_pid })
    }

    /// Kills the server with SIGKILL, leaves its folder, and returns when the process is gone.
    pub(crate) fn kill(&mut self) -> io::Result<()> {
        if let Some(mut line) = self.line.take() {
            // The write fails only if the server had ended by itself, which is as good.
            let _ = line.write_all(b"kill\n");
        }
        self.shell.wait().map(drop)
    }

    /// How the server ended, if it has.
    pub(crate) fn ended(&mut self) -> io::Result<Option<ExitStatus>> {
        self.shell.try_wait()
    }

    pub(crate) fn server_pid(&self) -> u32 {
        self.server_pid
    }
}

impl Drop for ProcessGuard {
    fn drop(&mut self) {
        drop(self.line.take());
        let _ = self.shell.wait();
    }
}
