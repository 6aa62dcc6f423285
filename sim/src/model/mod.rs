//! The reference model: what the API guarantees about one execution, as sequential Rust without
//! leases, partitions or retries. It does not read the keyspace or the engine; `wire` translates
//! for it.
//!
//! Several operations on an execution may be in progress at once, and the result of some is never
//! known. So the model keeps every [`Status`] that is possible after the replies so far. When none
//! is left, a client got a reply that is not allowed.

mod rules;
mod wire;

use std::collections::BTreeSet;

use rules::{apply, effects, idle_answers};

/// The status of an execution, as far as the API shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Status {
    /// Not created, or purged.
    Absent,
    /// Waiting, running or suspended.
    Live,
    /// Has ended.
    Ended(End),
}

/// The outcome of an execution.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum End {
    /// Its worker completed it.
    Success,
    /// Its worker failed it without a retry.
    Failed,
    /// A client cancelled it.
    Cancelled,
    /// It missed a deadline or timeout.
    Expired,
    /// Its dependencies cannot be met.
    Skipped,
}

/// An operation of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Operation {
    /// Create it.
    Create,
    /// Claim it.
    Claim,
    /// Complete it.
    Complete,
    /// Fail it.
    Fail,
    /// Cancel it.
    Cancel,
    /// Replay it.
    Replay,
}

/// The reply to an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reply {
    /// Done.
    Done,
    /// Done, and the execution has failed for good.
    DoneForGood,
    /// Already done before.
    Already,
    /// Refused: it does not exist.
    NoSuch,
    /// Refused: it has ended.
    HasEnded,
    /// Refused: it has not ended.
    HasNotEnded,
    /// Refused for another reason.
    Refused,
}

/// What may happen to an execution without an operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Permitted {
    /// It has a deadline or a timeout.
    pub may_expire: bool,
    /// It is in a flow: it may be skipped, or cancelled with others.
    pub in_flow: bool,
    /// It may fail after too many lost leases.
    pub may_be_given_up: bool,
    /// It was suspended with a timeout, which may end it in any way.
    pub may_time_out: bool,
    /// Its purge may have begun: then it cannot be replayed.
    pub may_be_half_gone: bool,
}

/// An execution, with every status that it may have.
#[derive(Clone, Debug)]
pub struct Execution {
    possible: BTreeSet<(Status, BTreeSet<u64>)>,
    open: Vec<Open>,
    /// Operations without a known result: they may take effect at any time, or never.
    unheard: BTreeSet<Operation>,
    /// What may happen without an operation.
    pub permitted: Permitted,
}

/// An operation in progress.
#[derive(Clone, Debug)]
struct Open {
    number: u64,
    operation: Operation,
    /// Replies without effect that it could have got since it began: a reply may arrive later than
    /// that of a later operation.
    idle: BTreeSet<Reply>,
}

impl Default for Execution {
    fn default() -> Self {
        Self {
            possible: BTreeSet::from([(Status::Absent, BTreeSet::new())]),
            open: Vec::new(),
            unheard: BTreeSet::new(),
            permitted: Permitted::default(),
        }
    }
}

impl Execution {
    /// A client starts an operation.
    pub fn begin(&mut self, number: u64, operation: Operation) {
        self.open.push(Open { number, operation, idle: BTreeSet::new() });
    }

    /// A client gets a reply.
    ///
    /// # Errors
    /// The possible statuses, if none of them allows this reply.
    pub fn end(&mut self, number: u64, reply: Reply) -> Result<(), String> {
        let Some(at) = self.open.iter().position(|open| open.number == number) else {
            return Ok(());
        };
        self.spread();
        let Open { operation, idle, .. } = self.open.remove(at);
        let before: BTreeSet<Status> = self.possible.iter().map(|(status, _)| *status).collect();
        let possible = std::mem::take(&mut self.possible);
        for (status, mut done) in possible {
            if done.remove(&number) {
                // It took effect some time ago, so its reply must say so.
                if matches!(reply, Reply::Done | Reply::DoneForGood) {
                    self.possible.insert((status, done));
                }
                continue;
            }
            let half_gone = self.permitted.may_be_half_gone
                && (operation, reply) == (Operation::Replay, Reply::HasNotEnded);
            if half_gone || idle.contains(&reply) {
                self.possible.insert((status, done.clone()));
            }
            if let Some(next) = apply(operation, reply, status) {
                self.possible.insert((next, done));
            }
        }
        if self.possible.is_empty() {
            self.possible = before.iter().map(|status| (*status, BTreeSet::new())).collect();
            return Err(format!("{operation:?} was told {reply:?}, it could only be {before:?}"));
        }
        Ok(())
    }

