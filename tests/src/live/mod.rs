//! Real engines and workers as processes, on real servers, under injected faults.
//!
//! A seed makes a [`fault_schedule::FaultSchedule`]: servers, processes, and which
//! [`fault_schedule::Fault`] is injected when. Meanwhile a [`load`] submits flows and records what
//! callers were told. Then all faults are undone, all work must end, and the [`judge`] reads the
//! whole keyspace: the state oracles of [`selvedge_core::audit`] must find nothing, and everything
//! that a caller was told must be true.

mod cluster_info;
pub mod fault_schedule;
pub mod handler_runs;
pub mod judge;
pub mod load;
pub mod primary_crash;
pub mod process_main;
pub mod processes;
pub mod read_keyspace;
pub mod report;
pub mod schedule_run;
pub mod servers;
pub mod shapes;

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The time of day that all processes of a schedule share, in milliseconds.
#[must_use]
#[expect(clippy::disallowed_methods, reason = "processes compare what they saw by the clock")]
pub fn clock_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
