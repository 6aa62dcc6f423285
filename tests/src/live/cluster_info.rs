//! Reads `INFO` and `CLUSTER SHARDS` of servers.

use std::ops::RangeInclusive;

use selvedge_core::value::Value;

use crate::server::{Server, ServerError};

/// The slots of the primary with this port, from `CLUSTER SHARDS`.
pub(super) fn slots_in(shards: &Value, port: u16) -> Vec<RangeInclusive<u16>> {
    let Value::Array(shards) = shards else { return Vec::new() };
    let leads = |node: &Value| {
        member(node, "role") == Some(&Value::Bulk(b"master".to_vec()))
            && member(node, "port") == Some(&Value::Int(i64::from(port)))
    };
    let its = shards.iter().filter(
        |shard| matches!(member(shard, "nodes"), Some(Value::Array(nodes)) if nodes.iter().any(leads)),
    );
    its.flat_map(|shard| {
        let ends = member(shard, "slots").map(numbers).unwrap_or_default();
        ends.chunks_exact(2).map(|range| range[0]..=range[1]).collect::<Vec<_>>()
    })
    .collect()
}

/// What stands behind a name in a list of names and values.
fn member<'a>(list: &'a Value, name: &str) -> Option<&'a Value> {
    let Value::Array(pairs) = list else { return None };
    let found = pairs.chunks_exact(2).find(|pair| pair[0] == Value::Bulk(name.into()))?;
    Some(&found[1])
}

fn numbers(list: &Value) -> Vec<u16> {
    let Value::Array(items) = list else { return Vec::new() };
    let number =
        |item: &Value| if let Value::Int(n) = item { u16::try_from(*n).ok() } else { None };
    items.iter().filter_map(number).collect()
}

/// A section of a server's `INFO`.
pub(super) fn info(server: &Server, section: &str) -> Result<String, ServerError> {
    match server.connect()?.call(&["INFO", section])? {
        Value::Bulk(text) => Ok(String::from_utf8_lossy(&text).into_owned()),
        other @ (Value::Nil
        | Value::Int(_)
        | Value::Status(_)
        | Value::Error(_)
        | Value::Array(_)) => Err(ServerError::Cluster(format!("answered {other:?} to INFO"))),
    }
}

/// A figure of `INFO`.
pub(super) fn figure(told: &str, name: &str) -> u64 {
    let figure = told.lines().find_map(|line| line.strip_prefix(name));
    figure.and_then(|figure| figure.trim().parse().ok()).unwrap_or(0)
}

/// How many changes a server has made. Its offset would not tell: that grows by its pings as well.
pub(super) fn changes(server: &Server) -> Result<u64, ServerError> {
    Ok(figure(&info(server, "persistence")?, "rdb_changes_since_last_save:"))
}
