//! Deletes budgets and quotas, and forgets what was admitted.

use selvedge_core::call::budget::ForgetLedger;
use selvedge_core::call::quota::ADMISSION_DIMENSION;
use selvedge_core::command::Command;
use selvedge_core::id::{BudgetId, ExecutionId, QuotaPolicyId};
use selvedge_core::key::Key;
use selvedge_core::reply::fields;
use selvedge_core::value::Value;

use super::{Client, ClientError};

impl Client {
    /// Deletes a budget and what was spent under it. Tasks that name it are no longer limited by
    /// it; new ones cannot name it.
    ///
    /// # Errors
    /// [`ClientError::NotFound`] when it does not exist; otherwise when the store does not answer.
    /// Repeat it then: what is left is deleted.
    pub async fn delete_budget(&self, id: BudgetId) -> Result<(), ClientError> {
        let partition = self.partitions().of_budget(id);
        let keys = Key::budget(partition, id);
        self.must_exist("budget", &id, &keys.record()).await?;
        loop {
            let page = Command::read("SRANDMEMBER", &keys.ledger_index(), &[LEDGERS_AT_ONCE]);
            let spent: Vec<ExecutionId> = fields(self.read_one(page).await?)
                .iter()
                .filter_map(|execution| execution.parse().ok())
                .collect();
            if spent.is_empty() {
                break;
            }
            let forget = |execution_id| ForgetLedger { partition, budget_id: id, execution_id };
            let calls = spent.into_iter().map(forget).map(|call| Command::call(&call));
            self.read(calls.collect()).await?;
        }
        let (id, index) = (id.to_string(), Key::index(partition));
        let name = [id.as_bytes()];
        // The record last: until then the deletion can be repeated.
        self.read(vec![
            Command::write("DEL", &keys.limits(), &[]),
            Command::write("DEL", &keys.usage(), &[]),
            Command::write("DEL", &keys.ledger_index(), &[]),
            Command::write("ZREM", &index.budget_resets(), &name),
            Command::write("SREM", &index.budget_policies(), &name),
        ])
        .await?;
        self.read_one(Command::write("DEL", &keys.record(), &[])).await.map(drop)
    }

    /// Forgets the starts within the window of a quota: as many may start as in a new window. Those
    /// that run still count.
    ///
    /// # Errors
    /// [`ClientError::NotFound`] when it does not exist; otherwise when the store does not answer.
    pub async fn reset_quota(&self, id: QuotaPolicyId) -> Result<(), ClientError> {
        let keys = Key::quota(self.partitions().of_quota(id), id);
        self.must_exist("quota", &id, &keys.record()).await?;
        self.read_one(Command::write("DEL", &keys.window(ADMISSION_DIMENSION), &[])).await.map(drop)
    }

    /// Deletes a quota. Tasks that name it are no longer limited by it; new ones cannot name it.
    ///
    /// # Errors
    /// [`ClientError::NotFound`] when it does not exist; otherwise when the store does not answer.
    /// Repeat it then: what is left is deleted.
    pub async fn delete_quota(&self, id: QuotaPolicyId) -> Result<(), ClientError> {
        let partition = self.partitions().of_quota(id);
        let keys = Key::quota(partition, id);
        self.must_exist("quota", &id, &keys.record()).await?;
        let name = id.to_string();
        self.read(vec![
            Command::write("DEL", &keys.window(ADMISSION_DIMENSION), &[]),
            Command::write("DEL", &keys.concurrency(), &[]),
            Command::write("DEL", &keys.admitted_set(), &[]),
            Command::write("SREM", &Key::index(partition).quota_policies(), &[name.as_bytes()]),
        ])
        .await?;
        self.read_one(Command::write("DEL", &keys.record(), &[])).await.map(drop)
    }

    async fn must_exist(
        &self,
        kind: &'static str,
        id: &impl ToString,
        record: &Key,
    ) -> Result<(), ClientError> {
        if self.read_one(Command::read("EXISTS", record, &[])).await? == Value::Int(1) {
            return Ok(());
        }
        Err(ClientError::NotFound { kind, id: id.to_string() })
    }
}

/// Most ledgers that are deleted in one round trip.
const LEDGERS_AT_ONCE: &[u8] = b"500";
