use alloc::string::String;
use alloc::vec::Vec;

use crate::call::args::args;
use crate::call::envelope::broken;
use crate::call::{Envelope, Function};
use crate::error::CallError;
use crate::key::Key;
use crate::partition::PartitionCounts;
use crate::value::Value;

/// Writes down how many partitions the deployment has, once; later calls only compare. An added
/// function.
#[derive(Clone, Copy, Debug)]
pub struct FixPartitionCounts {
    /// How many there are to be.
    pub counts: PartitionCounts,
}

/// How the counts compare with what is written down.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CountsFixed {
    /// They are stored now.
    Fixed,
    /// They were stored before.
    Same,
    /// Others are written down; as texts, because anybody may have written them.
    Different {
        /// `num_flow_partitions`.
        flow: String,
        /// `num_budget_partitions`.
        budget: String,
        /// `num_quota_partitions`.
        quota: String,
    },
}

impl CountsFixed {
    /// Whether an engine whose last check was in order must prepare the deployment again: counts
    /// that had to be stored mean that the store lost its data. After a check that was not in order
    /// it must in any case, because it may have stopped half way.
    #[must_use]
    pub fn needs_preparation(&self, was_in_order: bool) -> bool {
        *self != Self::Same || !was_in_order
    }
}

impl Function for FixPartitionCounts {
    const NAME: &'static str = "ff_fix_partition_counts";
    const KEYS: &'static [&'static str] = &["counts"];
    const ARGS: &'static [&'static str] = &["flow", "budget", "quota"];

    type Reply = CountsFixed;

    fn keys(&self) -> Vec<Key> {
        alloc::vec![Key::PartitionCounts]
    }

    fn args(&self) -> Vec<Vec<u8>> {
        let PartitionCounts { flow, budget, quota } = self.counts;
        args![flow.get(), budget.get(), quota.get()]
    }

    fn read(envelope: Envelope) -> Result<CountsFixed, CallError> {
        let mut fields = envelope.ok()?;
        let word = fields.text()?;
        match word.as_str() {
            "fixed" => Ok(CountsFixed::Fixed),
            "same" => Ok(CountsFixed::Same),
            "different" => Ok(CountsFixed::Different {
                flow: fields.text()?,
                budget: fields.text()?,
                quota: fields.text()?,
            }),
            _ => Err(broken("how the counts compare", Value::Bulk(word.into_bytes()))),
        }
    }
}
