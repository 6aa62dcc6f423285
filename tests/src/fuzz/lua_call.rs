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
use crate::hostile::dice::Dice;

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
        // What a call draws must follow from the bytes alone, not from the calls before.
        campaign.host.reseed(0);
        let mut dice = Dice::given(data);
        let turn = dice.below(campaign.contracts.len());
        let Some(function) = campaign.contracts.keys().nth(turn).cloned() else { return };
        let Some(call) = campaign.draw(&mut dice, &function) else { return };
        let Some(judged) = campaign.judge(&call) else { return };
        if let Some(fault) = judged.fault {
            let (fault, call) = campaign.shrink(fault, call);
            panic!("{function}: {fault}\n{call}");
        }
        tell(&function, &judged.reply, campaign.host.last_inner_log().len());
    });
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

fn prepare() -> Campaign {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).with_file_name("");
    Campaign::prepare(SOURCE, &root.join("lua"), &root.join("tests/spec"))
        .expect("the clone holds its own library and spec files")
}
