//! Counts what was used of a budget, and takes from it ahead.

use selvedge_core::call::budget::{Delta, RecordUsage, ReportUsageAndCheck, UsageVerdict};
use selvedge_core::id::BudgetId;

use super::{Client, ClientError};

impl Client {
    /// Adds usage that has happened to a budget, also above its limits; the verdict says whether
    /// one is passed. Idempotent for a day: the same `report` name counts once within 24 hours.
    ///
    /// # Errors
    /// When the store does not answer.
    pub async fn spend(
        &self,
        id: BudgetId,
        report: &str,
        amounts: &[(&str, i64)],
    ) -> Result<UsageVerdict, ClientError> {
        let partition = self.partitions().of_budget(id);
        let spend = |now| RecordUsage {
            partition,
            budget_id: id,
            execution_id: None,
            deltas: deltas(amounts),
            now,
            dedup_id: Some(report.to_owned()),
        };
        self.call_at(partition, spend).await
    }

    /// Takes from a budget before something is used, unless that would pass a hard limit: then
    /// nothing is added. Idempotent like [`Client::spend`]; a negative amount gives back.
    ///
    /// # Errors
    /// When the store does not answer.
    pub async fn spend_if_room(
        &self,
        id: BudgetId,
        report: &str,
        amounts: &[(&str, i64)],
    ) -> Result<UsageVerdict, ClientError> {
        let partition = self.partitions().of_budget(id);
        let spend = |now| ReportUsageAndCheck {
            partition,
            budget_id: id,
            deltas: deltas(amounts),
            now,
            dedup_id: Some(report.to_owned()),
        };
        self.call_at(partition, spend).await
    }
}

pub(crate) fn deltas(amounts: &[(&str, i64)]) -> Vec<Delta> {
    let delta =
        |&(dimension, delta): &(&str, i64)| Delta { dimension: dimension.to_owned(), delta };
    amounts.iter().map(delta).collect()
}
