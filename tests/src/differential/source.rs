//! Where tapes come from: random histories, and calls of the spec files.

use std::collections::BTreeMap;

use selvedge_core::audit::Snapshot;
use selvedge_core::value::Value;
use selvedge_lua::host::Host;

use super::coverage::Coverage;
use super::{Step, Tape};
use crate::history::campaign::Campaign as Histories;
use crate::hostile::Campaign as Spec;
use crate::hostile::attack::{perform, spoil_args};
use crate::hostile::contract::Contract;
use crate::hostile::corpus::{Call, Corpus};
use crate::hostile::dice::Dice;

/// Everything that tapes are made of.
pub struct Source {
    library: String,
    contracts: BTreeMap<String, Contract>,
    corpus: Corpus,
    /// Which recorded calls give an answer, by function and answer.
    giving: BTreeMap<(String, String), Vec<usize>>,
}

impl Source {
    /// Records the spec files on a host with this library.
    #[must_use]
    pub fn new(library: &str, spec: Spec) -> Self {
        let Spec { mut host, contracts, corpus } = spec;
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
    /// When its own oracles are not content with what the host did.
    pub fn history(&self, seed: u64) -> Result<(Tape, Snapshot), String> {
        let campaign = Histories { seed, histories: 1, length: HISTORY_LENGTH };
        let world = campaign.world(&self.library, seed)?;
        let end = world.snapshot().clone();
        Ok((world.into_tape(), end))
    }

    /// A few calls of the spec files in the keyspace of the first one, which gives an answer that
    /// is still missing, if any is; now and then with arguments that nobody should send.
    #[must_use]
    pub fn spec_calls(&self, seed: u64, coverage: &Coverage) -> Tape {
        let mut dice = Dice::new(seed, 0);
        let missing: Vec<_> = coverage.unreached().collect();
        let wanted = dice
            .pick(&missing)
            .and_then(|(function, answer)| {
                let calls = self.giving.get(&((*function).to_owned(), (*answer).to_owned()))?;
                self.corpus.calls(function).get(*dice.pick(calls)?)
            })
            .or_else(|| self.any_call(&mut dice));
        let Some(first) = wanted else { return Tape::new() };
        let mut now_us = first.world.now_us;
        let mut tape: Tape = first
            .world
            .commands()
            .into_iter()
            .chain([fcall(first)])
            .map(|command| Step { now_us, command })
            .collect();
        for _ in 0..dice.below(FOLLOWERS_MAX) {
            now_us += *dice.pick(&PAUSES_US).unwrap_or(&0);
            let same = self.corpus.calls(&first.function);
            let other = if dice.percent(40) { dice.pick(same) } else { self.any_call(&mut dice) };
            let Some(mut other) = other.cloned() else { continue };
            if dice.percent(20)
                && let Some(contract) = self.contracts.get(&other.function)
            {
                spoil_args(&mut dice, &self.corpus, contract, &mut other);
            }
            tape.push(Step { now_us, command: fcall(&other) });
        }
        tape
    }

    fn any_call(&self, dice: &mut Dice) -> Option<&Call> {
        let function = dice.pick(self.corpus.functions())?;
        dice.pick(self.corpus.calls(function))
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
            call.world.put(host);
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
