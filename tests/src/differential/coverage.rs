//! [`Coverage`]: which answers each function has given, of all that its header lists.

use std::collections::BTreeMap;
use std::fmt;

use selvedge_core::value::Value;

use crate::hostile::contract::Contract;

/// How often each answer was given.
#[derive(Clone, Debug, Default)]
pub struct Coverage {
    counts: BTreeMap<(String, String), u64>,
}

impl Coverage {
    /// Nothing given yet of what these functions promise.
    #[must_use]
    pub fn of(contracts: &BTreeMap<String, Contract>) -> Self {
        let all = contracts.values().flat_map(|contract| {
            contract.answers().into_iter().map(|answer| (contract.function.clone(), answer))
        });
        Self { counts: all.map(|promised| (promised, 0)).collect() }
    }

    /// Counts an answer.
    pub fn count(&mut self, contract: &Contract, reply: &Value) {
        if let Some(answer) = contract.answer(reply)
            && let Some(count) = self.counts.get_mut(&(contract.function.clone(), answer))
        {
            *count += 1;
        }
    }

    /// The answers that were not given yet, by function.
    pub fn unreached(&self) -> impl Iterator<Item = (&str, &str)> {
        self.counts
            .iter()
            .filter(|(_, count)| **count == 0)
            .map(|((function, answer), _)| (function.as_str(), answer.as_str()))
    }

    /// How many answers are promised.
    #[must_use]
    pub fn promised(&self) -> usize {
        self.counts.len()
    }
}

impl fmt::Display for Coverage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unreached = self.unreached().count();
        let (reached, promised) = (self.promised() - unreached, self.promised());
        writeln!(f, "{reached} of {promised} answers that headers promise were given")?;
        for (function, answer) in self.unreached() {
            writeln!(f, "  never: {function} {answer}")?;
        }
        Ok(())
    }
}
