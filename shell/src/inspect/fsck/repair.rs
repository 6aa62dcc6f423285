//! Repairs by the records that are left, and the end of what an operator gives up.

use std::collections::BTreeSet;

use futures_util::{StreamExt, stream};
use selvedge_core::audit::{self, Snapshot, Violation};
use selvedge_core::call::Function;
use selvedge_core::call::library::{Repair, RepairIndex, SetAsideReply};
use selvedge_core::call::repair::AcceptLoss;
use selvedge_core::command::Command;
use selvedge_core::id::{ExecutionId, FlowId, LaneId};
use selvedge_core::key::Key;
use selvedge_core::repair;

use super::{AT_ONCE, Checked, check_slot, checked, keys_by_slot, secrets};
use crate::client::{Client, ClientError, InvalidInput};

/// What a repair did.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Repaired {
    /// How many entries, fields and records were corrected.
    pub changes: usize,
    /// What is lost for good, and what stands in its place.
    pub losses: Vec<Loss>,
}

/// Something that no record holds any more.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub struct Loss {
    /// The execution.
    pub subject: String,
    /// What is lost, and what that means.
    pub what: String,
}

/// What was given up.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Accepted {
    /// The execution, flow or key.
    pub subject: String,
    /// What was done to it.
    pub what: String,
}

/// Corrects what can be derived from records that are left. Engines and workers may run meanwhile:
/// every function decides by the records of that moment. Repeat [`super::check`] for the rest.
///
/// # Errors
/// When the store does not answer.
pub async fn repair(
    client: &Client,
    mut progress: impl FnMut(usize, usize),
) -> Result<Repaired, ClientError> {
    let mut repaired = Repaired::default();
    // A set that was put right may be what a count is derived from.
    for _ in 0..PASSES {
        let by_slot = keys_by_slot(client).await?;
        let (mut done, of) = (0, by_slot.len());
        let mut lanes = BTreeSet::new();
        let mut checks =
            stream::iter(by_slot.into_values().map(|keys| checked(client, keys))).buffered(AT_ONCE);
        let before = repaired.changes;
        while let Some(checked) = checks.next().await {
            progress(done, of);
            done += 1;
            let checked = checked?;
            lanes.extend(repair::lanes_in_use(&checked.snapshot));
            repair_slot(client, &checked, &mut repaired).await?;
        }
        progress(of, of);
        repaired.changes += list_lanes(client, lanes).await?;
        repaired.changes += secrets::repair(client).await?;
        if repaired.changes == before {
            break;
        }
    }
    repaired.losses.sort();
    repaired.losses.dedup();
    Ok(repaired)
}

async fn repair_slot(
    client: &Client,
    checked: &Checked,
    repaired: &mut Repaired,
) -> Result<(), ClientError> {
    if checked.violations.is_empty() {
        return Ok(());
    }
    let todo = repair::repairs(&checked.snapshot, &checked.violations);
    for call in todo.set_aside {
        let done = unless_refused(client, &call).await?;
        repaired.changes += usize::from(done == Some(SetAsideReply::SetAside));
    }
    for call in todo.flows {
        let done = unless_refused(client, &call).await?;
        repaired.changes += done.map(|done| done.changes.len()).unwrap_or_default();
    }
    for call in todo.executions {
        let subject = call.execution_id.to_string();
        let Some(done) = unless_refused(client, &call).await? else { continue };
        repaired.changes += done.changes.len();
        let losses = done.lost.iter().map(|lost| loss(&subject, lost));
        repaired.losses.extend(losses);
    }
    for call in todo.indexes {
        if let Some(Repair::Repaired(changes)) = unless_refused(client, &call).await? {
            repaired.changes += changes.len();
        }
    }
    Ok(())
}

/// What a function reports as lost, in words.
fn loss(subject: &str, lost: &str) -> Loss {
    let what = match lost.split_once(':') {
        Some(("edge", id)) => format!(
            "edge {id}: neither the execution nor its flow has a record of it, so it is unknown \
             what it waits for"
        ),
        Some(("attempt", index)) => format!(
            "the record of attempt {index}: when it ran, and who ran it; a record that says only \
             how it ended is in its place"
        ),
        _ => "which of its dependencies suffice: it needs all of them now".to_owned(),
    };
    Loss { subject: subject.to_owned(), what }
}

/// The reply; none if the function refuses, for example because a key holds a value of another
/// type: then the violation stays.
async fn unless_refused<F: Function>(
    client: &Client,
    call: &F,
) -> Result<Option<F::Reply>, ClientError> {
    match client.call_with_retry(call).await {
        Ok(reply) => Ok(Some(reply)),
        Err(error) if error.is_retryable() => Err(error),
        Err(_) => Ok(None),
    }
}

async fn list_lanes(client: &Client, in_use: BTreeSet<LaneId>) -> Result<usize, ClientError> {
    let Ok(listed) = client.lanes().await else { return Ok(0) };
    let missing: Vec<LaneId> = in_use.into_iter().filter(|lane| !listed.contains(lane)).collect();
    for lane in &missing {
        let key = Key::Lanes;
        client.read_one(Command::write("SADD", &key, &[lane.as_str().as_bytes()])).await?;
    }
    Ok(missing.len())
}

