use alloc::string::String;
use alloc::vec::Vec;

use crate::call::args::args;
use crate::call::{Envelope, Function};
use crate::error::CallError;
use crate::id::BudgetId;
use crate::key::Key;
use crate::partition::Partition;

/// Brings the mark of a breach in step with usage and limits, and answers a page of the executions
/// that have a ledger: those that no longer exist need none. An added function.
#[derive(Clone, Debug)]
pub struct ReconcileBudget {
    /// The partition of the budget.
    pub partition: Partition,
    /// The budget.
    pub budget_id: BudgetId,
    /// Where the page starts: what the last page answered, zero at first.
    pub cursor: u64,
    /// About how many entries a page has.
    pub count: u32,
}

wire_enum! {
    /// What happened to the mark.
    pub enum BreachMark {
        /// It was set.
        Marked = "marked",
        /// It was taken away.
        Unmarked = "unmarked",
        /// It was right.
        Unchanged = "unchanged",
        /// There is no such budget; its index entry is gone.
        Unknown = "unknown_cleaned",
    }
}

/// A budget after its reconciliation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BudgetState {
    /// What happened to the mark.
    pub mark: BreachMark,
    /// Where the next page starts; zero after the last.
    pub next_cursor: u64,
    /// Executions of the page, as they are stored; one may come twice.
    pub spenders: Vec<String>,
}

impl Function for ReconcileBudget {
    const NAME: &'static str = "ff_reconcile_budget";
    const KEYS: &'static [&'static str] = &["def", "limits", "usage", "policies", "by_exec_index"];
    const ARGS: &'static [&'static str] = &["budget_id", "cursor", "count"];

    type Reply = BudgetState;

    fn keys(&self) -> Vec<Key> {
        let budget = Key::budget(self.partition, self.budget_id);
        let policies = Key::index(self.partition).budget_policies();
        alloc::vec![
            budget.record(),
            budget.limits(),
            budget.usage(),
            policies,
            budget.ledger_index()
        ]
    }

    fn args(&self) -> Vec<Vec<u8>> {
        args![self.budget_id, self.cursor, self.count]
    }

    fn read(envelope: Envelope) -> Result<BudgetState, CallError> {
        let mut fields = envelope.ok()?;
        let mut state = BudgetState {
            mark: fields.parse("an outcome of a reconciliation")?,
            next_cursor: fields.parse("a cursor")?,
            spenders: Vec::new(),
        };
        while !fields.is_empty() {
            state.spenders.push(fields.text()?);
        }
        Ok(state)
    }
}
