//! Creating executions, and the calls of lease holders.

use selvedge_core::call::execution::{
    Authority, CancelExecution, CompleteExecution, CreateExecution, DelayExecution, FailExecution,
    MoveToWaitingChildren, PurgeExecution, Running,
};
use selvedge_core::call::flow::ReplayExecution;
use selvedge_core::call::lease::RenewLease;
use selvedge_core::call::scheduling::UpdateProgress;
use selvedge_core::call::stream::{AppendFrame, FrameMode};
use selvedge_core::id::{AttemptIndex, ExecutionId, WorkerInstanceId};

use crate::history::state::{Held, HistoryState, execution, lane, namespace};

/// Policies that executions are made with.
const POLICIES: [&str; 4] = [
    "",
    r#"{"max_reclaim_count":1,"max_replay_count":2}"#,
    r#"{"timeout_policy":{"attempt_timeout_ms":2000},"retry_policy":{"max_retries":1,"backoff":{"type":"fixed","delay_ms":1000}}}"#,
    r#"{"timeout_policy":{"execution_deadline_ms":40000,"attempt_timeout_ms":5000}}"#,
];

/// Retry policies that holders fail with.
pub(super) const RETRIES: [&str; 3] = [
    "",
    r#"{"max_retries":2,"backoff":{"type":"fixed","delay_ms":1000}}"#,
    r#"{"max_retries":3,"backoff":{"type":"exponential","initial_delay_ms":500,"multiplier":3.5,"max_delay_ms":4000}}"#,
];

impl HistoryState {
    pub(in crate::history) fn create(&mut self, slot: u8, policy: u8, delay: u8) {
        let delay_until = match delay % 6 {
            0 => Some(self.in_ms(2_000)),
            1 => Some(self.in_ms(-10)),
            _ => None,
        };
        let execution_deadline_at = (delay == 5).then(|| self.in_ms(20_000));
        self.call(&CreateExecution {
            execution_id: execution(slot),
            namespace: namespace(),
            lane_id: lane(slot),
            execution_kind: "job".into(),
            priority: u32::from(policy),
            creator_identity: "history".into(),
            policy_json: POLICIES[usize::from(policy) % POLICIES.len()].into(),
            input_payload: b"input".to_vec(),
            delay_until,
            idempotency: None,
            tags_json: String::new(),
            execution_deadline_at,
        });
    }

    /// What its holder believes, or the record for one without a holder.
    pub(in crate::history) fn running(&self, slot: u8) -> Running {
        let id = execution(slot);
        let held = self.held_of(&id);
        let index = || self.field(&id, "current_attempt_index").parse().ok();
        Running {
            attempt_index: held
                .map(|held| held.attempt_index)
                .or_else(index)
                .unwrap_or(AttemptIndex(0)),
            lane: lane(slot),
            worker_instance_id: held.map_or_else(
                || WorkerInstanceId::new(self.field(&id, "current_worker_instance_id")),
                |held| crate::history::state::worker(held.worker).1,
            ),
            execution_id: id,
        }
    }

    pub(in crate::history) fn held_of(&self, id: &ExecutionId) -> Option<&Held> {
        self.held.iter().rev().find(|held| held.id == *id)
    }

    /// The last fence that a worker got for it, or the operator override.
    fn authority(&self, slot: u8, choice: u8) -> Authority {
        match self.held_of(&execution(slot)) {
            Some(held) if choice != 11 => Authority::Holder(held.fence),
            _ => Authority::Operator,
        }
    }

    pub(in crate::history) fn renew(&mut self, slot: u8) {
        let Some(held) = self.held_of(&execution(slot)).cloned() else { return };
        self.call(&RenewLease {
            execution_id: held.id,
            attempt_index: held.attempt_index,
            fence: held.fence,
            lease_ttl_ms: 5_000,
            lease_history_grace_ms: 1_000,
        });
    }

    pub(in crate::history) fn complete(&mut self, slot: u8, choice: u8) {
        let (running, authority) = (self.running(slot), self.authority(slot, choice));
        let result_payload = if choice.is_multiple_of(2) { b"result".to_vec() } else { Vec::new() };
        self.call(&CompleteExecution { running, authority, result_payload });
    }

