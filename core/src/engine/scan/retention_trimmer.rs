//! Deletes executions that ended long enough ago, whole and atomically, and a flow with its last
//! member. Most are due a day after their end; a policy may say less, so a slower sweep looks at
//! younger ones too.

use core::time::Duration;

use super::{Candidate, Scanner, ScannerName, Scene, Source, Spec};
use crate::call::execution::{Purge, PurgeExecution};
use crate::call::flow::{FlowPurge, PurgeFlow};
use crate::engine::step::{Step, Verdict};
use crate::engine::texts::text;
use crate::engine::wire::Command;
use crate::error::Code;
use crate::id::FlowId;
use crate::key::{Key, LaneIndex};
use crate::partition::{Family, Partition};

pub(super) struct RetentionTrimmer;

/// How long an execution is kept when its policy does not say.
const RETENTION_MS: u64 = 86_400_000;
/// Records removed in one step.
const RECORDS_PER_STEP: u32 = 100;
/// Steps that one candidate may take in a go; a larger one goes on with the next scan.
const STEPS_MAX: u32 = 200;

const SPEC: Spec = Spec {
    name: ScannerName::RetentionTrimmer,
    every: Duration::from_secs(60),
    interval_variable: "FF_RETENTION_TRIMMER_INTERVAL_S",
    family: Family::Flow,
    sources: &[
        Source::DueInLane(LaneIndex::Terminal, RETENTION_MS),
        Source::SweepLane(LaneIndex::Terminal, RETENTION_MS),
    ],
    batch: 20,
    filtered: true,
};

impl Scanner for RetentionTrimmer {
    fn spec(&self) -> &'static Spec {
        &SPEC
    }

    fn begin(&self, scene: &Scene, candidate: &Candidate) -> Result<Step, Verdict> {
        let call = PurgeExecution {
            execution_id: candidate.execution(scene)?,
            lane: candidate.lane()?,
            retention_ms: Some(RETENTION_MS),
            limit: Some(RECORDS_PER_STEP),
        };
        // The record says whose member it was; after the purge nothing does.
        let core = Key::execution(&call.execution_id).core();
        let read = Command::read("HGET", &core, &[b"flow_id"]);
        Ok(Step::read(alloc::vec![read], move |replies| match text(replies.into_iter().next()) {
            Ok(flow) => purge(call, flow.parse().ok(), 1),
            Err(verdict) => verdict.into(),
        }))
    }
}

fn purge(call: PurgeExecution, flow: Option<FlowId>, step: u32) -> Step {
    let partition = call.execution_id.partition();
    Step::call(&call.clone(), move |reply| match reply {
        Ok(Purge::Purged(_)) => match flow {
            Some(flow_id) => purge_flow(partition, flow_id, 1),
            None => Verdict::processed().into(),
        },
        Ok(Purge::Partial(_)) if step < STEPS_MAX => purge(call, flow, step + 1),
        Ok(Purge::Partial(_) | Purge::NotDue(_) | Purge::Held(_)) => {
            Verdict::nothing().staying().into()
        }
        Ok(Purge::NotFound) => Verdict::nothing().into(),
        Err(error) => Verdict::error_unless(error, &[Code::ExecutionNotTerminal]).into(),
    })
}

/// The flow goes with its last member; before that it says so, and stays.
fn purge_flow(partition: Partition, flow_id: FlowId, step: u32) -> Step {
    let call =
        PurgeFlow { partition, flow_id, retention_ms: Some(0), limit: Some(RECORDS_PER_STEP) };
    Step::call(&call, move |reply| match reply {
        Ok(FlowPurge::Partial) if step < STEPS_MAX => purge_flow(partition, flow_id, step + 1),
        // The member is gone either way; the flow's own trouble is not this candidate's.
        Ok(_) | Err(_) => Verdict::processed().into(),
    })
}
