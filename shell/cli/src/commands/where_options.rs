//! The filter of lists and of changes of many executions, as options.

use clap::Args;
use selvedge::inspect::{ExecutionFilter, InvalidCondition};

use super::context::Context;
use super::failure::Failure;

/// The conditions.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct Where {
    /// Only executions for which this holds; all of several have to hold. One of: state=…, lane=…,
    /// kind=…, category=… (several values: a,b), tag.KEY=…, reason=…, reason~PART, age>1h, age<2d.
    /// The age is the time since the state changed last.
    #[arg(long = "where", value_name = "CONDITION", value_parser = condition)]
    pub(crate) conditions: Vec<String>,
}

fn condition(text: &str) -> Result<String, InvalidCondition> {
    ExecutionFilter::default().add(text).map(|()| text.to_owned())
}

impl Where {
    /// The filter, for the namespaces that the command works on.
    pub(crate) fn filter(&self, context: &Context) -> Result<ExecutionFilter, Failure> {
        let mut filter = ExecutionFilter::default();
        for condition in &self.conditions {
            filter.add(condition).map_err(Failure::usage)?;
        }
        filter.namespace = (!context.all_namespaces).then(|| context.namespace.clone());
        Ok(filter)
    }
}