    pub(in crate::history) fn fail(&mut self, slot: u8, retry: u8, choice: u8) {
        let (running, authority) = (self.running(slot), self.authority(slot, choice));
        self.call(&FailExecution {
            running,
            authority,
            failure_reason: "broken".into(),
            failure_category: "transient".into(),
            retry_policy_json: RETRIES[usize::from(retry) % RETRIES.len()].into(),
        });
    }

    pub(in crate::history) fn delay(&mut self, slot: u8, by: u8, choice: u8) {
        let (running, authority) = (self.running(slot), self.authority(slot, choice));
        // A time in the past is legal too, and must not be lost.
        let delay_until = self.in_ms(i64::from(by) * 700 - 1_400);
        self.call(&DelayExecution { running, authority, delay_until });
    }

    pub(in crate::history) fn wait_for_children(&mut self, slot: u8, choice: u8) {
        let (running, authority) = (self.running(slot), self.authority(slot, choice));
        self.call(&MoveToWaitingChildren { running, authority });
    }

    pub(in crate::history) fn progress(&mut self, slot: u8) {
        let Some(held) = self.held_of(&execution(slot)).cloned() else { return };
        self.call(&UpdateProgress {
            execution_id: held.id,
            lease_id: held.fence.lease_id,
            lease_epoch: held.fence.lease_epoch,
            progress_pct: Some(50),
            progress_message: Some("half".into()),
        });
    }

    pub(in crate::history) fn append_frame(&mut self, slot: u8, choice: u8) {
        let Some(held) = self.held_of(&execution(slot)).cloned() else { return };
        let mode = match choice % 3 {
            0 => FrameMode::Durable,
            1 => FrameMode::Summary,
            _ => FrameMode::BestEffort {
                ttl_ms: 3_000,
                maxlen_floor: None,
                maxlen_ceiling: None,
                ema_alpha_millionths: None,
            },
        };
        self.call(&AppendFrame {
            execution_id: held.id,
            attempt_index: held.attempt_index,
            fence: held.fence,
            frame_type: "event".into(),
            ts: None,
            payload: br#"{"n":1}"#.to_vec(),
            encoding: "json".into(),
            correlation_id: None,
            source: "worker".into(),
            retention_maxlen: 5,
            max_payload_bytes: 1_000,
            mode,
        });
    }

    pub(in crate::history) fn cancel(&mut self, slot: u8, choice: u8) {
        let source = ["operator_override", "", "flow_cascade"][usize::from(choice) % 3];
        self.cancel_as(slot, source);
    }

    pub(in crate::history) fn cancel_as(&mut self, slot: u8, source: &str) {
        let id = execution(slot);
        let running = self.running(slot);
        let lease = self
            .held_of(&id)
            .filter(|_| source.is_empty())
            .map(|held| (held.fence.lease_id, held.fence.lease_epoch));
        self.call(&CancelExecution {
            running,
            waitpoint_id: self.field(&id, "current_waitpoint_id").parse().ok(),
            reason: "not needed".into(),
            source: source.into(),
            lease,
        });
    }

    pub(in crate::history) fn replay(&mut self, slot: u8) {
        let id = execution(slot);
        let inbound_edges = self
            .edges
            .iter()
            .filter(|staged| staged.edge.downstream == id)
            .map(|staged| staged.edge.edge_id)
            .collect();
        self.call(&ReplayExecution { execution_id: id, lane_id: lane(slot), inbound_edges });
    }

    pub(in crate::history) fn purge_execution(&mut self, slot: u8, retention: u8, limit: u8) {
        self.call(&PurgeExecution {
            execution_id: execution(slot),
            lane: lane(slot),
            retention_ms: Some(u64::from(retention % 3) * 1_000),
            limit: (limit.is_multiple_of(3)).then_some(1),
            keep: (limit % 5 == 1).then_some(u64::from(retention / 3 % 4)),
        });
    }
}
