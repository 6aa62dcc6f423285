//! What scanning hands back, and what it gets back with replies.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;

use super::page::PageRequest;
use super::step::NextStep;
use crate::command::Command;
use crate::engine::observe::Observation;
use crate::id::ExecutionId;
use crate::partition::Partition;
use crate::requests::Priority;
use crate::time::LocalTime;

/// What scanning hands back.
pub(in crate::engine) enum Event {
    /// These commands; [`super::Scanning::resume`] goes on with their replies.
    Request(Vec<Command>, Priority, Continuation),
    /// A scanner skipped an execution, whose own edges come next, by a call that was sent at this
    /// time at the earliest.
    Skipped(ExecutionId, LocalTime),
    Observe(Observation),
}

/// What goes on when replies are there.
pub(in crate::engine) struct Continuation(pub(super) Resume);

pub(super) enum Resume {
    /// The pages of a visit.
    Pages(Partition, Vec<PageRequest>),
    /// A page of an audit.
    Audit(Partition, Box<PageRequest>),
    /// A candidate's next step.
    Step(CandidateId, NextStep),
}

/// A candidate of a page that is being worked on.
pub(super) struct CandidateId {
    pub(super) index_scan: u64,
    /// Its name for logs and for the failure tracker.
    pub(super) label: String,
}
