//! Makes attacks: takes a plausible call in a plausible world and spoils some of it.

use selvedge_lua::host::{Host, InnerCommand};

use crate::hostile::contract::Contract;
use crate::hostile::corpus::{Call, Corpus};
use crate::hostile::dice::Dice;
use crate::hostile::sabotage::spoil_world;
use crate::hostile::value::hostile_value;
use crate::hostile::world::World;

/// The attack that these dice choose on a function.
pub fn attack(dice: &mut Dice, corpus: &Corpus, contract: &Contract, host: &mut Host) -> Call {
    let mut call = plausible(dice, corpus, contract);
    if dice.percent(20) {
        live_on(dice, corpus, &mut call, host);
    }
    if dice.percent(15) {
        call.world.now_us += *dice.pick(&LATER_US).unwrap_or(&0);
    }
    let touched = touched(&call, host);
    for _ in 0..dice.pick(&[0, 0, 1, 1, 1, 2, 3, 5]).copied().unwrap_or(0) {
        spoil_world(dice, &mut call.world, &touched);
    }
    for _ in 0..dice.pick(&[0, 0, 0, 1, 1, 1, 2, 3]).copied().unwrap_or(0) {
        spoil_args(dice, corpus, contract, &mut call);
    }
    if dice.percent(20) {
        spoil_keys(dice, corpus, contract, &mut call);
    }
    call
}

/// Carries out a call in its world.
pub fn perform(call: &Call, host: &mut Host) -> selvedge_core::value::Value {
    host.fcall(&call.function, &call.keys, &call.args)
}

/// A call as the spec files make it, now and then in another world than its own.
fn plausible(dice: &mut Dice, corpus: &Corpus, contract: &Contract) -> Call {
    let mut call = match dice.pick(corpus.calls(&contract.function)) {
        Some(call) if dice.percent(95) => call.clone(),
        _ => by_names(dice, corpus, contract),
    };
    match dice.below(20) {
        0 => call.world.keys.clear(),
        1 | 2 => call.world = any_world(dice, corpus),
        _ => {}
    }
    call
}

/// A call put together from what keys and arguments of the same names are elsewhere.
fn by_names(dice: &mut Dice, corpus: &Corpus, contract: &Contract) -> Call {
    let mut choose = |pool: &[Vec<u8>], name: &str| {
        dice.pick(pool).cloned().unwrap_or_else(|| format!("ff:{{fp:1}}:{name}").into_bytes())
    };
    let keys = contract.keys.iter().map(|name| choose(corpus.keys_named(name), name)).collect();
    let args = contract.args.iter().map(|name| choose(corpus.args_named(name), name)).collect();
    let function = contract.function.clone();
    Call { world: any_world(dice, corpus), function, keys, args }
}

fn any_world(dice: &mut Dice, corpus: &Corpus) -> World {
    any_call(dice, corpus).map(|call| call.world.clone()).unwrap_or_default()
}

fn any_call<'a>(dice: &mut Dice, corpus: &'a Corpus) -> Option<&'a Call> {
    let function = dice.pick(corpus.functions())?;
    dice.pick(corpus.calls(function))
}

/// Lets a few other calls happen first. The spec files share their ids, so that these meet.
fn live_on(dice: &mut Dice, corpus: &Corpus, call: &mut Call, host: &mut Host) {
    call.world.put(host);
    for _ in 0..=dice.below(3) {
        if let Some(other) = any_call(dice, corpus) {
            perform(other, host);
        }
    }
    call.world = World::read(host);
}

/// The inner commands of a call, which tell where it can be hurt.
fn touched(call: &Call, host: &mut Host) -> Vec<InnerCommand> {
    call.world.put(host);
    perform(call, host);
    host.last_inner_log()
}

/// Makes one argument of a call another one, or takes it away, or adds one.
pub fn spoil_args(dice: &mut Dice, corpus: &Corpus, contract: &Contract, call: &mut Call) {
    let at = dice.below(call.args.len());
    let other = dice.below(call.args.len());
    let pool = contract.args.get(at).map_or(&[][..], |name| corpus.args_named(name));
    let usual = dice.pick(pool).cloned();
    match (dice.below(20), call.args.get_mut(at)) {
        (0, _) => call.args.truncate(at),
        (1, _) => call.args.push(hostile_value(dice)),
        (2, Some(_)) => drop(call.args.remove(at)),
        (3, Some(arg)) => {
            let copy = arg.clone();
            call.args.insert(at, copy);
        }
        (4, Some(_)) => call.args.swap(at, other),
        (5, Some(arg)) => arg.clear(),
        (6..=9, Some(arg)) => *arg = usual.unwrap_or_default(),
        (10, Some(arg)) => {
            let cut = dice.below(arg.len());
            arg.truncate(cut);
        }
        (_, Some(arg)) => *arg = hostile_value(dice),
        (_, None) => call.args.push(hostile_value(dice)),
    }
}

fn spoil_keys(dice: &mut Dice, corpus: &Corpus, contract: &Contract, call: &mut Call) {
    let at = dice.below(call.keys.len());
    let other = dice.below(call.keys.len());
    let existing: Vec<_> = call.world.keys.keys().cloned().collect();
    let pool = contract.keys.get(at).map_or(&[][..], |name| corpus.keys_named(name));
    let usual = dice.pick(pool).cloned();
    match (dice.below(10), call.keys.get_mut(at)) {
        (0, _) => call.keys.truncate(at),
        (1, _) => call.keys.push(hostile_value(dice)),
        (2, Some(_)) => drop(call.keys.remove(at)),
        (3, Some(_)) => call.keys.swap(at, other),
        (4 | 5, Some(_)) => call.keys[at] = call.keys[other].clone(),
        (6, Some(key)) => key.clear(),
        (7, Some(key)) => *key = dice.pick(&existing).cloned().unwrap_or_default(),
        (8, Some(key)) => *key = usual.unwrap_or_default(),
        (_, Some(key)) => *key = hostile_value(dice),
        (_, None) => call.keys.push(hostile_value(dice)),
    }
}

/// Past the end of a lease, of most timeouts, and of everything.
const LATER_US: [u64; 4] = [1_000_000, 61_000_000, 86_401_000_000, 400_000_000_000_000];