/// Gives up what these subjects of violations have lost: an execution that cannot go on ends as
/// cancelled, a value of another type and a key that belongs to nothing are deleted, a field that
/// is no number is removed. Repair and check afterwards.
///
/// # Errors
/// [`ClientError::NotFound`] when nothing is wrong with a subject; otherwise when the store does
/// not answer.
pub async fn accept(
    client: &Client,
    subjects: &[String],
    reason: &str,
) -> Result<Vec<Accepted>, ClientError> {
    let mut left: BTreeSet<&String> = subjects.iter().collect();
    let mut accepted = Vec::new();
    for keys in keys_by_slot(client).await?.into_values() {
        let Checked { snapshot, violations } = check_slot(client, keys).await?;
        for subject in subjects {
            let about: Vec<&Violation> =
                violations.iter().filter(|found| found.subject == *subject).collect();
            let is_aside = subject.parse().is_ok_and(|key| is_aside(&snapshot, &key));
            if (about.is_empty() && !is_aside) || !left.remove(subject) {
                continue;
            }
            let what = accept_one(client, &snapshot, subject, &about, reason).await?;
            accepted.push(Accepted { subject: subject.clone(), what });
        }
    }
    match left.into_iter().next() {
        Some(unknown) => Err(ClientError::NotFound { kind: "loss", id: unknown.clone() }),
        None => Ok(accepted),
    }
}

fn is_aside(snapshot: &Snapshot, key: &Key) -> bool {
    matches!(key, Key::Aside(_)) && snapshot.holds(key)
}

async fn accept_one(
    client: &Client,
    snapshot: &Snapshot,
    subject: &str,
    about: &[&Violation],
    reason: &str,
) -> Result<String, ClientError> {
    if let Ok(id) = subject.parse::<ExecutionId>() {
        return accept_execution(client, snapshot, &id, reason).await;
    }
    if let Ok(id) = subject.parse::<FlowId>() {
        return accept_flow(client, snapshot, id).await;
    }
    let numbers: Vec<&str> = match subject.parse::<Key>() {
        Ok(key) => audit::unreadable_numbers(snapshot, &key).collect(),
        Err(_) => Vec::new(),
    };
    let is_other_kind = about.iter().any(|found| found.what.starts_with("holds a "));
    if !numbers.is_empty() && !is_other_kind {
        let fields: Vec<&[u8]> = numbers.iter().map(|field| field.as_bytes()).collect();
        delete(client, "HDEL", subject.as_bytes(), &fields).await?;
        return Ok(format!("removed the fields that are no numbers: {}", numbers.join(", ")));
    }
    delete(client, "DEL", subject.as_bytes(), &[]).await?;
    Ok("deleted it".to_owned())
}

/// An edge that nothing describes holds it no longer; if that does not mend it, it ends.
async fn accept_execution(
    client: &Client,
    snapshot: &Snapshot,
    id: &ExecutionId,
    reason: &str,
) -> Result<String, ClientError> {
    if snapshot.execution(id).is_none() {
        for (key, _) in snapshot.named_after(id) {
            delete(client, "DEL", key.to_string().as_bytes(), &[]).await?;
        }
        return Ok("deleted what was left of it".to_owned());
    }
    let call = repair::execution(snapshot, id, true);
    let done = unless_refused(client, &call).await?;
    let dropped = done.is_some_and(|done| done.changes.iter().any(|what| what.starts_with('-')));
    let what = if dropped {
        "it does not wait any more for edges of which no record is left".to_owned()
    } else {
        let call = AcceptLoss { execution_id: id.clone(), reason: reason.to_owned() };
        client.call_with_retry(&call).await?;
        "ended it as cancelled".to_owned()
    };
    let call = RepairIndex { execution_id: id.clone(), lane: None };
    unless_refused(client, &call).await?;
    Ok(what)
}

/// A flow without a record: the rest of it goes too. Its members go on without it.
async fn accept_flow(
    client: &Client,
    snapshot: &Snapshot,
    id: FlowId,
) -> Result<String, ClientError> {
    let partition = client.partitions().of_flow(id);
    if snapshot.holds(&Key::flow(partition, id).core()) {
        return Err(InvalidInput::FlowExists(id).into());
    }
    let index = Key::index(partition).flow_index().to_string();
    delete(client, "SREM", index.as_bytes(), &[id.to_string().as_bytes()]).await?;
    for (part, _) in snapshot.of_flow(partition, id) {
        let key = Key::Flow(partition, id, part.clone()).to_string();
        delete(client, "DEL", key.as_bytes(), &[]).await?;
    }
    Ok("deleted what was left of it".to_owned())
}

async fn delete(
    client: &Client,
    name: &str,
    key: &[u8],
    rest: &[&[u8]],
) -> Result<(), ClientError> {
    let mut command = super::command(name, key, rest);
    command.reads = false;
    client.read_one(command).await.map(drop)
}

/// Most passes of checking and correcting.
const PASSES: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loss_is_said_in_words() {
        for (lost, words) in [
            ("edge:1234", "edge 1234"),
            ("attempt:0", "attempt 0"),
            ("policy", "needs all of them"),
        ] {
            assert!(loss("E", lost).what.contains(words), "{lost}");
        }
    }
}
