//! Hostile calls: an error means that nothing was written, for any arguments and any keyspace.
//!
//! The [`corpus`] is every call that the spec files make, with its keyspace. A [hostile
//! call](generate::hostile_call) starts from one of them, lets time and other calls pass, and
//! corrupts arguments, keys and [keyspace](keyspace_data::KeyspaceData). The result is
//! [judged](judge::judge) by the function's header, its [`contract`]. A failure is
//! [shrunk](shrink::shrink) and printed with the command that runs it alone.
//! [`fail_inner_commands`] lets each inner command of good calls fail.

pub mod allowed_writes;
pub mod contract;
pub mod corpus;
pub mod corrupt;
pub mod fail_inner_commands;
pub mod generate;
pub mod hostile_value;
pub mod judge;
pub mod keyspace_data;
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
use selvedge_sim::search::Draws;

/// Everything that hostile calls need: a host with the library, its contracts, and real calls.
pub struct HostileRunner {
    /// Runs the attacks.
    pub host: Host,
    /// What every function promises.
    pub contracts: BTreeMap<String, Contract>,
    /// Where attacks start from.
    pub corpus: Corpus,
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
        Ok(Self { host, contracts, corpus })
    }

    /// Runs one attack of a seed, on the function whose turn it is or on a given one.
    pub fn run(&mut self, seed: u64, attack: u64, function: Option<&str>) -> Option<Finding> {
        let turn = usize::try_from(attack).unwrap_or(0) % self.contracts.len().max(1);
        let contract = match function {
            Some(name) => self.contracts.get(name),
            None => self.contracts.values().nth(turn),
        }?;
        let function = contract.function.clone();
        let call = self.draw(&mut Draws::seeded(seed, attack), &function)?;
        let fault = self.judge(&call)?.fault?;
        let (fault, call) = self.shrink(fault, call);
        Some(Finding { seed, attack, fault, call })
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

    /// Makes a call that showed a fault as small as it gets.
    pub fn shrink(&mut self, mut fault: String, call: Call) -> (String, Call) {
        let call = shrink::shrink(call, |smaller| {
            let found = self.judge(smaller).and_then(|judged| judged.fault);
            found.inspect(|found| fault.clone_from(found)).is_some()
        });
        let last = self.judge(&call).and_then(|judged| judged.fault);
        (last.unwrap_or(fault), call)
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (seed, attack, function) = (self.seed, self.attack, &self.call.function);
        writeln!(out, "{function}: {}", self.fault)?;
        write!(out, "{}", self.call)?;
        writeln!(
            out,
            "  alone: cargo run -p selvedge-tests --bin hostile -- --seed {seed} --attack {attack} \
             --function {function}"
        )
    }
}
