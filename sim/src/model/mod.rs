//! The reference model: what the API promises about one execution, as plain sequential Rust without
//! leases, partitions or retries. It knows neither keyspace nor engine; `wire` alone knows how they
//! spell what it hears.
//!
//! Several operations on one execution may be under way at once, and some never tell how they
//! ended. The model therefore keeps every [`Life`] that is possible after what was heard so far; when
//! none is left, somebody was told something that cannot be.

mod wire;

use std::collections::BTreeSet;

/// What an execution is, as far as the API tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Life {
    /// Never made, or purged.
    Absent,
    /// Waits, runs or is suspended.
    Live,
    /// Has ended.
    Ended(End),
}

/// How an execution ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum End {
    /// Its worker completed it.
    Success,
    /// Its worker failed it for good.
    Failed,
    /// Somebody cancelled it.
    Cancelled,
    /// It ran out of time.
    Expired,
    /// Its dependencies cannot be met.
    Skipped,
}

/// What somebody asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Operation {
    /// It shall be there.
    Create,
    /// A worker asks for it.
    Claim,
    /// Its worker completes it.
    Complete,
    /// Its worker fails it.
    Fail,
    /// It shall end.
    Cancel,
    /// It shall run again.
    Replay,
}

/// What they were told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Told {
    /// Done.
    Done,
    /// Done, and that ended it: the last failure.
    DoneForGood,
    /// It had been done before.
    Already,
    /// Refused, for it is not there.
    NoSuch,
    /// Refused, for it has ended.
    HasEnded,
    /// Refused, for it has not ended.
    HasNotEnded,
    /// Refused for a reason that says nothing about its life.
    Refused,
}

/// What may happen to an execution by itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fate {
    /// It has a time by which it must have ended.
    pub may_expire: bool,
    /// It belongs to a flow: it can be skipped, or cancelled with others.
    pub in_flow: bool,
    /// It lost so many leases that it may be given up.
    pub may_be_given_up: bool,
    /// It waits, and a timeout may end that in any way.
    pub may_time_out: bool,
    /// Its purge may have begun: what is half gone cannot be replayed.
    pub may_be_half_gone: bool,
}

/// One execution, in every way that it can be.
#[derive(Clone, Debug)]
pub struct Execution {
    possible: BTreeSet<(Life, BTreeSet<u64>)>,
    open: Vec<Open>,
    /// Operations of which nobody heard: they may happen at any time from now on, or never.
    unheard: BTreeSet<Operation>,
    /// What may happen by itself.
    pub fate: Fate,
}

/// An operation under way.
#[derive(Clone, Debug)]
struct Open {
    number: u64,
    operation: Operation,
    /// Answers without effect that it could have got at some time since it began: others may be
    /// heard of first though they happened later.
    idle: BTreeSet<Told>,
}

impl Default for Execution {
    fn default() -> Self {
        Self {
            possible: BTreeSet::from([(Life::Absent, BTreeSet::new())]),
            open: Vec::new(),
            unheard: BTreeSet::new(),
            fate: Fate::default(),
        }
    }
}

impl Execution {
    /// Somebody asks for something.
    pub fn begin(&mut self, number: u64, operation: Operation) {
        self.open.push(Open { number, operation, idle: BTreeSet::new() });
    }

    /// They were told this.
    ///
    /// # Errors
    /// What it could have been instead, when that cannot be true.
    pub fn end(&mut self, number: u64, told: Told) -> Result<(), String> {
        let Some(at) = self.open.iter().position(|open| open.number == number) else {
            return Ok(());
        };
        self.spread();
        let Open { operation, idle, .. } = self.open.remove(at);
        let before: BTreeSet<Life> = self.possible.iter().map(|(life, _)| *life).collect();
        let possible = std::mem::take(&mut self.possible);
        for (life, mut done) in possible {
            if done.remove(&number) {
                // It happened some time ago, unseen; it must have been answered like this.
                if matches!(told, Told::Done | Told::DoneForGood) {
                    self.possible.insert((life, done));
                }
                continue;
            }
            let half_gone = self.fate.may_be_half_gone
                && (operation, told) == (Operation::Replay, Told::HasNotEnded);
            if half_gone || idle.contains(&told) {
                self.possible.insert((life, done.clone()));
            }
            if let Some(next) = apply(operation, told, life) {
                self.possible.insert((next, done));
            }
        }
        if self.possible.is_empty() {
            self.possible = before.iter().map(|life| (*life, BTreeSet::new())).collect();
            return Err(format!("{operation:?} was told {told:?}, it could only be {before:?}"));
        }
        Ok(())
    }

