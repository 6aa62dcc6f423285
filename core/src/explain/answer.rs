//! What an explanation says.

use alloc::string::String;
use alloc::vec::Vec;

use super::present::Engines;
use crate::engine::ScannerName;
use crate::id::ExecutionId;
use crate::state::{StateVector, TerminalOutcome};
use crate::time::ServerTime;

/// Why an execution is in its state.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Explanation {
    /// The execution.
    pub execution_id: ExecutionId,
    /// Its namespace.
    pub namespace: String,
    /// The time of the server's clock for which this is said.
    pub at: ServerTime,
    /// Its state; none if its record is damaged.
    pub state: Option<StateVector>,
    /// When it last changed its state.
    pub moved_at: Option<ServerTime>,
    /// Whether an engine runs.
    pub engines: Engines,
    /// Its state in one sentence.
    pub headline: String,
    /// What must happen before it continues: all of these, unless an entry says otherwise.
    pub waits: Vec<Wait>,
    /// Timeouts and deadlines that end or move it whatever happens to `waits`.
    pub limits: Vec<Wait>,
    /// The upstreams because of which it was skipped.
    pub skipped_for: Vec<LostCause>,
}

/// One thing that an execution waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Wait {
    /// What kind of thing.
    pub reason: Reason,
    /// What it waits for.
    pub on: String,
    /// What is known about it now, as a sentence; empty if nothing is.
    pub now: String,
    /// Who can make it happen.
    pub unblocked_by: UnblockedBy,
    /// By when it happens.
    pub by: DueBy,
    /// The limit that holds it back now, if one does.
    pub limit: Option<FullLimit>,
}

wire_enum! {
    /// What kind of thing an execution waits for.
    pub enum Reason {
        /// A worker that is free.
        Worker = "worker",
        /// A worker that can run it: none that is alive can.
        NoWorker = "no_worker",
        /// Its handler, which runs.
        Handler = "handler",
        /// Its lost lease to be noticed.
        LostLease = "lost_lease",
        /// A time.
        Delay = "delay",
        /// Room in a budget.
        Budget = "budget",
        /// A window of a quota with room for another start.
        QuotaRate = "quota_rate",
        /// One of those to end that run under a quota.
        QuotaConcurrency = "quota_concurrency",
        /// To be released: what held it is over.
        Release = "release",
        /// An upstream, which has not ended.
        Upstream = "upstream",
        /// The word of an upstream that has ended, or whose record is lost.
        Dispatch = "dispatch",
        /// The replay of an upstream.
        Replay = "replay",
        /// The rest of its flow to be submitted.
        Submission = "submission",
        /// A signal.
        Signal = "signal",
        /// The timeout of its suspension.
        SuspensionTimeout = "suspension_timeout",
        /// To be cancelled with its flow.
        Cancellation = "cancellation",
        /// Its deadline.
        Deadline = "deadline",
        /// The time allowed for its attempt.
        AttemptTimeout = "attempt_timeout",
        /// The end of its lease.
        LeaseEnd = "lease_end",
        /// The end of its retention.
        Retention = "retention",
        /// To be unblocked by a person.
        Operator = "operator",
        /// Its lane to be resumed.
        PausedLane = "paused_lane",
        /// An entry of an index that is missing.
        IndexEntry = "index_entry",
        /// The repair of its records.
        Damage = "damage",
    }
}

/// Who can change the state of an execution.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UnblockedBy {
    /// A worker.
    Worker(String),
    /// The holder of a waitpoint token.
    Signaller(String),
    /// A scanner of any engine.
    Scanner(ScannerName),
    /// Another execution, when it ends.
    Upstream(ExecutionId),
    /// The client that submits the flow.
    Submitter,
    /// An operator.
    Operator,
    /// Nobody: the record is inconsistent; `selvedge fsck` tells more.
    Nobody,
}

/// By when something happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DueBy {
    /// By this time of the server's clock, as long as an engine runs.
    Time(ServerTime),
    /// It was due at this time of the server's clock.
    Overdue(ServerTime),
    /// No time is known.
    Unknown,
}

/// A limit without room.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FullLimit {
    /// The id of the budget or quota.
    pub id: String,
    /// What is limited: a dimension of the budget, `starts` or `running`.
    pub dimension: String,
    /// How much of it is used.
    pub used: i64,
    /// How much of it may be used.
    pub limit: i64,
    /// When there is room again, if the time alone makes room.
    pub frees_at: Option<ServerTime>,
}

/// An upstream because of which an execution was skipped.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LostCause {
    /// The upstream.
    pub execution_id: ExecutionId,
    /// How it ended; none if its record is gone.
    pub outcome: Option<TerminalOutcome>,
    /// Why it did, as recorded.
    pub reason: String,
}

wire_enum! {
    /// How urgently a person should look at an execution, worst first.
    pub enum Urgency {
        /// Its records are damaged, or nobody can move it.
        Broken = "broken",
        /// Something should have happened and did not.
        Overdue = "overdue",
        /// No worker that is alive can run it.
        NoWorker = "no_worker",
        /// A person must act: submit, send a signal, raise a limit, replay.
        Person = "person",
        /// A limit is full.
        Limit = "limit",
        /// It waits for a free worker.
        Worker = "worker",
        /// An engine will move it in time.
        Engine = "engine",
        /// It waits for other executions only.
        Upstream = "upstream",
        /// It runs.
        Runs = "runs",
        /// It has ended.
        Ended = "ended",
    }
}

impl Explanation {
    /// How urgently a person should look at it.
    #[must_use]
    pub fn urgency(&self) -> Urgency {
        if self.state.is_some_and(|state| state.is_terminal()) {
            return Urgency::Ended;
        }
        let worst = self.waits.iter().map(Wait::urgency).min().unwrap_or(Urgency::Engine);
        let is_late = self.limits.iter().any(|limit| matches!(limit.by, DueBy::Overdue(_)));
        if is_late { worst.min(Urgency::Overdue) } else { worst }
    }

    /// What it waits for first: the most urgent wait.
    #[must_use]
    pub fn root(&self) -> Option<&Wait> {
        self.waits.iter().min_by_key(|wait| wait.urgency())
    }
}

impl Wait {
    pub(super) const fn new(
        reason: Reason,
        on: String,
        unblocked_by: UnblockedBy,
        by: DueBy,
    ) -> Self {
        Self { reason, on, now: String::new(), unblocked_by, by, limit: None }
    }

    /// How urgently a person should look at an execution that waits for this.
    #[must_use]
    pub fn urgency(&self) -> Urgency {
        if matches!(self.by, DueBy::Overdue(_)) {
            return Urgency::Overdue;
        }
        match (&self.unblocked_by, self.reason) {
            (UnblockedBy::Nobody, _) | (_, Reason::Damage | Reason::IndexEntry) => Urgency::Broken,
            (_, Reason::NoWorker) => Urgency::NoWorker,
            (UnblockedBy::Operator | UnblockedBy::Submitter | UnblockedBy::Signaller(_), _) => {
                Urgency::Person
            }
            (_, Reason::Budget | Reason::QuotaRate | Reason::QuotaConcurrency) => Urgency::Limit,
            (UnblockedBy::Worker(_), Reason::Handler) => Urgency::Runs,
            (UnblockedBy::Worker(_), _) => Urgency::Worker,
            (UnblockedBy::Scanner(_), _) => Urgency::Engine,
            (UnblockedBy::Upstream(_), _) => Urgency::Upstream,
        }
    }
}
