//! Writes the summary of every flow, counted over all its members, and removes finished flows from
//! the index. A submission that its submitter left unfinished is sealed or cancelled. A flow
//! returns to the index when a member is purged; one without members is deleted.

use core::time::Duration;

use super::{Candidate, ScanContext, Scanner, ScannerName, ScannerSpec, Source};
use crate::call::flow::{FlowPurge, ProjectFlow, Projection, PurgeFlow};
use crate::engine::scanning::{CandidateOutcome, ScanStep};
use crate::id::FlowId;
use crate::key::PartitionIndex;
use crate::partition::{Family, Partition};

pub(super) struct FlowProjector;

const SPEC: ScannerSpec = ScannerSpec {
    name: ScannerName::FlowProjector,
    interval: Duration::from_secs(15),
    interval_variable: "FF_FLOW_PROJECTOR_INTERVAL_S",
    family: Family::Flow,
    sources: &[Source::Members(PartitionIndex::FlowIndex)],
    batch: 100,
    filtered: false,
};

/// Members counted by one call.
const MEMBERS_PER_STEP: u32 = 500;
/// Records of a flow without members deleted by one call.
const RECORDS_PER_STEP: u32 = 100;
/// Most calls for one flow in one scan; a larger flow goes on with the next scan.
const STEPS_MAX: u32 = 200;

impl Scanner for FlowProjector {
    fn spec(&self) -> &'static ScannerSpec {
        &SPEC
    }

    fn sweep_cost(&self) -> u64 {
        6
    }

    fn begin(
        &self,
        context: &ScanContext,
        candidate: &Candidate,
    ) -> Result<ScanStep, CandidateOutcome> {
        let flow_id = candidate.id("not a flow id")?;
        Ok(project(context.partition, flow_id, 1))
    }
}

fn project(partition: Partition, flow_id: FlowId, step: u32) -> ScanStep {
    let call = ProjectFlow { partition, flow_id, limit: Some(MEMBERS_PER_STEP) };
    ScanStep::call(&call, move |reply| match reply {
        Ok(Projection::Projected(_) | Projection::Finished(_) | Projection::Abandoned) => {
            CandidateOutcome::processed().into()
        }
        Ok(Projection::Partial | Projection::Sealing) if step < STEPS_MAX => {
            project(partition, flow_id, step + 1)
        }
        Ok(Projection::Deserted) => purge(partition, flow_id, step),
        Ok(Projection::Partial | Projection::Sealing | Projection::Gone) => {
            CandidateOutcome::nothing().into()
        }
        Err(error) => CandidateOutcome::error(error).into(),
    })
}

/// A flow stays in the index until its last record is gone, so that no crash leaves a part of it.
fn purge(partition: Partition, flow_id: FlowId, step: u32) -> ScanStep {
    let call =
        PurgeFlow { partition, flow_id, retention_ms: Some(0), limit: Some(RECORDS_PER_STEP) };
    ScanStep::call(&call, move |reply| match reply {
        Ok(FlowPurge::Purged) => CandidateOutcome::processed().into(),
        Ok(FlowPurge::Partial) if step < STEPS_MAX => purge(partition, flow_id, step + 1),
        Ok(FlowPurge::Partial | FlowPurge::NotDue(_) | FlowPurge::Needed(_) | FlowPurge::Gone) => {
            CandidateOutcome::nothing().into()
        }
        Err(error) => CandidateOutcome::error(error).into(),
    })
}