    /// Nobody will ever hear how this ended.
    pub fn lose(&mut self, number: u64) {
        let Some(at) = self.open.iter().position(|open| open.number == number) else { return };
        let Open { operation, .. } = self.open.remove(at);
        self.unheard.insert(operation);
        let possible = std::mem::take(&mut self.possible);
        self.possible = possible
            .into_iter()
            .map(|(life, mut done)| {
                done.remove(&number);
                (life, done)
            })
            .collect();
    }

    /// What was written about it is lost, and it is like this now. Whatever is under way may have
    /// happened before that, or not.
    pub fn set_back(&mut self, life: Life) {
        self.possible = BTreeSet::from([(life, BTreeSet::new())]);
        for Open { number, .. } in &self.open {
            let also = self.possible.iter().cloned().map(|(life, mut done)| {
                done.insert(*number);
                (life, done)
            });
            let also: Vec<_> = also.collect();
            self.possible.extend(also);
        }
    }

    /// It was seen like this.
    ///
    /// # Errors
    /// What it could have been instead.
    pub fn observe(&mut self, life: Life) -> Result<(), String> {
        self.spread();
        let before: BTreeSet<Life> = self.possible.iter().map(|(life, _)| *life).collect();
        self.possible.retain(|(possible, _)| *possible == life);
        if self.possible.is_empty() {
            self.possible.insert((life, BTreeSet::new()));
            return Err(format!("is {life:?}, could only be {before:?}"));
        }
        Ok(())
    }

