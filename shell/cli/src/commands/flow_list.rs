//! `selvedge flow list`: the flows that have not ended.

use futures_util::future::join_all;
use selvedge::client::{ClientError, FlowCursor};
use serde_json::{Value, json};

use super::context::Context;
use super::failure::Failure;

pub(crate) async fn run(context: &Context, limit: u32) -> Result<(), Failure> {
    let client = context.reader().await?;
    let (listed, next) = client.flows(FlowCursor::default(), limit).await?;
    let looks = join_all(listed.iter().map(|id| client.flow(*id))).await;
    let (mut flows, mut of_others) = (Vec::new(), 0);
    for look in looks {
        match look {
            Ok(flow) if context.covers(&flow.namespace) => flows.push(flow),
            Ok(_) => of_others += 1,
            // It was purged after it was listed.
            Err(ClientError::NotFound { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    let progress = client.flow_progress(&flows).await?;
    let (mut rows, mut summarised) = (Vec::new(), 0);
    for (flow, progress) in flows.iter().zip(progress) {
        if progress.has_ended {
            continue;
        }
        summarised += u32::from(!progress.is_counted);
        let count = |count: Option<u64>| count.map_or(Value::Null, Value::from);
        rows.push(vec![
            Value::from(flow.id.to_string()),
            Value::from(flow.namespace.clone()),
            Value::from(flow.kind.clone()),
            Value::from(progress.state),
            Value::from(flow.node_count),
            count(progress.completed),
            count(progress.failed),
            flow.created_at.map_or(Value::Null, |at| Value::from(at.0)),
        ]);
    }
    let columns =
        ["flow", "namespace", "kind", "state", "tasks", "completed", "failed", "created at"];
    context.output.rows(&columns, rows)?;
    if summarised > 0 {
        let sentence = format!("{summarised} as of the engine's last scan cycle: they are large");
        context.output.note(&sentence, json!({ "summarised": summarised }));
    }
    if of_others > 0 {
        let sentence =
            format!("{of_others} of other namespaces; --all-namespaces lists them as well");
        context.output.note(&sentence, json!({ "of_other_namespaces": of_others }));
    }
    // The partitions behind the cursor may hold no flow.
    if let Some(next) = next
        && !client.flows(next, 1).await?.0.is_empty()
    {
        let sentence = "there are more; raise --limit to see them";
        context.output.note(sentence, json!({ "is_truncated": true }));
    }
    Ok(())
}
