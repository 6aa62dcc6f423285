//! `selvedge lanes`: executions by lane and state.

use selvedge_core::key::LaneIndex;
use serde_json::Value;

use super::context::Context;
use super::failure::Failure;

/// The columns, and the indexes summed up in each.
const COLUMNS: [(&str, &[LaneIndex]); 8] = [
    ("ready", &[LaneIndex::Eligible]),
    ("running", &[LaneIndex::Active]),
    ("delayed", &[LaneIndex::Delayed]),
    ("suspended", &[LaneIndex::Suspended]),
    ("blocked by dependencies", &[LaneIndex::BlockedDependencies]),
    ("blocked by limits", &[LaneIndex::BlockedBudget, LaneIndex::BlockedQuota]),
    ("blocked otherwise", &[LaneIndex::BlockedRoute, LaneIndex::BlockedOperator]),
    ("ended", &[LaneIndex::Terminal]),
];

pub(crate) async fn run(context: &Context) -> Result<(), Failure> {
    let client = context.reader().await?;
    let states = client.lane_states().await?;
    let (mut rows, engine) = (Vec::new(), &context.settings.engine);
    for lane in client.lanes().await? {
        let counts = client.lane_counts(&lane).await?;
        let mut row = vec![Value::from(lane.to_string())];
        let (state, since) = states.of(&lane);
        row.push(Value::from(state.as_str()));
        row.push(since.map_or(Value::Null, |since| Value::from(since.0)));
        row.extend(COLUMNS.iter().map(|(_, indexes)| Value::from(counts.total(indexes))));
        let (retention, keep) = (engine.retention, engine.keep_ended);
        row.push(Value::from(client.count_purgeable(&lane, retention, keep).await?));
        rows.push(row);
    }
    let mut names = vec!["lane", "state", "changed at"];
    names.extend(COLUMNS.iter().map(|(name, _)| *name));
    names.push("to purge");
    Ok(context.output.rows(&names, rows)?)
}
