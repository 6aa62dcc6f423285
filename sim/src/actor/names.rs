//! The ids of the names in a plan. A name has the same id in every run.

use std::collections::BTreeMap;

use selvedge_core::id::{BudgetId, ExecutionId, FlowId, QuotaPolicyId};
use selvedge_core::partition::{Partition, PartitionCounts};
use uuid::Uuid;

use crate::trace::Digest;

/// The ids of the names in a plan.
pub struct Names {
    counts: PartitionCounts,
    flows: BTreeMap<String, FlowId>,
    homes: BTreeMap<String, u16>,
    executions: BTreeMap<ExecutionId, String>,
}

impl Names {
    pub(crate) fn new(counts: PartitionCounts) -> Self {
        let (flows, homes, executions) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        Self { counts, flows, homes, executions }
    }

    /// The flow of this name. If the plan places it in a partition, it gets an id of that
    /// partition.
    pub(crate) fn register_flow(&mut self, name: &str, partition: Option<u16>) -> FlowId {
        if let Some(known) = self.flows.get(name) {
            return *known;
        }
        let wanted = partition.map(|partition| partition % self.counts.flow);
        let fits = |id: &FlowId| wanted.is_none_or(|at| self.counts.of_flow(*id).index == at);
        let salted = |salt: u64| FlowId::from(uuid(name, salt));
        // A fitting id is found after far fewer tries.
        let id = (0..100_000).map(salted).find(fits).unwrap_or_else(|| salted(0));
        self.flows.insert(name.to_owned(), id);
        self.homes.insert(name.to_owned(), self.counts.of_flow(id).index);
        id
    }

    /// The execution of this name, which is not in a flow, in this partition.
    pub(crate) fn register_execution(&mut self, name: &str, partition: Option<u16>) -> ExecutionId {
        if let (Some(partition), false) = (partition, self.homes.contains_key(name)) {
            self.homes.insert(name.to_owned(), partition % self.counts.flow);
        }
        self.execution(name)
    }

    /// The flow of this name, if it was registered.
    #[must_use]
    pub fn flow(&self, name: &str) -> Option<FlowId> {
        self.flows.get(name).copied()
    }

    /// The partition of a flow.
    #[must_use]
    pub fn partition_of(&self, flow: FlowId) -> Partition {
        self.counts.of_flow(flow)
    }

    /// The execution of this name: `F1.a` is in the partition of its flow.
    pub(crate) fn execution(&mut self, name: &str) -> ExecutionId {
        let home = name.split_once('.').map_or(name, |(flow, _)| flow);
        let drawn = || (hash(home, 0) % u64::from(self.counts.flow.get())) as u16;
        let home = self.homes.get(home).copied().unwrap_or_else(drawn);
        let id = ExecutionId::new(home, uuid(name, 0));
        self.executions.entry(id.clone()).or_insert_with(|| name.to_owned());
        id
    }

    /// The name of an execution, if the plan has one.
    #[must_use]
    pub fn name_of(&self, id: &ExecutionId) -> Option<&str> {
        self.executions.get(id).map(String::as_str)
    }

    /// All names by id.
    #[must_use]
    pub fn by_id(&self) -> BTreeMap<String, String> {
        let executions = self.executions.iter().map(|(id, name)| (id.to_string(), name.clone()));
        let flows = self.flows.iter().map(|(name, id)| (id.to_string(), name.clone()));
        executions.chain(flows).collect()
    }

    /// The partition counts of the deployment.
    #[must_use]
    pub const fn counts(&self) -> PartitionCounts {
        self.counts
    }

    /// The shared budget and its partition.
    #[must_use]
    pub fn budget(&self) -> (BudgetId, Partition) {
        let id = BudgetId::from(uuid("budget", 0));
        (id, self.counts.of_budget(id))
    }

    /// The shared quota and its partition.
    #[must_use]
    pub fn quota(&self) -> (QuotaPolicyId, Partition) {
        let id = QuotaPolicyId::from(uuid("quota", 0));
        (id, self.counts.of_quota(id))
    }
}

/// A hash of a name.
pub(crate) fn hash(name: &str, salt: u64) -> u64 {
    let mut digest = Digest::default();
    digest.number(salt);
    digest.bytes(name.as_bytes());
    digest.number(1);
    let hash = digest.finish();
    hash ^ (hash >> 31)
}

/// A uuid from a name.
pub(crate) fn uuid(name: &str, salt: u64) -> Uuid {
    let bits = u128::from(hash(name, 2 * salt + 1)) << 64 | u128::from(hash(name, 2 * salt + 2));
    uuid::Builder::from_random_bytes(bits.to_be_bytes()).into_uuid()
}
