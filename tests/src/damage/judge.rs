//! What became of every execution.

use std::collections::{BTreeMap, BTreeSet};

use selvedge::client::{Client, ClientError};
use selvedge::inspect::fsck::{Repaired, Report};
use selvedge::inspect::{DueBy, UnblockedBy};
use selvedge_core::engine::EngineConfig;
use selvedge_core::id::{ExecutionId, FlowId};

use super::report::Fate;
use super::text;

/// The fate of every execution, with what is known about those that have not ended.
#[derive(Clone, Debug, Default)]
pub struct Fates {
    /// By execution.
    pub by_id: BTreeMap<ExecutionId, (Fate, String)>,
}

impl Fates {
    /// Whether nothing stands still without being named.
    #[must_use]
    pub fn are_good(&self) -> bool {
        self.by_id.values().all(|(fate, _)| *fate != Fate::Silent)
    }
}

/// How the keys begin that many executions share.
const SHARED: [&str; 5] = ["ff:idx:", "ff:sec:", "ff:budget:", "ff:quota:", "ff:config:"];

/// A wait for a time later than this is what a damage has written; `why` shows it.
const SOON_MS: i64 = 60_000;

/// Judges all executions; with a report of `fsck`, those that it names are named.
pub(super) async fn fates(
    client: &Client,
    executions: &BTreeMap<ExecutionId, FlowId>,
    report: Option<&Report>,
    done: &Repaired,
) -> Result<Fates, String> {
    let mut fates = Fates::default();
    let mut waits_for: BTreeMap<ExecutionId, BTreeSet<ExecutionId>> = BTreeMap::new();
    for id in executions.keys() {
        let fate = match client.execution(id).await {
            Ok(record) if record.outcome.is_some() => (Fate::Ended, String::new()),
            Ok(_) => why(client, id, &mut waits_for).await?,
            Err(ClientError::NotFound { .. }) => (Fate::NoRecord, String::new()),
            // A record of another type: only `fsck` can name it.
            Err(error) if !error.is_retryable() => (Fate::Silent, error.to_string()),
            Err(error) => return Err(text(error)),
        };
        fates.by_id.insert(id.clone(), fate);
    }
    if let Some(report) = report {
        name_found(&mut fates, executions, report, done);
    }
    name_waiting(&mut fates, &waits_for);
    Ok(fates)
}

/// What `why` says about an execution that has not ended.
async fn why(
    client: &Client,
    id: &ExecutionId,
    waits_for: &mut BTreeMap<ExecutionId, BTreeSet<ExecutionId>>,
) -> Result<(Fate, String), String> {
    let now = client.store().server_time().await.map_err(text)?;
    let explanation = match client.explain(id, &EngineConfig::default()).await {
        Ok(explanation) => explanation,
        Err(error) if !error.is_retryable() => return Ok((Fate::Silent, text(error))),
        Err(error) => return Err(text(error)),
    };
    let mut named = explanation.headline.contains("damaged");
    for wait in explanation.waits.iter().chain(&explanation.limits) {
        named |= match &wait.unblocked_by {
            UnblockedBy::Nobody | UnblockedBy::Operator | UnblockedBy::Submitter => true,
            UnblockedBy::Upstream(upstream) => {
                waits_for.entry(id.clone()).or_default().insert(upstream.clone());
                false
            }
            UnblockedBy::Worker(_) | UnblockedBy::Signaller(_) | UnblockedBy::Scanner(_) => false,
        };
        named |= matches!(wait.by, DueBy::Time(at) if at.0 > now.0.saturating_add(SOON_MS));
    }
    let waits: Vec<&str> = explanation.waits.iter().map(|wait| wait.on.as_str()).collect();
    let told = format!("{}; waits for {}", explanation.headline, waits.join(", "));
    Ok((if named { Fate::NamedByWhy } else { Fate::Silent }, told))
}

/// Those that a finding or a loss mentions, or whose flow it mentions, and those whose partition
/// has a damaged key that they share with others: an index, the secret, a budget or a quota.
fn name_found(
    fates: &mut Fates,
    executions: &BTreeMap<ExecutionId, FlowId>,
    report: &Report,
    done: &Repaired,
) {
    let mut texts: Vec<String> =
        report.violations.iter().map(|found| format!("{} {}", found.subject, found.what)).collect();
    texts.extend(done.losses.iter().map(|loss| format!("{} {}", loss.subject, loss.what)));
    let all = texts.join("\n");
    let shared: Vec<&str> = report
        .violations
        .iter()
        .map(|found| found.subject.as_str())
        .filter(|key| SHARED.iter().any(|front| key.starts_with(front)))
        .collect();
    for (id, (fate, _)) in &mut fates.by_id {
        let tag = id.partition().to_string();
        let by_key = shared.iter().any(|key| !key.contains("{fp:") || key.contains(&tag));
        let by_flow = executions.get(id).is_some_and(|flow| all.contains(&flow.to_string()));
        if *fate == Fate::Silent && (all.contains(id.as_str()) || by_flow || by_key) {
            *fate = Fate::NamedByFsck;
        }
    }
}

/// Who waits for one that is named is named with it.
fn name_waiting(fates: &mut Fates, waits_for: &BTreeMap<ExecutionId, BTreeSet<ExecutionId>>) {
    loop {
        let is_named = |id: &ExecutionId| {
            let fate = fates.by_id.get(id).map(|(fate, _)| *fate);
            matches!(fate, Some(Fate::NamedByWhy | Fate::NamedByFsck))
        };
        let next = waits_for.iter().find(|(id, upstreams)| {
            let silent = fates.by_id.get(*id).is_some_and(|(fate, _)| *fate == Fate::Silent);
            silent && upstreams.iter().any(is_named)
        });
        let Some((id, _)) = next else { return };
        if let Some((fate, _)) = fates.by_id.get_mut(&id.clone()) {
            *fate = Fate::NamedByWhy;
        }
    }
}