    /// The result of an operation will never be known.
    pub fn lose(&mut self, number: u64) {
        let Some(at) = self.open.iter().position(|open| open.number == number) else { return };
        let Open { operation, .. } = self.open.remove(at);
        self.unheard.insert(operation);
        let possible = std::mem::take(&mut self.possible);
        self.possible = possible
            .into_iter()
            .map(|(status, mut done)| {
                done.remove(&number);
                (status, done)
            })
            .collect();
    }

    /// Records were lost, and this is the status now. Operations in progress may have taken effect
    /// before the loss or not.
    pub fn set_back(&mut self, status: Status) {
        self.possible = BTreeSet::from([(status, BTreeSet::new())]);
        for Open { number, .. } in &self.open {
            let also = self.possible.iter().cloned().map(|(status, mut done)| {
                done.insert(*number);
                (status, done)
            });
            let also: Vec<_> = also.collect();
            self.possible.extend(also);
        }
    }

    /// The status is observed.
    ///
    /// # Errors
    /// The possible statuses, if this is not one of them.
    pub fn observe(&mut self, status: Status) -> Result<(), String> {
        self.spread();
        let before: BTreeSet<Status> = self.possible.iter().map(|(status, _)| *status).collect();
        self.possible.retain(|(possible, _)| *possible == status);
        if self.possible.is_empty() {
            self.possible.insert((status, BTreeSet::new()));
            return Err(format!("is {status:?}, could only be {before:?}"));
        }
        Ok(())
    }

    /// Adds every status that may have been reached by now.
    fn spread(&mut self) {
        let mut fresh: Vec<_> = self.possible.iter().cloned().collect();
        while let Some((status, done)) = fresh.pop() {
            let alone = self.alone(status).into_iter().map(|next| (next, done.clone()));
            let under_way = self.open.iter().filter(|open| !done.contains(&open.number));
            let by_others = under_way.flat_map(|open| {
                effects(open.operation, status).into_iter().map(|next| {
                    let mut done = done.clone();
                    done.insert(open.number);
                    (next, done)
                })
            });
            for next in alone.chain(by_others).collect::<Vec<_>>() {
                if self.possible.insert(next.clone()) {
                    fresh.push(next);
                }
            }
        }
        for Open { number, operation, idle } in &mut self.open {
            let before_it = self.possible.iter().filter(|(_, done)| !done.contains(number));
            idle.extend(before_it.flat_map(|(status, _)| idle_answers(*operation, *status)));
        }
    }

