//! Writes the summary of every flow, counted over all its members, and lets finished flows leave
//! the index. A submission whose submitter died is sealed or cancelled on the way. A flow comes back
//! when a member is purged; one that has lost all its members is deleted.

use core::time::Duration;

use super::{Candidate, Scanner, ScannerName, Scene, Source, Spec};
use crate::call::flow::{FlowPurge, ProjectFlow, Projection, PurgeFlow};
use crate::engine::step::{Step, Verdict};
use crate::id::FlowId;
use crate::key::PartitionIndex;
use crate::partition::{Family, Partition};

pub(super) struct FlowProjector;

const SPEC: Spec = Spec {
    name: ScannerName::FlowProjector,
    every: Duration::from_secs(15),
    interval_variable: "FF_FLOW_PROJECTOR_INTERVAL_S",
    family: Family::Flow,
    sources: &[Source::Members(PartitionIndex::FlowIndex)],
    batch: 100,
    filtered: false,
};

/// Members counted in one step.
const MEMBERS_PER_STEP: u32 = 500;
/// Records of a flow without members removed in one step.
const RECORDS_PER_STEP: u32 = 100;
/// Steps that one flow may take in a go; a larger one goes on with the next scan.
const STEPS_MAX: u32 = 200;

impl Scanner for FlowProjector {
    fn spec(&self) -> &'static Spec {
        &SPEC
    }

    fn begin(&self, scene: &Scene, candidate: &Candidate) -> Result<Step, Verdict> {
        let flow_id = candidate.id("not a flow id")?;
        Ok(project(scene.partition, flow_id, 1))
    }
}

fn project(partition: Partition, flow_id: FlowId, step: u32) -> Step {
    let call = ProjectFlow { partition, flow_id, limit: Some(MEMBERS_PER_STEP) };
    Step::call(&call, move |reply| match reply {
        Ok(Projection::Projected(_) | Projection::Finished(_) | Projection::Abandoned) => {
            Verdict::processed().into()
        }
        Ok(Projection::Partial | Projection::Sealing) if step < STEPS_MAX => {
            project(partition, flow_id, step + 1)
        }
        Ok(Projection::Deserted) => purge(partition, flow_id, step),
        Ok(Projection::Partial | Projection::Sealing | Projection::Gone) => {
            Verdict::nothing().into()
        }
        Err(error) => Verdict::error(error).into(),
    })
}

/// It stays in the index until its last record is gone, so that no crash leaves it half deleted.
fn purge(partition: Partition, flow_id: FlowId, step: u32) -> Step {
    let call =
        PurgeFlow { partition, flow_id, retention_ms: Some(0), limit: Some(RECORDS_PER_STEP) };
    Step::call(&call, move |reply| match reply {
        Ok(FlowPurge::Purged) => Verdict::processed().into(),
        Ok(FlowPurge::Partial) if step < STEPS_MAX => purge(partition, flow_id, step + 1),
        Ok(FlowPurge::Partial | FlowPurge::NotDue(_) | FlowPurge::Held(_) | FlowPurge::Gone) => {
            Verdict::nothing().into()
        }
        Err(error) => Verdict::error(error).into(),
    })
}
