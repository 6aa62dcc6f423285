//! The ledger of costs: what each function takes on its usual path, in inner commands and in
//! instructions of Lua, counted on the in-process host. Both are the same on every machine.
//!
//! `tests/costs/ledger.txt` is the ledger of the sources as they are; a test fails when a line of
//! it has grown. `tests/costs/release.txt` is that of the last release. The usual path of a
//! function is a case of its spec file, the first one unless `usual_path` names another;
//! `shapes` adds whole flows.

mod shapes;
mod table;
mod usual_path;

use std::collections::BTreeMap;

use selvedge_lua::host::Host;

use crate::spec::store::{self, HostStore};
use crate::spec::suite::Suite;

pub use table::{compare, grown, parse, render};

/// What something takes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// Inner commands by lower-case name.
    pub commands: BTreeMap<String, usize>,
    /// Instructions of Lua.
    pub instructions: u64,
}

impl Cost {
    /// What the last call of a host took that counts exactly and logs its inner commands.
    fn of_last_call(host: &Host) -> Self {
        let mut cost = Self { instructions: host.last_instructions(), ..Self::default() };
        for command in host.last_inner_log() {
            let name = command.argv.first().map(|name| name.to_ascii_lowercase());
            let name = String::from_utf8_lossy(&name.unwrap_or_default()).into_owned();
            *cost.commands.entry(name).or_default() += 1;
        }
        cost
    }

    /// All inner commands.
    fn command_count(&self) -> usize {
        self.commands.values().sum()
    }

    /// The dearer of two: that with more inner commands, or else with more instructions.
    fn dearer(self, other: Self) -> Self {
        let figures = |cost: &Self| (cost.command_count(), cost.instructions);
        if figures(&self) >= figures(&other) { self } else { other }
    }

    fn add(&mut self, other: Self) {
        self.instructions += other.instructions;
        for (name, count) in other.commands {
            *self.commands.entry(name).or_default() += count;
        }
    }
}

/// One line: what is measured, of how many tasks and edges (one for a single call), and the cost of
/// all of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// A function, or a function and a shape.
    pub name: String,
    /// Over how many the cost is divided.
    pub per: usize,
    /// The cost of all together.
    pub cost: Cost,
}

/// Measures a library on the usual paths of a suite, and on whole flows.
///
/// # Errors
/// When the host refuses the library, or a function never succeeds on its usual path.
pub fn measure(library: &str, suite: &Suite) -> Result<Vec<Line>, String> {
    let mut store = HostStore::counting();
    store::load(&mut store, library)?;
    let mut lines = Vec::new();
    for file in &suite.functions {
        lines.push(usual_path::measure(suite, file, &mut store)?);
    }
    lines.extend(shapes::measure(library)?);
    Ok(lines)
}
