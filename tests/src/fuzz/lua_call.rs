//! Any call of any function on any keyspace: an error leaves the keyspace untouched, work is
//! bounded, and no call raises.
//!
//! The bytes are the draws of [`crate::hostile`]: they choose a call of the spec files with its
//! keyspace, and how both are corrupted.

use std::cell::RefCell;
use std::path::Path;

use selvedge_core::value::Value;
use selvedge_lua::library::SOURCE;

use super::feedback;
use crate::hostile::HostileRunner;
use crate::hostile::corpus::Call;
use crate::hostile::judge::Judged;
use selvedge_sim::search::Draws;

thread_local! {
    /// Recording the spec files takes a second, so it is done once.
    static CAMPAIGN: RefCell<HostileRunner> = RefCell::new(prepare());
}

/// Lends the host, the contracts and the recorded calls.
pub(super) fn with_runner(work: impl FnOnce(&mut HostileRunner)) {
    CAMPAIGN.with_borrow_mut(work);
}

/// Makes one hostile call.
///
/// # Panics
/// When a function breaks its contract.
pub fn run(data: &[u8]) {
    with_runner(|runner| {
        let Some((call, judged)) = make(runner, data) else { return };
        let function = call.function.clone();
        if let Some(fault) = judged.fault {
            let (fault, call) = runner.shrink(fault, call);
            panic!("{function}: {fault}\n{call}");
        }
        tell(&function, &judged.reply, runner.host.last_inner_log().len());
    });
}

/// The function that these bytes call, if it succeeds.
#[must_use]
pub fn succeeds(data: &[u8]) -> Option<String> {
    let mut function = None;
    with_runner(|runner| {
        function = make(runner, data).filter(|(_, judged)| is_success(&judged.reply));
    });
    function.map(|(call, _)| call.function)
}

/// Bytes that make a call of this function as a spec file makes it, so that it succeeds.
#[must_use]
pub fn example(function: &str) -> Option<Vec<u8>> {
    let mut places = None;
    with_runner(|runner| {
        let turn = runner.contracts.keys().position(|known| known == function);
        places = turn.zip(Some(runner.corpus.calls(function).len()));
    });
    let (turn, calls) = places?;
    let least = |number: usize| u8::try_from(number).ok();
    (0..calls).find_map(|which| {
        // More calls than a byte can tell are told by two.
        let wide = if calls > 256 {
            vec![least(which % 256)?, least(which / 256)?]
        } else {
            vec![least(which)?]
        };
        let bytes = [&[least(turn)?], wide.as_slice(), UNSPOILT].concat();
        (succeeds(&bytes)? == function).then_some(bytes)
    })
}

/// The call that these bytes choose, and what came of it.
fn make(runner: &mut HostileRunner, data: &[u8]) -> Option<(Call, Judged)> {
    // What a call draws must follow from the bytes alone, not from the calls before.
    runner.host.reseed(0);
    let mut draws = Draws::given(data);
    let turn = draws.index(runner.contracts.len());
    let function = runner.contracts.keys().nth(turn)?.clone();
    let call = runner.draw(&mut draws, &function)?;
    let judged = runner.judge(&call)?;
    Some((call, judged))
}

/// A success in its envelope, or in the form of the two functions that have none.
fn is_success(reply: &Value) -> bool {
    match reply {
        Value::Array(elements) => elements.first() != Some(&Value::Int(0)),
        Value::Bulk(_) => true,
        Value::Nil | Value::Int(_) | Value::Status(_) | Value::Error(_) => false,
    }
}

/// Shows the fuzzer what the function answered, and how far it went.
fn tell(function: &str, reply: &Value, inner_commands: usize) {
    feedback::show(&[function.as_bytes(), &inner_commands.to_le_bytes()]);
    let words: Vec<&[u8]> = match reply {
        Value::Array(elements) => elements.iter().take(3).filter_map(short_word).collect(),
        Value::Nil | Value::Int(_) | Value::Bulk(_) | Value::Status(_) | Value::Error(_) => {
            short_word(reply).into_iter().collect()
        }
    };
    feedback::show(&[&[function.as_bytes()], words.as_slice()].concat());
}

/// A word of the contract, not a number or an id.
fn short_word(value: &Value) -> Option<&[u8]> {
    let is_word = |byte: &u8| byte.is_ascii_alphabetic() || *byte == b'_';
    match value {
        Value::Bulk(word) if word.len() < 40 && word.iter().all(is_word) => Some(word),
        Value::Error(text) => text.as_bytes().split(|byte| *byte == b' ').next(),
        Value::Nil | Value::Int(_) | Value::Bulk(_) | Value::Status(_) | Value::Array(_) => None,
    }
}

/// Throws by which an attack leaves everything as it is: its own call in its own keyspace, nothing
/// before it, no time, and nothing spoilt.
const UNSPOILT: &[u8] = &[0, 3, 99, 99, 0, 0, 99];

fn prepare() -> HostileRunner {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).with_file_name("");
    HostileRunner::prepare(SOURCE, &root.join("lua"), &root.join("tests/spec"))
        .expect("the clone holds its own library and spec files")
}
