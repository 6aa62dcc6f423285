//! Hostile calls: an error means that nothing was written, for any arguments and any keyspace.
//!
//! The [`corpus`] is every call that the spec files make, with its keyspace. A [hostile
//! call](generate::hostile_call) starts from one of them, lets time and other calls pass, and
//! corrupts arguments, keys and [keyspace](keyspace_data::KeyspaceData). The result is
//! [judged](judge::judge) by the function's header, its [`contract`]. A failure is
//! [shrunk](shrink::shrink) and printed with the command that runs it alone.
//! [`fail_inner_commands`] lets each inner command of good calls fail. [`moving_slot`] makes calls
//! in a slot that moves from one node to another.

pub mod allowed_writes;
pub mod contract;
pub mod corpus;
pub mod corrupt;
pub mod fail_inner_commands;
pub mod generate;
pub mod hostile_value;
pub mod judge;
pub mod keyspace_data;
pub mod moving_slot;
pub mod shrink;
pub mod write_marker;

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use selvedge_lua::host::{Host, HostConfig};

use crate::spec::suite::Suite;
use contract::Contract;
use corpus::{Call, Corpus};
use judge::Judged;
use moving_slot::{Border, WholeSlot};
use selvedge_sim::search::Draws;

/// Everything that hostile calls need: a host with the library, its contracts, and real calls.
pub struct HostileRunner {
    /// Runs the attacks.
    pub host: Host,
    /// What every function promises.
    pub contracts: BTreeMap<String, Contract>,
    /// Where attacks start from.
    pub corpus: Corpus,
    /// Calls are made in a slot that moves key by key.
    migrating: bool,
    library: String,
}

/// A promise that was broken.
#[derive(Debug)]
pub struct Finding {
    /// The seed.
    pub seed: u64,
    /// Which attack of the seed.
    pub attack: u64,
    /// What is wrong.
    pub fault: String,
    /// The call, as small as it got.
    pub call: Call,
    /// Whether its slot moved.
    pub migrating: bool,
}

impl HostileRunner {
    /// Loads the library and records the spec files of a clone.
    pub fn prepare(library: &str, lua: &Path, spec: &Path) -> Result<Self, String> {
        let mut host = Host::new(HostConfig::default());
        host.log_inner_commands(true);
        if let selvedge_core::value::Value::Error(error) = host.call(&["FUNCTION", "LOAD", library])
        {
            return Err(error);
        }
        let contracts = Contract::read_all(&mut host, lua)?;
        let corpus = Corpus::record(library, &Suite::read(spec)?, &contracts);
        let library = library.to_owned();
        Ok(Self { host, contracts, corpus, migrating: false, library })
    }

    /// Makes all calls in a slot that moves key by key from now on.
    pub fn migrate(&mut self) {
        self.migrating = true;
        self.host = Host::new(HostConfig { cluster: true, ..HostConfig::default() });
        self.host.call(&["FUNCTION", "LOAD", &self.library]);
    }

    /// Runs one attack of a seed, on the function whose turn it is or on a given one.
    pub fn run(&mut self, seed: u64, attack: u64, function: Option<&str>) -> Option<Finding> {
        let turn = usize::try_from(attack).unwrap_or(0) % self.contracts.len().max(1);
        let contract = match function {
            Some(name) => self.contracts.get(name),
            None => self.contracts.values().nth(turn),
        }?;
        let function = contract.function.clone();
        let mut draws = Draws::seeded(seed, attack);
        let call = self.draw(&mut draws, &function)?;
        let (fault, call) = if self.migrating {
            let border = Border::drawn(draws.bits());
            let fault = self.judge_at(&call, border)?;
            self.shrink_by(fault, call, |runner, call| runner.judge_at(call, border))
        } else {
            let fault = self.judge(&call)?.fault?;
            self.shrink(fault, call)
        };
        Some(Finding { seed, attack, fault, call, migrating: self.migrating })
    }

    /// The attack that these draws choose on a function.
    pub fn draw(&mut self, draws: &mut Draws, function: &str) -> Option<Call> {
        let contract = self.contracts.get(function)?;
        Some(generate::hostile_call(draws, &self.corpus, contract, &mut self.host))
    }

    /// Carries out a call and judges what came of it.
    pub fn judge(&mut self, call: &Call) -> Option<Judged> {
        let contract = self.contracts.get(&call.function)?;
        Some(judge::judge(call, contract, &self.corpus, &mut self.host))
    }

    /// What is wrong with what a call does while its slot moves.
    pub fn judge_at(&mut self, call: &Call, border: Border) -> Option<String> {
        let contract = self.contracts.get(&call.function)?;
        WholeSlot::of(call, contract, &mut self.host)?.judge_at(border, &mut self.host)
    }

    /// The same for borders along the whole move of the slot; answers how many there were, too.
    pub fn judge_move(&mut self, call: &Call) -> (usize, Vec<String>) {
        let contract = self.contracts.get(&call.function);
        let whole = contract.and_then(|contract| WholeSlot::of(call, contract, &mut self.host));
        let Some(whole) = whole else { return (0, Vec::new()) };
        let borders = Border::along(call.keyspace.keys.len());
        let judge = |border: &Border| whole.judge_at(*border, &mut self.host);
        (borders.len(), borders.iter().filter_map(judge).collect())
    }

    /// Makes a call that showed a fault as small as it gets.
    pub fn shrink(&mut self, fault: String, call: Call) -> (String, Call) {
        self.shrink_by(fault, call, |runner, call| runner.judge(call)?.fault)
    }

    fn shrink_by(
        &mut self,
        mut fault: String,
        call: Call,
        judge: impl Fn(&mut Self, &Call) -> Option<String>,
    ) -> (String, Call) {
        let call = shrink::shrink(call, |smaller| {
            let found = judge(self, smaller);
            found.inspect(|found| fault.clone_from(found)).is_some()
        });
        (judge(self, &call).unwrap_or(fault), call)
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (seed, attack, function) = (self.seed, self.attack, &self.call.function);
        let mode = if self.migrating { " --migrating" } else { "" };
        writeln!(out, "{function}: {}", self.fault)?;
        write!(out, "{}", self.call)?;
        writeln!(
            out,
            "  alone: cargo run -p selvedge-tests --bin hostile -- --seed {seed} --attack {attack} \
             --function {function}{mode}"
        )
    }
}
