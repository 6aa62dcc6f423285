//! [`Run`]: one run of a handler, as the worker recorded it.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use super::clock_ms;

/// One line of a worker's notes: a handler began.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// When.
    pub at_ms: u64,
    /// Which execution.
    pub execution: String,
    /// Which attempt of it.
    pub attempt: u32,
    /// Whether a suspension ended, so that the same attempt goes on.
    pub resumed: bool,
    /// What the run gives back if it gets so far; no two runs give the same.
    pub result: String,
}

/// Where a worker notes its runs; a note survives the death of the worker.
#[derive(Debug)]
pub struct RunLog(Mutex<File>);

impl RunLog {
    /// Goes on behind what is there.
    pub fn open(path: &Path) -> io::Result<Self> {
        Ok(Self(Mutex::new(OpenOptions::new().create(true).append(true).open(path)?)))
    }

    /// Records that a handler begins.
    pub fn begin(&self, run: &Run) -> io::Result<()> {
        let Run { at_ms, execution, attempt, resumed, result } = run;
        let line = format!("{at_ms} {execution} {attempt} {resumed} {result}\n");
        // One write, so that lines of several workers in one file never mix.
        self.0.lock().unwrap_or_else(PoisonError::into_inner).write_all(line.as_bytes())
    }
}

impl Run {
    /// A run that begins now.
    #[must_use]
    pub fn now(execution: String, attempt: u32, resumed: bool, result: String) -> Self {
        Self { at_ms: clock_ms(), execution, attempt, resumed, result }
    }

    /// Reads a line of the notes; a worker may have died in the middle of one.
    #[must_use]
    pub fn read(line: &str) -> Option<Self> {
        let words: Vec<&str> = line.split(' ').collect();
        let [at_ms, execution, attempt, resumed, result] = words[..] else { return None };
        Some(Self {
            at_ms: at_ms.parse().ok()?,
            execution: execution.to_owned(),
            attempt: attempt.parse().ok()?,
            resumed: resumed.parse().ok()?,
            result: result.to_owned(),
        })
    }
}
