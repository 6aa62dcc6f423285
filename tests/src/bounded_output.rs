//! [`BoundedOutput`]: the output of a command that must end in time.
//!
//! A test that waits for a process without a limit hangs with it and says nothing. Here the process
//! is killed, and the test fails with what it had printed.

use std::io::Read;
use std::process::{Child, Command, Output, Stdio};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::wait::Wait;

/// Runs commands with a time limit.
pub trait BoundedOutput {
    /// The output of the process.
    ///
    /// # Panics
    /// When it cannot be started or does not end in time. It is killed then.
    fn bounded_output(self) -> Output;
}

impl BoundedOutput for &mut Command {
    fn bounded_output(self) -> Output {
        self.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        match self.spawn() {
            Ok(child) => child.bounded_output(),
            Err(error) => panic!("{self:?} does not start: {error}"),
        }
    }
}

impl BoundedOutput for Child {
    fn bounded_output(mut self) -> Output {
        drop(self.stdin.take());
        // Both are read meanwhile: a process whose pipe is full does not end.
        let (stdout, stderr) = (drain(self.stdout.take()), drain(self.stderr.take()));
        let status = Wait::at_most(LIMIT).until(|| self.try_wait().ok().flatten());
        let killed = status.is_none() && self.kill().is_ok();
        let waited = self.wait();
        let output = |pipe: JoinHandle<Vec<u8>>| pipe.join().unwrap_or_default();
        let (stdout, stderr) = (output(stdout), output(stderr));
        assert!(
            !killed,
            "the process did not end within {LIMIT:?}; it had printed:\n{}{}",
            String::from_utf8_lossy(&stdout),
            String::from_utf8_lossy(&stderr),
        );
        let status = waited.unwrap_or_else(|error| panic!("no exit status: {error}"));
        Output { status, stdout, stderr }
    }
}

fn drain(pipe: Option<impl Read + Send + 'static>) -> JoinHandle<Vec<u8>> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut pipe) = pipe {
            // What was read before an error is kept.
            let _ = pipe.read_to_end(&mut bytes);
        }
        bytes
    })
}

/// Long against every command of the tests on a busy machine, short against the limit of a run.
const LIMIT: Duration = Duration::from_secs(180);
