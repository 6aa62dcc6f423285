//! Admission: checks whether the budgets and the quota of an execution let it start now, and
//! releases quota slots. Budgets and quotas are in other slots than the execution, so the worker
//! checks them between two claims.

use selvedge_core::admission::{QuotaTerms, budget_ids, budget_reads, exhausted};
use selvedge_core::call::budget::{BlockExecutionForAdmission, HoldReason};
use selvedge_core::call::quota::{
    Admission, CheckAdmissionAndRecord, ReleaseAdmission, STANDING, needs_no_slot,
};
use selvedge_core::command::Command;
use selvedge_core::id::{BudgetId, ExecutionId, LaneId, QuotaPolicyId};
use selvedge_core::key::Key;

use crate::client::{Client, ClientError, fields, text_hash};

/// An execution that needs admission.
#[derive(Clone, Debug)]
pub(super) struct AdmissionRequest {
    pub(super) execution_id: ExecutionId,
    pub(super) lane: LaneId,
    pub(super) budget_ids: String,
    pub(super) quota_policy_id: String,
}

/// Admits the execution, or blocks it until the engine finds that the reason is gone. Returns
/// whether it was admitted.
pub(super) async fn admit(
    client: &Client,
    request: &AdmissionRequest,
) -> Result<bool, ClientError> {
    let refused = match exhausted_budget(client, request).await? {
        Some(detail) => Some((HoldReason::Budget, detail)),
        None => refused_by_quota(client, request).await?.map(|detail| (HoldReason::Quota, detail)),
    };
    let Some((reason, detail)) = refused else { return Ok(true) };
    let call = BlockExecutionForAdmission {
        execution_id: request.execution_id.clone(),
        lane_id: request.lane.clone(),
        reason,
        detail,
        now: client.server_time().await?,
    };
    match client.call_with_retry(&call).await {
        Ok(()) => {}
        // Its state has changed meanwhile.
        Err(ClientError::Refused(refusal)) => {
            let execution = &request.execution_id;
            tracing::debug!(%execution, %refusal, "execution not blocked: its state has changed");
        }
        Err(error) => return Err(error),
    }
    Ok(false)
}

/// Releases the quota slot of an execution that another worker may have by now, unless it still
/// needs the slot.
pub(super) async fn release_unneeded(client: &Client, quota: QuotaPolicyId, of: &ExecutionId) {
    let read = Command::read("HMGET", &Key::execution(of).core(), &STANDING);
    match client.read_one(read).await {
        Ok(standing) if needs_no_slot(&standing) => release(client, quota, of).await,
        Ok(_) => {}
        Err(error) => tracing::debug!(%error, "quota slot not released, left to the engine"),
    }
}

/// Releases the quota slot of an execution that does not run any more. If that fails, the engine
/// does it later.
pub(super) async fn release(client: &Client, quota: QuotaPolicyId, execution: &ExecutionId) {
    let call = ReleaseAdmission {
        partition: client.partitions().of_quota(quota),
        quota_policy_id: quota,
        execution_id: execution.clone(),
    };
    if let Err(error) = client.call_with_retry(&call).await {
        tracing::debug!(%error, "quota slot not released, left to the engine");
    }
}

/// Which budget is exhausted, if any.
async fn exhausted_budget(
    client: &Client,
    request: &AdmissionRequest,
) -> Result<Option<String>, ClientError> {
    let budgets: Vec<BudgetId> = budget_ids(&request.budget_ids).collect();
    if budgets.is_empty() {
        return Ok(None);
    }
    let reads = budget_reads(*client.partitions(), budgets.iter().copied());
    let mut hashes = client.read(reads).await?.into_iter().map(text_hash);
    for id in budgets {
        let (Some(limits), Some(usage)) = (hashes.next(), hashes.next()) else { break };
        if let Some(exhausted) = exhausted(&limits, &usage) {
            return Ok(Some(format!("budget {id}: {exhausted}")));
        }
    }
    Ok(None)
}

/// Takes a slot of the quota; if it is refused one, why.
async fn refused_by_quota(
    client: &Client,
    request: &AdmissionRequest,
) -> Result<Option<String>, ClientError> {
    let Ok(id) = request.quota_policy_id.parse::<QuotaPolicyId>() else { return Ok(None) };
    let partition = client.partitions().of_quota(id);
    let record = Key::quota(partition, id).record();
    let record = Command::read("HMGET", &record, &QuotaTerms::FIELDS);
    let terms = QuotaTerms::read(&fields(client.read_one(record).await?));
    if terms.is_unlimited() {
        return Ok(None);
    }
    let QuotaTerms { rate, window_seconds, concurrency_cap, jitter_ms } = terms;
    let call = CheckAdmissionAndRecord {
        partition,
        quota_policy_id: id,
        execution_id: request.execution_id.clone(),
        now: client.server_time().await?,
        window_seconds,
        rate_limit: rate,
        concurrency_cap,
        jitter_ms,
    };
    Ok(match client.call_with_retry(&call).await? {
        Admission::Admitted | Admission::AlreadyAdmitted => None,
        Admission::RateExceeded { .. } => {
            Some(format!("quota {id}: rate limit {rate} per {window_seconds}s window"))
        }
        Admission::ConcurrencyExceeded => {
            Some(format!("quota {id}: concurrency cap {concurrency_cap}"))
        }
    })
}
