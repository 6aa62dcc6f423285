//! The sources of call sequences: random histories, and calls of the spec files.

use std::collections::BTreeMap;

use selvedge_core::audit::Snapshot;
use selvedge_core::value::Value;
use selvedge_lua::host::Host;

use super::coverage::Coverage;
use super::{CallSequence, SequenceStep};
use crate::history::run::HistoryRun;
use crate::hostile::HostileRunner;
use crate::hostile::contract::Contract;
use crate::hostile::corpus::{Call, Corpus};
use crate::hostile::generate::{corrupt_args, perform};
use selvedge_sim::search::Draws;

/// Everything that sequences are made of.
pub struct SequenceSource {
    library: String,
    contracts: BTreeMap<String, Contract>,
    corpus: Corpus,
    /// Which recorded calls give an answer, by function and answer.
    giving: BTreeMap<(String, String), Vec<usize>>,
}

impl SequenceSource {
    /// Records the spec files on a host with this library.
    #[must_use]
    pub fn new(library: &str, spec: HostileRunner) -> Self {
        let HostileRunner { mut host, contracts, corpus, .. } = spec;
        let giving = answers(&mut host, &contracts, &corpus);
        Self { library: library.to_owned(), contracts, corpus, giving }
    }

    /// What every function promises.
    #[must_use]
    pub fn contracts(&self) -> &BTreeMap<String, Contract> {
        &self.contracts
    }

    /// A random history: many calls that belong together, and the keyspace that they leave.
    ///
    /// # Errors
    /// When its oracles find a violation.
    pub fn history(&self, seed: u64) -> Result<(CallSequence, Snapshot), String> {
        let options =
            HistoryRun { seed, histories: 1, length: HISTORY_LENGTH, jobs: 1, migrating: false };
        let state = options.state(&self.library, seed)?;
        let end = state.snapshot().clone();
        Ok((state.into_sequence(), end))
    }

    /// A few calls of the spec files in the keyspace of the first one, which gives an answer that
    /// is still missing, if any is; now and then with hostile arguments.
    #[must_use]
    pub fn spec_calls(&self, seed: u64, coverage: &Coverage) -> CallSequence {
        let mut draws = Draws::seeded(seed, 0);
        let missing: Vec<_> = coverage.unreached().collect();
        let wanted = draws
            .pick(&missing)
            .and_then(|(function, answer)| {
                let calls = self.giving.get(&((*function).to_owned(), (*answer).to_owned()))?;
                self.corpus.calls(function).get(*draws.pick(calls)?)
            })
            .or_else(|| self.any_call(&mut draws));
        let Some(first) = wanted else { return CallSequence::new() };
        let mut now_us = first.keyspace.now_us;
        let mut sequence: CallSequence = first
            .keyspace
            .commands()
            .into_iter()
            .chain([fcall(first)])
            .map(|command| SequenceStep { now_us, command })
            .collect();
        for _ in 0..draws.index(FOLLOWERS_MAX) {
            now_us += *draws.pick(&PAUSES_US).unwrap_or(&0);
            let same = self.corpus.calls(&first.function);
            let other =
                if draws.percent(40) { draws.pick(same) } else { self.any_call(&mut draws) };
            let Some(mut other) = other.cloned() else { continue };
            if draws.percent(20)
                && let Some(contract) = self.contracts.get(&other.function)
            {
                corrupt_args(&mut draws, &self.corpus, contract, &mut other);
            }
            sequence.push(SequenceStep { now_us, command: fcall(&other) });
        }
        sequence
    }

    fn any_call(&self, draws: &mut Draws) -> Option<&Call> {
        let function = draws.pick(self.corpus.functions())?;
        draws.pick(self.corpus.calls(function))
    }
}

/// Makes every recorded call once, to learn what it answers.
fn answers(
    host: &mut Host,
    contracts: &BTreeMap<String, Contract>,
    corpus: &Corpus,
) -> BTreeMap<(String, String), Vec<usize>> {
    let mut giving = BTreeMap::<_, Vec<usize>>::new();
    for (function, contract) in contracts {
        for (index, call) in corpus.calls(function).iter().enumerate() {
            call.keyspace.put(host);
            let reply: Value = perform(call, host);
            if let Some(answer) = contract.answer(&reply) {
                giving.entry((function.clone(), answer)).or_default().push(index);
            }
        }
    }
    giving
}

fn fcall(call: &Call) -> Vec<Vec<u8>> {
    let head = ["FCALL", &call.function, &call.keys.len().to_string()]
        .map(|word| word.as_bytes().to_vec());
    head.into_iter().chain(call.keys.clone()).chain(call.args.clone()).collect()
}

const HISTORY_LENGTH: usize = 60;
const FOLLOWERS_MAX: usize = 8;

/// From the same instant to past every lease, timeout and window.
const PAUSES_US: [u64; 6] = [0, 1_000, 500_000, 6_000_000, 61_000_000, 90_000_000_000];
