//! Any call of any function on any keyspace: an error means untouched, work is bounded, and no call
//! ever raises.
//!
//! The bytes are the dice of [`crate::hostile`]: they choose a real call in a real keyspace, then
//! what is spoilt of either.

use std::cell::RefCell;
use std::path::Path;

use selvedge_core::value::Value;
use selvedge_lua::library::SOURCE;

use super::feedback;
use crate::hostile::Campaign;
use crate::hostile::corpus::Call;
use crate::hostile::dice::Dice;
use crate::hostile::judge::Judged;

thread_local! {
    /// Recording the spec files takes a second, so it is done once.
    static CAMPAIGN: RefCell<Campaign> = RefCell::new(prepare());
}

/// Lends the host, the contracts and the recorded calls.
pub(super) fn with_campaign(work: impl FnOnce(&mut Campaign)) {
    CAMPAIGN.with_borrow_mut(work);
}

/// Makes one hostile call.
///
/// # Panics
/// When a function breaks its contract.
pub fn run(data: &[u8]) {
    with_campaign(|campaign| {
        let Some((call, judged)) = make(campaign, data) else { return };
        let function = call.function.clone();
        if let Some(fault) = judged.fault {
            let (fault, call) = campaign.shrink(fault, call);
            panic!("{function}: {fault}\n{call}");
        }
        tell(&function, &judged.reply, campaign.host.last_inner_log().len());
    });
}

/// The function that these bytes call, if it succeeds.
#[must_use]
pub fn succeeds(data: &[u8]) -> Option<String> {
    let mut function = None;
    with_campaign(|campaign| {
        function = make(campaign, data).filter(|(_, judged)| is_success(&judged.reply));
    });
    function.map(|(call, _)| call.function)
}

/// Bytes that make a call of this function as a spec file makes it, so that it succeeds.
#[must_use]
pub fn example(function: &str) -> Option<Vec<u8>> {
    let mut places = None;
    with_campaign(|campaign| {
        let turn = campaign.contracts.keys().position(|known| known == function);
        places = turn.zip(Some(campaign.corpus.calls(function).len()));
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
fn make(campaign: &mut Campaign, data: &[u8]) -> Option<(Call, Judged)> {
    // What a call draws must follow from the bytes alone, not from the calls before.
    campaign.host.reseed(0);
    let mut dice = Dice::given(data);
    let turn = dice.below(campaign.contracts.len());
    let function = campaign.contracts.keys().nth(turn)?.clone();
    let call = campaign.draw(&mut dice, &function)?;
    let judged = campaign.judge(&call)?;
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

/// Throws by which an attack leaves everything as it is: its own call in its own world, nothing
/// before it, no time, and nothing spoilt.
const UNSPOILT: &[u8] = &[0, 3, 99, 99, 0, 0, 99];

fn prepare() -> Campaign {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).with_file_name("");
    Campaign::prepare(SOURCE, &root.join("lua"), &root.join("tests/spec"))
        .expect("the clone holds its own library and spec files")
}
