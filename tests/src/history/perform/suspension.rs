//! Suspensions, waitpoints and signals.

use selvedge_core::call::signal::{
    BufferSignalForPendingWaitpoint, DeliverSignal, IncomingSignal, SignalReceipt,
};
use selvedge_core::call::suspension::{
    BoundWaitpoint, CreatePendingWaitpoint, ExpirePendingWaitpointIfDue, ExpireSuspension,
    NewWaitpoint, ResumeExecution, SuspendExecution, SuspendIdempotency, SuspendOn, Suspended,
    SuspensionReason, SuspensionRequester, TimeoutBehavior,
};
use selvedge_core::id::{ExecutionId, WaitpointKey};
use selvedge_core::key::Key;

use crate::history::state::{HistoryState, PARTITION, execution, lane};

/// A waitpoint that a caller knows.
#[derive(Clone, Debug)]
pub(in crate::history) struct KnownWaitpoint {
    slot: u8,
    bound: BoundWaitpoint,
    ahead: bool,
}

/// What is wrong with a stray signal.
#[derive(Clone, Copy, Debug)]
enum Stray {
    /// It carries the token of another waitpoint.
    Token,
    /// It names another waitpoint than its token.
    Waitpoint,
    /// It comes with waitpoint and token of another execution, or of a wait that has ended.
    Addressee,
}

impl Stray {
    const ALL: [Self; 3] = [Self::Token, Self::Waitpoint, Self::Addressee];
}

impl HistoryState {
    fn new_waitpoint(&mut self, key: &str) -> NewWaitpoint {
        NewWaitpoint { id: self.fresh(), key: WaitpointKey::new(key) }
    }

