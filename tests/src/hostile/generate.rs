//! Generates hostile calls: takes a real call with its keyspace and corrupts some of it.

use selvedge_lua::host::{Host, InnerCommand};

use crate::hostile::contract::Contract;
use crate::hostile::corpus::{Call, Corpus};
use crate::hostile::corrupt::corrupt_keyspace;
use crate::hostile::hostile_value::hostile_value;
use crate::hostile::keyspace_data::KeyspaceData;
use selvedge_sim::search::Draws;

/// The attack that these draws choose on a function.
pub fn hostile_call(
    draws: &mut Draws,
    corpus: &Corpus,
    contract: &Contract,
    host: &mut Host,
) -> Call {
    let mut call = plausible(draws, corpus, contract);
    if draws.percent(20) {
        run_other_calls(draws, corpus, &mut call, host);
    }
    if draws.percent(15) {
        call.keyspace.now_us += *draws.pick(&LATER_US).unwrap_or(&0);
    }
    let touched = touched(&call, host);
    for _ in 0..draws.pick(&[0, 0, 1, 1, 1, 2, 3, 5]).copied().unwrap_or(0) {
        corrupt_keyspace(draws, &mut call.keyspace, &touched);
    }
    for _ in 0..draws.pick(&[0, 0, 0, 1, 1, 1, 2, 3]).copied().unwrap_or(0) {
        corrupt_args(draws, corpus, contract, &mut call);
    }
    if draws.percent(20) {
        corrupt_keys(draws, corpus, contract, &mut call);
    }
    call
}

/// Carries out a call in its keyspace.
pub fn perform(call: &Call, host: &mut Host) -> selvedge_core::value::Value {
    host.fcall(&call.function, &call.keys, &call.args)
}

/// A call as the spec files make it, now and then in another keyspace than its own.
fn plausible(draws: &mut Draws, corpus: &Corpus, contract: &Contract) -> Call {
    let mut call = match draws.pick(corpus.calls(&contract.function)) {
        Some(call) if draws.percent(95) => call.clone(),
        _ => by_names(draws, corpus, contract),
    };
    match draws.index(20) {
        0 => call.keyspace.keys.clear(),
        1 | 2 => call.keyspace = any_keyspace(draws, corpus),
        _ => {}
    }
    call
}

/// A call put together from what keys and arguments of the same names are elsewhere.
fn by_names(draws: &mut Draws, corpus: &Corpus, contract: &Contract) -> Call {
    let mut choose = |pool: &[Vec<u8>], name: &str| {
        draws.pick(pool).cloned().unwrap_or_else(|| format!("ff:{{fp:1}}:{name}").into_bytes())
    };
    let keys = contract.keys.iter().map(|name| choose(corpus.keys_named(name), name)).collect();
    let args = contract.args.iter().map(|name| choose(corpus.args_named(name), name)).collect();
    let function = contract.function.clone();
    Call { keyspace: any_keyspace(draws, corpus), function, keys, args }
}

fn any_keyspace(draws: &mut Draws, corpus: &Corpus) -> KeyspaceData {
    any_call(draws, corpus).map(|call| call.keyspace.clone()).unwrap_or_default()
}

fn any_call<'a>(draws: &mut Draws, corpus: &'a Corpus) -> Option<&'a Call> {
    let function = draws.pick(corpus.functions())?;
    draws.pick(corpus.calls(function))
}

/// Lets a few other calls happen first. The spec files share their ids, so that these meet.
fn run_other_calls(draws: &mut Draws, corpus: &Corpus, call: &mut Call, host: &mut Host) {
    call.keyspace.put(host);
    for _ in 0..=draws.index(3) {
        if let Some(other) = any_call(draws, corpus) {
            perform(other, host);
        }
    }
    call.keyspace = KeyspaceData::read(host);
}

/// The inner commands of a call, which tell where it can be hurt.
fn touched(call: &Call, host: &mut Host) -> Vec<InnerCommand> {
    call.keyspace.put(host);
    perform(call, host);
    host.last_inner_log()
}

/// Makes one argument of a call another one, or takes it away, or adds one.
pub fn corrupt_args(draws: &mut Draws, corpus: &Corpus, contract: &Contract, call: &mut Call) {
    let at = draws.index(call.args.len());
    let other = draws.index(call.args.len());
    let pool = contract.args.get(at).map_or(&[][..], |name| corpus.args_named(name));
    let usual = draws.pick(pool).cloned();
    match (draws.index(20), call.args.get_mut(at)) {
        (0, _) => call.args.truncate(at),
        (1, _) => call.args.push(hostile_value(draws)),
        (2, Some(_)) => drop(call.args.remove(at)),
        (3, Some(arg)) => {
            let copy = arg.clone();
            call.args.insert(at, copy);
        }
        (4, Some(_)) => call.args.swap(at, other),
        (5, Some(arg)) => arg.clear(),
        (6..=9, Some(arg)) => *arg = usual.unwrap_or_default(),
        (10, Some(arg)) => {
            let cut = draws.index(arg.len());
            arg.truncate(cut);
        }
        (_, Some(arg)) => *arg = hostile_value(draws),
        (_, None) => call.args.push(hostile_value(draws)),
    }
}

fn corrupt_keys(draws: &mut Draws, corpus: &Corpus, contract: &Contract, call: &mut Call) {
    let at = draws.index(call.keys.len());
    let other = draws.index(call.keys.len());
    let existing: Vec<_> = call.keyspace.keys.keys().cloned().collect();
    let pool = contract.keys.get(at).map_or(&[][..], |name| corpus.keys_named(name));
    let usual = draws.pick(pool).cloned();
    match (draws.index(10), call.keys.get_mut(at)) {
        (0, _) => call.keys.truncate(at),
        (1, _) => call.keys.push(hostile_value(draws)),
        (2, Some(_)) => drop(call.keys.remove(at)),
        (3, Some(_)) => call.keys.swap(at, other),
        (4 | 5, Some(_)) => call.keys[at] = call.keys[other].clone(),
        (6, Some(key)) => key.clear(),
        (7, Some(key)) => *key = draws.pick(&existing).cloned().unwrap_or_default(),
        (8, Some(key)) => *key = usual.unwrap_or_default(),
        (_, Some(key)) => *key = hostile_value(draws),
        (_, None) => call.keys.push(hostile_value(draws)),
    }
}

/// Past the end of a lease, of most timeouts, and of everything.
const LATER_US: [u64; 4] = [1_000_000, 61_000_000, 86_401_000_000, 400_000_000_000_000];