    /// The statuses that may follow without an operation, or by operations without a known result.
    fn alone(&self, status: Status) -> Vec<Status> {
        let mut next: Vec<Status> =
            self.unheard.iter().flat_map(|operation| effects(*operation, status)).collect();
        match status {
            Status::Live => {
                if self.permitted.may_expire {
                    next.push(Status::Ended(End::Expired));
                }
                if self.permitted.in_flow {
                    next.extend([Status::Ended(End::Skipped), Status::Ended(End::Cancelled)]);
                }
                if self.permitted.may_be_given_up {
                    next.push(Status::Ended(End::Failed));
                }
                if self.permitted.may_time_out {
                    next.extend([End::Failed, End::Expired, End::Cancelled].map(Status::Ended));
                }
            }
            // An ended execution may be purged.
            Status::Ended(_) => next.push(Status::Absent),
            Status::Absent => {}
        }
        next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made() -> Execution {
        let mut execution = Execution::default();
        execution.begin(0, Operation::Create);
        execution.end(0, Reply::Done).unwrap();
        execution
    }

    #[test]
    fn a_simple_history_is_allowed() {
        let mut execution = made();
        execution.begin(1, Operation::Claim);
        execution.end(1, Reply::Done).unwrap();
        execution.begin(2, Operation::Complete);
        execution.end(2, Reply::Done).unwrap();
        execution.observe(Status::Ended(End::Success)).unwrap();
    }

    #[test]
    fn an_ended_execution_does_not_run_again() {
        let mut execution = made();
        execution.begin(1, Operation::Complete);
        execution.end(1, Reply::Done).unwrap();
        assert!(execution.observe(Status::Live).is_err());
    }

    #[test]
    fn an_execution_completes_once() {
        let mut execution = made();
        for number in [1, 2] {
            execution.begin(number, Operation::Complete);
        }
        execution.end(1, Reply::Done).unwrap();
        assert!(execution.end(2, Reply::Done).is_err());
    }

    #[test]
    fn a_cancel_with_an_unknown_result_may_have_taken_effect_or_not() {
        for end in [Status::Live, Status::Ended(End::Cancelled)] {
            let mut execution = made();
            execution.begin(1, Operation::Cancel);
            execution.lose(1);
            execution.observe(end).unwrap();
        }
        assert!(made().observe(Status::Ended(End::Cancelled)).is_err());
    }

    #[test]
    fn of_a_concurrent_cancel_and_complete_one_wins() {
        let mut execution = made();
        execution.begin(1, Operation::Cancel);
        execution.begin(2, Operation::Complete);
        execution.end(2, Reply::Done).unwrap();
        execution.end(1, Reply::HasEnded).unwrap();
        execution.observe(Status::Ended(End::Success)).unwrap();

        let mut execution = made();
        execution.begin(1, Operation::Cancel);
        execution.begin(2, Operation::Complete);
        execution.end(1, Reply::Done).unwrap();
        execution.end(2, Reply::HasEnded).unwrap();
        assert!(execution.observe(Status::Ended(End::Success)).is_err());
    }

    #[test]
    fn a_reply_may_arrive_after_that_of_a_later_operation() {
        let mut execution = Execution::default();
        execution.begin(0, Operation::Create);
        execution.begin(1, Operation::Cancel);
        execution.end(0, Reply::Done).unwrap();
        execution.end(1, Reply::NoSuch).unwrap();
        execution.observe(Status::Live).unwrap();

        let mut execution = made();
        execution.begin(1, Operation::Cancel);
        assert!(execution.end(1, Reply::NoSuch).is_err());
    }

    #[test]
    fn after_a_loss_the_history_goes_on_from_the_older_status() {
        let mut execution = made();
        execution.begin(1, Operation::Complete);
        execution.end(1, Reply::Done).unwrap();
        execution.begin(2, Operation::Replay);
        execution.set_back(Status::Live);
        execution.end(2, Reply::HasNotEnded).unwrap();
        execution.observe(Status::Live).unwrap();
        assert!(execution.observe(Status::Ended(End::Success)).is_err());
    }

    #[test]
    fn a_replay_may_be_refused_only_if_a_purge_may_have_begun() {
        let mut execution = made();
        execution.begin(1, Operation::Complete);
        execution.end(1, Reply::Done).unwrap();
        execution.permitted.may_be_half_gone = true;
        execution.begin(2, Operation::Replay);
        execution.end(2, Reply::HasNotEnded).unwrap();
        execution.permitted.may_be_half_gone = false;
        execution.observe(Status::Ended(End::Success)).unwrap();
        execution.begin(3, Operation::Replay);
        assert!(execution.end(3, Reply::HasNotEnded).is_err());
    }

    #[test]
    fn only_an_execution_with_a_deadline_expires() {
        assert!(made().observe(Status::Ended(End::Expired)).is_err());
        let mut execution = made();
        execution.permitted.may_expire = true;
        execution.observe(Status::Ended(End::Expired)).unwrap();
    }
}
