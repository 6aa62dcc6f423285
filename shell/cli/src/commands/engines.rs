//! `selvedge engines`: the engines that run, or ran within the last hour.

use serde_json::{Value, json};

use super::context::Context;
use super::failure::Failure;

pub(crate) async fn run(context: &Context) -> Result<(), Failure> {
    let client = context.reader().await?;
    let now = client.store().server_time().await?;
    let engines = client.engines().await?;
    let none = !engines.iter().any(|engine| engine.is_alive);
    let rows = engines.into_iter().map(|engine| {
        vec![
            Value::from(engine.id),
            Value::from(engine.host),
            Value::from(engine.pid),
            Value::from(engine.version),
            Value::from(if engine.is_alive { "alive" } else { "silent" }),
            Value::from(engine.started_at.0),
            Value::from(now.0.saturating_sub(engine.seen_at.0).max(0)),
            Value::from(engine.lag_ms),
            Value::from(engine.slowest_scanner),
            engine.why_not_ready.map_or(Value::Null, Value::from),
        ]
    });
    let columns = [
        "engine",
        "host",
        "pid",
        "version",
        "state",
        "started at",
        "seen ms ago",
        "lag ms",
        "slowest scanner",
        "not ready because",
    ];
    context.output.rows(&columns, rows.collect())?;
    if none {
        let sentence = "no engine is running: `selvedge serve` is one";
        context.output.note(sentence, json!({ "is_running": false }));
    }
    Ok(())
}
