//! `selvedge workers`: the registered workers.

use serde_json::Value;

use super::context::Context;
use super::failure::Failure;

pub(crate) async fn run(context: &Context) -> Result<(), Failure> {
    let client = context.reader().await?;
    let now = client.store().server_time().await?;
    let rows = client.workers().await?.into_iter().map(|worker| {
        let age = worker.heartbeat_at.map(|at| now.0.saturating_sub(at.0).max(0));
        vec![
            Value::from(worker.instance.to_string()),
            Value::from(worker.worker),
            Value::from(if worker.alive { "alive" } else { "expired" }),
            Value::from(worker.lanes),
            Value::from(worker.capabilities),
            age.map_or(Value::Null, Value::from),
        ]
    });
    let columns = ["instance", "worker", "state", "lanes", "capabilities", "heartbeat ms ago"];
    Ok(context.output.rows(&columns, rows.collect())?)
}
