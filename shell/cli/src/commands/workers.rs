//! `selvedge workers`: the registered workers.

use serde_json::Value;

use super::context::Context;
use super::failure::Failure;

pub(crate) async fn run(context: &Context) -> Result<(), Failure> {
    if context.all_namespaces {
        return Err(Failure::usage("workers are registered by namespace, and namespaces are not")
            .hint("name one with --namespace"));
    }
    let client = context.reader().await?;
    let namespace = client.namespace().to_string();
    let now = client.store().server_time().await?;
    let rows = client.workers().await?.into_iter().map(|worker| {
        let age = worker.heartbeat_at.map(|at| now.0.saturating_sub(at.0).max(0));
        vec![
            Value::from(worker.instance.to_string()),
            Value::from(if worker.all_namespaces { "all" } else { namespace.as_str() }),
            Value::from(worker.worker),
            Value::from(if worker.alive { "alive" } else { "expired" }),
            Value::from(worker.lanes),
            worker.kinds.map_or(Value::Null, |kinds| {
                Value::from(kinds.into_iter().collect::<Vec<_>>().join(", "))
            }),
            Value::from(worker.capabilities),
            age.map_or(Value::Null, Value::from),
        ]
    });
    let columns = [
        "instance",
        "namespace",
        "worker",
        "state",
        "lanes",
        "kinds",
        "capabilities",
        "heartbeat ms ago",
    ];
    Ok(context.output.rows(&columns, rows.collect())?)
}
