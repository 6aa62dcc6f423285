//! Admission: whether an execution under budgets or a quota may start now. Those live in other
//! slots than the execution, so the worker asks them between two claims.

use selvedge_core::call::budget::{BlockExecutionForAdmission, HoldReason};
use selvedge_core::call::quota::{
    Admission, CheckAdmissionAndRecord, ReleaseAdmission, STANDING, needs_no_slot,
};
use selvedge_core::engine::Command;
use selvedge_core::id::{BudgetId, ExecutionId, LaneId, QuotaPolicyId};
use selvedge_core::key::Key;

use crate::client::{Client, ClientError, fields, text_hash};

/// What asks for admission.
#[derive(Clone, Debug)]
pub(super) struct Applicant {
    pub(super) execution_id: ExecutionId,
    pub(super) lane: LaneId,
    pub(super) budget_ids: String,
    pub(super) quota_policy_id: String,
}

/// Admits the applicant, or holds it back until the engine finds that its reason is over. Whether
/// it was admitted.
pub(super) async fn admit(client: &Client, applicant: &Applicant) -> Result<bool, ClientError> {
    let refused = match used_up(client, applicant).await? {
        Some(detail) => Some((HoldReason::Budget, detail)),
        None => over_quota(client, applicant).await?.map(|detail| (HoldReason::Quota, detail)),
    };
    let Some((reason, detail)) = refused else { return Ok(true) };
    let call = BlockExecutionForAdmission {
        execution_id: applicant.execution_id.clone(),
        lane_id: applicant.lane.clone(),
        reason,
        detail,
        now: client.server_time().await?,
    };
    match client.repeat(&call).await {
        Ok(()) => {}
        // Somebody else has moved it meanwhile.
        Err(ClientError::Refused(refusal)) => {
            tracing::debug!(execution = %applicant.execution_id, %refusal, "not held back");
        }
        Err(error) => return Err(error),
    }
    Ok(false)
}

/// Gives back the slot of an execution that may be somebody else's by now, unless it is needed.
pub(super) async fn release_unneeded(client: &Client, quota: QuotaPolicyId, of: &ExecutionId) {
    let read = Command::read("HMGET", &Key::execution(of).core(), &STANDING);
    match client.read_one(read).await {
        Ok(standing) if needs_no_slot(&standing) => release(client, quota, of).await,
        Ok(_) => {}
        Err(error) => tracing::debug!(%error, "a quota slot is left to the engine"),
    }
}

/// Gives back the slot of an execution that runs no more; the engine would find it later.
pub(super) async fn release(client: &Client, quota: QuotaPolicyId, execution: &ExecutionId) {
    let call = ReleaseAdmission {
        partition: client.partitions().of_quota(quota),
        quota_policy_id: quota,
        execution_id: execution.clone(),
    };
    if let Err(error) = client.repeat(&call).await {
        tracing::debug!(%error, "a quota slot is left to the engine");
    }
}

/// Which budget has no room, if any.
async fn used_up(client: &Client, applicant: &Applicant) -> Result<Option<String>, ClientError> {
    // Whatever is no budget limits nothing.
    let budgets: Vec<BudgetId> =
        applicant.budget_ids.split(',').filter_map(|id| id.trim().parse().ok()).collect();
    let mut reads = Vec::new();
    for id in &budgets {
        let keys = Key::budget(client.partitions().of_budget(*id), *id);
        reads.push(Command::read("HGETALL", &keys.limits(), &[]));
        reads.push(Command::read("HGETALL", &keys.usage(), &[]));
    }
    if reads.is_empty() {
        return Ok(None);
    }
    let mut hashes = client.read(reads).await?.into_iter().map(text_hash);
    for id in budgets {
        let (Some(limits), Some(usage)) = (hashes.next(), hashes.next()) else { break };
        for (name, limit) in &limits {
            let Some(dimension) = name.strip_prefix("hard:") else { continue };
            let limit: i64 = limit.parse().unwrap_or(0);
            let used: i64 = usage.get(dimension).and_then(|used| used.parse().ok()).unwrap_or(0);
            if limit > 0 && used >= limit {
                return Ok(Some(format!("budget {id}: {dimension} {used}/{limit}")));
            }
        }
    }
    Ok(None)
}

/// What the quota says against it, if anything.
async fn over_quota(client: &Client, applicant: &Applicant) -> Result<Option<String>, ClientError> {
    let Ok(id) = applicant.quota_policy_id.parse::<QuotaPolicyId>() else { return Ok(None) };
    let partition = client.partitions().of_quota(id);
    let names: [&[u8]; 4] = [
        b"max_requests_per_window",
        b"requests_per_window_seconds",
        b"active_concurrency_cap",
        b"jitter_ms",
    ];
    let record = Key::quota(partition, id).record();
    let record = fields(client.read_one(Command::read("HMGET", &record, &names)).await?);
    let figure = |at: usize| record.get(at).and_then(|text| text.parse().ok()).unwrap_or(0);
    let (rate, cap) = (figure(0), figure(2));
    if rate == 0 && cap == 0 {
        return Ok(None);
    }
    let window = if figure(1) == 0 { WINDOW_SECONDS } else { figure(1) };
    let call = CheckAdmissionAndRecord {
        partition,
        quota_policy_id: id,
        execution_id: applicant.execution_id.clone(),
        now: client.server_time().await?,
        window_seconds: window,
        rate_limit: rate,
        concurrency_cap: cap,
        jitter_ms: figure(3),
    };
    Ok(match client.repeat(&call).await? {
        Admission::Admitted | Admission::AlreadyAdmitted => None,
        Admission::RateExceeded { .. } => {
            Some(format!("quota {id}: rate limit {rate} per {window}s window"))
        }
        Admission::ConcurrencyExceeded => Some(format!("quota {id}: concurrency cap {cap}")),
    })
}

/// The window of a quota that names none.
const WINDOW_SECONDS: u64 = 60;