    /// A condition, and the waitpoints in it.
    fn condition(&mut self, slot: u8, shape: u8) -> (SuspendOn, String) {
        let primary = self.new_waitpoint("wp-a");
        let alone = |primary| SuspendOn::New { primary, additional: Vec::new() };
        match shape % 7 {
            0 => (alone(primary), r#"{"signal_match_mode":"any"}"#.into()),
            1 => (
                alone(primary),
                r#"{"required_signal_names":["go","stop"],"signal_match_mode":"all"}"#.into(),
            ),
            2 => (
                alone(primary),
                r#"{"required_signal_names":["__operator_only__"],"signal_match_mode":"all"}"#.into(),
            ),
            3 => {
                let additional = vec![self.new_waitpoint("wp-b")];
                let tree = r#"{"composite":true,"v":1,"tree":{"kind":"AllOf","path":"","members":[{"kind":"Single","path":"members[0]","waitpoint_key":"wp-a"},{"kind":"Single","path":"members[1]","waitpoint_key":"wp-b"}]}}"#;
                (SuspendOn::New { primary, additional }, tree.into())
            }
            4 => {
                let additional = vec![self.new_waitpoint("wp-b")];
                let tree = r#"{"composite":true,"v":1,"tree":{"kind":"Count","path":"","n":2,"count_kind":"DistinctWaitpoints","matcher":null,"waitpoints":["wp-a","wp-b"]}}"#;
                (SuspendOn::New { primary, additional }, tree.into())
            }
            5 => (
                alone(primary),
                r#"{"composite":true,"v":1,"tree":{"kind":"Count","path":"","n":2,"count_kind":"DistinctSignals","matcher":{"kind":"ByName","name":"go"},"waitpoints":["wp-a"]}}"#.into(),
            ),
            _ => {
                let mut waitpoints = self.waitpoints.iter().rev();
                let ahead = waitpoints.find(|known| known.ahead && known.slot == slot);
                let on = ahead.map_or_else(
                    || alone(primary),
                    |known| SuspendOn::Pending(known.bound.id),
                );
                (on, r#"{"signal_match_mode":"any"}"#.into())
            }
        }
    }

    pub(in crate::history) fn suspend(&mut self, slot: u8, shape: u8, choice: u8) {
        let id = execution(slot);
        let Some(held) = self.held_of(&id).cloned() else { return };
        let (on, resume_condition_json) = self.condition(slot, shape);
        let timeout_at = (!choice.is_multiple_of(3)).then(|| self.in_ms(4_000));
        let behaviors = TimeoutBehavior::ALL;
        let resume_policy_json =
            if shape == 8 { r#"{"resume_delay_ms":1500}"# } else { "{}" }.to_owned();
        let idempotency =
            (choice == 7).then(|| SuspendIdempotency { key: format!("s{shape}"), ttl_ms: 10_000 });
        let suspension_id = self.fresh();
        let suspended = self.call(&SuspendExecution {
            execution_id: id,
            lane: lane(slot),
            worker_instance_id: crate::history::state::worker(held.worker).1,
            attempt_index: held.attempt_index,
            fence: held.fence,
            suspension_id,
            on,
            reason: SuspensionReason::ALL[usize::from(choice) % SuspensionReason::ALL.len()],
            requested_by: SuspensionRequester::Worker,
            timeout_at,
            timeout_behavior: behaviors[usize::from(choice) % behaviors.len()],
            resume_condition_json,
            resume_policy_json,
            continuation_metadata_pointer: None,
            lease_history_maxlen: 100,
            idempotency,
        });
        let (Some(Suspended::Waiting { waitpoints, .. })
        | Some(Suspended::AlreadySatisfied { waitpoints, .. })) = suspended
        else {
            return;
        };
        let known =
            waitpoints.into_iter().map(|bound| KnownWaitpoint { slot, bound, ahead: false });
        self.waitpoints.extend(known);
    }

    pub(in crate::history) fn create_pending(&mut self, slot: u8) {
        let id = execution(slot);
        let Some(held) = self.held_of(&id).cloned() else { return };
        let (waitpoint, expires_at) = (self.new_waitpoint("wp-a"), self.in_ms(3_000));
        let bound = self.call(&CreatePendingWaitpoint {
            execution_id: id,
            attempt_index: held.attempt_index,
            waitpoint,
            expires_at,
        });
        if let Some(bound) = bound {
            self.waitpoints.push(KnownWaitpoint { slot, bound, ahead: true });
        }
    }

    pub(in crate::history) fn expire_pending(&mut self, number: u8) {
        let Some(known) = self.known(number, "pending") else { return };
        let waitpoint_id = known.bound.id;
        self.call(&ExpirePendingWaitpointIfDue { partition: PARTITION, waitpoint_id });
    }

    /// One of the waitpoints of late, for most numbers one in this state.
    fn known(&self, number: u8, state: &str) -> Option<KnownWaitpoint> {
        let open = |known: &&KnownWaitpoint| {
            let record = self.snapshot().hash(&Key::waitpoint(PARTITION, known.bound.id));
            record.is_some_and(|record| record.text("state") == state)
        };
        let any = |number: u8, found: Vec<&KnownWaitpoint>| {
            found.get(usize::from(number) % found.len().max(1)).map(|known| (*known).clone())
        };
        let found = any(number, self.waitpoints.iter().rev().filter(open).take(4).collect());
        found
            .filter(|_| number < super::ANY_CANDIDATE)
            .or_else(|| any(number, self.waitpoints.iter().rev().take(4).collect()))
    }

    fn incoming(&mut self, id: ExecutionId, bound: &BoundWaitpoint, choice: u8) -> IncomingSignal {
        IncomingSignal {
            signal_id: self.fresh(),
            execution_id: id,
            waitpoint_id: bound.id,
            name: if choice % 4 == 3 { "stop" } else { "go" }.into(),
            category: "external".into(),
            source_type: "user".into(),
            source_identity: format!("u{}", choice % 2),
            payload: b"p".to_vec(),
            payload_encoding: "text".into(),
            idempotency_key: (choice % 5 == 4).then(|| "once".into()),
            correlation_id: None,
            target_scope: "waitpoint".into(),
            created_at: None,
            dedup_ttl_ms: 60_000,
            resume_delay_ms: if choice == 6 { 1_200 } else { 0 },
            signal_maxlen: 100,
            max_signals_per_execution: 50,
            token: bound.token.clone(),
        }
    }

    pub(in crate::history) fn buffer_signal(&mut self, number: u8, choice: u8) {
        let Some(known) = self.known(number, "pending") else { return };
        let signal = self.incoming(execution(known.slot), &known.bound, choice);
        self.call(&BufferSignalForPendingWaitpoint { signal });
    }

    pub(in crate::history) fn signal(&mut self, number: u8, choice: u8) {
        let Some(known) = self.known(number, "active") else { return };
        let signal = self.incoming(execution(known.slot), &known.bound, choice);
        let call = DeliverSignal { signal, lane: lane(known.slot) };
        if let Some(SignalReceipt::Accepted { .. }) = self.call(&call) {
            self.accepted.push(call);
        }
    }

    /// A signal to a waiting execution, wrong in one point that `Stray` names.
    pub(in crate::history) fn stray_signal(&mut self, number: u8, other: u8, choice: u8) {
        let Some(waits) = self.known(number, "active").filter(|known| self.is_open(known)) else {
            return;
        };
        let others: Vec<&KnownWaitpoint> = (self.waitpoints.iter().rev())
            .filter(|known| known.bound.id != waits.bound.id)
            .take(8)
            .collect();
        let Some(other) = others.get(usize::from(other) % others.len().max(1)) else { return };
        let other = (*other).clone();
        let mut signal = self.incoming(execution(waits.slot), &waits.bound, 0);
        match Stray::ALL[usize::from(choice) % Stray::ALL.len()] {
            Stray::Token => signal.token = other.bound.token,
            Stray::Waitpoint => signal.waitpoint_id = other.bound.id,
            // Two waitpoints of one suspension are both right.
            Stray::Addressee if other.slot == waits.slot && self.is_open(&other) => return,
            Stray::Addressee => {
                signal.waitpoint_id = other.bound.id;
                signal.token = other.bound.token;
            }
        }
        if let Some(receipt) = self.call(&DeliverSignal { signal, lane: lane(waits.slot) }) {
            self.find(format!("SignalCountsOnce: a stray signal was answered {receipt:?}"));
        }
    }

    /// A sender without a reply sends the same signal again.
    pub(in crate::history) fn repeat_signal(&mut self, number: u8) {
        let recent: Vec<&DeliverSignal> = self.accepted.iter().rev().take(4).collect();
        let Some(call) = recent.get(usize::from(number) % recent.len().max(1)) else { return };
        let call = (*call).clone();
        if let Some(receipt @ SignalReceipt::Accepted { .. }) = self.call(&call) {
            self.find(format!("SignalCountsOnce: a repeated signal was answered {receipt:?}"));
        }
    }

    fn is_open(&self, known: &KnownWaitpoint) -> bool {
        let record = self.snapshot().hash(&Key::waitpoint(PARTITION, known.bound.id));
        record.is_some_and(|record| record.text("state") == "active")
    }

    pub(in crate::history) fn resume(&mut self, slot: u8, choice: u8) {
        let id = execution(slot);
        let Ok(waitpoint_id) = self.field(&id, "current_waitpoint_id").parse() else { return };
        self.call(&ResumeExecution {
            execution_id: id,
            lane: lane(slot),
            waitpoint_id,
            resume_delay_ms: if choice.is_multiple_of(2) { 1_000 } else { 0 },
        });
    }

    pub(in crate::history) fn expire_suspension(&mut self, slot: u8) {
        let id = execution(slot);
        self.call(&ExpireSuspension {
            waitpoint_id: self.field(&id, "current_waitpoint_id").parse().ok(),
            attempt_index: self.field(&id, "current_attempt_index").parse().ok(),
            execution_id: id,
            lane: lane(slot),
        });
    }
}