    /// Takes everything in that may have happened by now.
    fn spread(&mut self) {
        let mut fresh: Vec<_> = self.possible.iter().cloned().collect();
        while let Some((life, done)) = fresh.pop() {
            let alone = self.alone(life).into_iter().map(|next| (next, done.clone()));
            let under_way = self.open.iter().filter(|open| !done.contains(&open.number));
            let by_others = under_way.flat_map(|open| {
                effects(open.operation, life).into_iter().map(|next| {
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
            idle.extend(before_it.flat_map(|(life, _)| idle_answers(*operation, *life)));
        }
    }

    /// What may become of it with nobody asking, or by operations that nobody heard of.
    fn alone(&self, life: Life) -> Vec<Life> {
        let mut next: Vec<Life> =
            self.unheard.iter().flat_map(|operation| effects(*operation, life)).collect();
        match life {
            Life::Live => {
                if self.fate.may_expire {
                    next.push(Life::Ended(End::Expired));
                }
                if self.fate.in_flow {
                    next.extend([Life::Ended(End::Skipped), Life::Ended(End::Cancelled)]);
                }
                if self.fate.may_be_given_up {
                    next.push(Life::Ended(End::Failed));
                }
                if self.fate.may_time_out {
                    next.extend([End::Failed, End::Expired, End::Cancelled].map(Life::Ended));
                }
            }
            // What ended is purged in the end.
            Life::Ended(_) => next.push(Life::Absent),
            Life::Absent => {}
        }
        next
    }
}

/// What an operation can do that happens without being heard of.
fn effects(operation: Operation, life: Life) -> Vec<Life> {
    [Told::Done, Told::DoneForGood]
        .into_iter()
        .filter_map(|told| apply(operation, told, life))
        .filter(|next| *next != life)
        .collect()
}

/// What an operation can be told that changes nothing.
fn idle_answers(operation: Operation, life: Life) -> impl Iterator<Item = Told> {
    [Told::Done, Told::Already, Told::NoSuch, Told::HasEnded, Told::HasNotEnded]
        .into_iter()
        .filter(move |told| apply(operation, *told, life) == Some(life))
}

/// What an execution is after an operation with this answer; none when that cannot be the answer.
fn apply(operation: Operation, told: Told, life: Life) -> Option<Life> {
    use Operation as O;
    match (operation, told, life) {
        (_, Told::Refused, _) => Some(life),
        (_, Told::NoSuch, life) => (life == Life::Absent).then_some(life),
        (O::Create, Told::Done, Life::Absent) => Some(Life::Live),
        (O::Create, Told::Already, Life::Live | Life::Ended(_)) => Some(life),
        (O::Claim, Told::Done, Life::Live) => Some(Life::Live),
        (O::Complete, Told::Done, Life::Live) => Some(Life::Ended(End::Success)),
        (O::Fail, Told::Done, Life::Live) => Some(Life::Live),
        (O::Fail, Told::DoneForGood, Life::Live) => Some(Life::Ended(End::Failed)),
        (O::Cancel, Told::Done, Life::Live) => Some(Life::Ended(End::Cancelled)),
        (O::Cancel, Told::HasEnded, Life::Ended(_)) => Some(life),
        (O::Replay, Told::Done, Life::Ended(_)) => Some(Life::Live),
        (O::Replay, Told::HasNotEnded, Life::Live) => Some(life),
        // A worker without its lease is told what became of the execution, at some time since.
        (O::Complete | O::Fail | O::Claim, Told::HasEnded, _) => Some(life),
        (
            O::Create | O::Claim | O::Complete | O::Fail | O::Cancel | O::Replay,
            Told::Done | Told::DoneForGood | Told::Already | Told::HasEnded | Told::HasNotEnded,
            _,
        ) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made() -> Execution {
        let mut execution = Execution::default();
        execution.begin(0, Operation::Create);
        execution.end(0, Told::Done).unwrap();
        execution
    }

    #[test]
    fn a_plain_life_is_allowed() {
        let mut execution = made();
        execution.begin(1, Operation::Claim);
        execution.end(1, Told::Done).unwrap();
        execution.begin(2, Operation::Complete);
        execution.end(2, Told::Done).unwrap();
        execution.observe(Life::Ended(End::Success)).unwrap();
    }

    #[test]
    fn an_end_cannot_be_taken_back() {
        let mut execution = made();
        execution.begin(1, Operation::Complete);
        execution.end(1, Told::Done).unwrap();
        assert!(execution.observe(Life::Live).is_err());
    }

    #[test]
    fn nobody_completes_twice() {
        let mut execution = made();
        for number in [1, 2] {
            execution.begin(number, Operation::Complete);
        }
        execution.end(1, Told::Done).unwrap();
        assert!(execution.end(2, Told::Done).is_err());
    }

    #[test]
    fn an_unheard_cancel_may_have_happened_or_not() {
        for end in [Life::Live, Life::Ended(End::Cancelled)] {
            let mut execution = made();
            execution.begin(1, Operation::Cancel);
            execution.lose(1);
            execution.observe(end).unwrap();
        }
        assert!(made().observe(Life::Ended(End::Cancelled)).is_err());
    }

    #[test]
    fn of_a_cancel_and_a_complete_under_way_one_wins() {
        let mut execution = made();
        execution.begin(1, Operation::Cancel);
        execution.begin(2, Operation::Complete);
        execution.end(2, Told::Done).unwrap();
        execution.end(1, Told::HasEnded).unwrap();
        execution.observe(Life::Ended(End::Success)).unwrap();

        let mut execution = made();
        execution.begin(1, Operation::Cancel);
        execution.begin(2, Operation::Complete);
        execution.end(1, Told::Done).unwrap();
        execution.end(2, Told::HasEnded).unwrap();
        assert!(execution.observe(Life::Ended(End::Success)).is_err());
    }

    #[test]
    fn an_answer_may_be_older_than_another_that_was_heard_first() {
        let mut execution = Execution::default();
        execution.begin(0, Operation::Create);
        execution.begin(1, Operation::Cancel);
        execution.end(0, Told::Done).unwrap();
        execution.end(1, Told::NoSuch).unwrap();
        execution.observe(Life::Live).unwrap();

        let mut execution = made();
        execution.begin(1, Operation::Cancel);
        assert!(execution.end(1, Told::NoSuch).is_err());
    }

    #[test]
    fn a_loss_sets_it_back_and_from_there_it_goes_on() {
        let mut execution = made();
        execution.begin(1, Operation::Complete);
        execution.end(1, Told::Done).unwrap();
        execution.begin(2, Operation::Replay);
        execution.set_back(Life::Live);
        execution.end(2, Told::HasNotEnded).unwrap();
        execution.observe(Life::Live).unwrap();
        assert!(execution.observe(Life::Ended(End::Success)).is_err());
    }

    #[test]
    fn only_what_may_be_half_gone_is_not_replayed_after_its_end() {
        let mut execution = made();
        execution.begin(1, Operation::Complete);
        execution.end(1, Told::Done).unwrap();
        execution.fate.may_be_half_gone = true;
        execution.begin(2, Operation::Replay);
        execution.end(2, Told::HasNotEnded).unwrap();
        execution.fate.may_be_half_gone = false;
        execution.observe(Life::Ended(End::Success)).unwrap();
        execution.begin(3, Operation::Replay);
        assert!(execution.end(3, Told::HasNotEnded).is_err());
    }

    #[test]
    fn only_who_can_expire_does() {
        assert!(made().observe(Life::Ended(End::Expired)).is_err());
        let mut execution = made();
        execution.fate.may_expire = true;
        execution.observe(Life::Ended(End::Expired)).unwrap();
    }
}
