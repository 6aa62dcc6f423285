//! What is done before the first write of a procedure: limits are checked, the server's time is
//! read, partition counts are stored or compared, lanes are registered.

use alloc::collections::BTreeSet;
use alloc::string::ToString;
use alloc::vec;
use alloc::vec::Vec;

use super::call::read_time;
use super::{Failure, Procedure, Replies, Step};
use crate::call::library::{CountsFixed, FixPartitionCounts};
use crate::command::Command;
use crate::id::{BudgetId, LaneId, QuotaPolicyId};
use crate::key::Key;
use crate::lane_state::{LaneState, stored_state};
use crate::partition::PartitionCounts;
use crate::time::ServerTime;
use crate::value::Value;

/// Budgets and quotas that tasks name. They must exist: nothing would limit the tasks otherwise.
#[derive(Clone, Debug, Default)]
pub struct Limits {
    /// The budgets.
    pub budgets: BTreeSet<BudgetId>,
    /// The quotas.
    pub quotas: BTreeSet<QuotaPolicyId>,
}

/// What a procedure needs before its first write.
#[derive(Clone, Debug)]
pub struct Needs {
    /// The partition counts of the deployment.
    pub counts: PartitionCounts,
    /// Whether it is known that the deployment has these counts.
    pub counts_known: bool,
    /// Lanes that are perhaps not in the lane registry: engines serve no others.
    pub lanes: Vec<LaneId>,
    /// Limits that must exist.
    pub limits: Limits,
}

impl Needs {
    /// No lanes and no limits.
    #[must_use]
    pub fn counts(counts: PartitionCounts, counts_known: bool) -> Self {
        Self { counts, counts_known, lanes: Vec::new(), limits: Limits::default() }
    }
}

/// Does nothing but what is needed before a write: stores or compares the partition counts, and
/// registers lanes, draining ones too.
pub struct RegisterLanes(Preparation);

impl RegisterLanes {
    /// Registers the lanes of these needs.
    #[must_use]
    pub const fn new(needs: Needs) -> Self {
        let mut preparation = Preparation::new(needs, None);
        preparation.submits = false;
        Self(preparation)
    }

    fn prepared(prepared: Prepare) -> Step<()> {
        match prepared {
            Prepare::Send(commands) => Step::Send(commands),
            Prepare::Failed(failure) => Step::Done(Err(failure)),
            Prepare::Ready(_) => Step::Done(Ok(())),
        }
    }
}

impl Procedure for RegisterLanes {
    type Output = ();

    fn begin(&mut self) -> Step<()> {
        Self::prepared(self.0.begin())
    }

    fn replied(&mut self, replies: Replies) -> Step<()> {
        Self::prepared(self.0.replied(replies))
    }
}

/// The next step of a preparation.
pub(super) enum Prepare {
    Send(Vec<Command>),
    /// Everything is there; with the server's time, if it was wanted.
    Ready(Option<ServerTime>),
    Failed(Failure),
}

enum Stage {
    Reads,
    Counts,
    Lanes,
}

/// Prepares the writes of a procedure. Reads come first: what does not exist must fail before
/// anything is written.
pub(super) struct Preparation {
    needs: Needs,
    /// The slot whose server's time is wanted.
    time_of: Option<u16>,
    now: Option<ServerTime>,
    stage: Stage,
    /// Whether new work is to be submitted: not to a lane that is being drained.
    submits: bool,
}

impl Preparation {
    pub(super) const fn new(needs: Needs, time_of: Option<u16>) -> Self {
        Self { needs, time_of, now: None, stage: Stage::Reads, submits: true }
    }

    pub(super) fn begin(&mut self) -> Prepare {
        self.stage = Stage::Reads;
        let exist = self.limits().into_iter().map(|(.., key)| Command::read("EXISTS", &key, &[]));
        let reads: Vec<Command> = exist.chain(self.time_of.map(Command::time)).collect();
        if reads.is_empty() { self.fix_counts() } else { Prepare::Send(reads) }
    }

    pub(super) fn replied(&mut self, mut replies: Replies) -> Prepare {
        match self.stage {
            Stage::Reads => self.on_reads(replies),
            Stage::Counts => match replies.call::<FixPartitionCounts>() {
                Ok(CountsFixed::Fixed | CountsFixed::Same) => self.register_lanes(),
                Ok(CountsFixed::Different { flow, budget, quota }) => {
                    Prepare::Failed(Failure::OtherCounts { flow, budget, quota })
                }
                Err(failure) => Prepare::Failed(failure),
            },
            Stage::Lanes => self.on_lanes(replies),
        }
    }

    fn on_reads(&mut self, mut replies: Replies) -> Prepare {
        for (kind, id, _) in self.limits() {
            if replies.value() == Value::Int(0) {
                return Prepare::Failed(Failure::NotFound { kind, id });
            }
        }
        if self.time_of.is_some() {
            match read_time(&replies.value()) {
                Ok(now) => self.now = Some(now),
                Err(failure) => return Prepare::Failed(failure),
            }
        }
        self.fix_counts()
    }

    /// The counts decide where keys are.
    fn fix_counts(&mut self) -> Prepare {
        if self.needs.counts_known {
            return self.register_lanes();
        }
        self.stage = Stage::Counts;
        let counts = self.needs.counts;
        Prepare::Send(vec![Command::call(&FixPartitionCounts { counts })])
    }

    fn register_lanes(&mut self) -> Prepare {
        if self.needs.lanes.is_empty() {
            return Prepare::Ready(self.now);
        }
        self.stage = Stage::Lanes;
        let names: Vec<&[u8]> =
            self.needs.lanes.iter().map(|lane| lane.as_str().as_bytes()).collect();
        let states = Command::read("HMGET", &Key::LaneStates, &names);
        Prepare::Send(vec![Command::write("SADD", &Key::Lanes, &names), states])
    }

    fn on_lanes(&self, replies: Replies) -> Prepare {
        let states = replies.into_values().pop();
        let states = if let Some(Value::Array(states)) = states { states } else { Vec::new() };
        let mut of_lanes = self.needs.lanes.iter().zip(states);
        match of_lanes.find(|(_, state)| stored_state(state) == Some(LaneState::Draining)) {
            Some((lane, _)) if self.submits => {
                Prepare::Failed(Failure::LaneDraining { lane: lane.clone() })
            }
            _ => Prepare::Ready(self.now),
        }
    }

    /// Kind, id and record of each limit.
    fn limits(&self) -> Vec<(&'static str, alloc::string::String, Key)> {
        let Needs { counts, limits, .. } = &self.needs;
        let budgets = limits
            .budgets
            .iter()
            .map(|&id| ("budget", id.to_string(), Key::budget(counts.of_budget(id), id).record()));
        let quotas = limits
            .quotas
            .iter()
            .map(|&id| ("quota", id.to_string(), Key::quota(counts.of_quota(id), id).record()));
        budgets.chain(quotas).collect()
    }
}
