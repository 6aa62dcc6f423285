//! Lets each inner command of a good call fail in turn.
//!
//! A server may refuse any command, because it is out of memory or has just become a replica. A
//! call must then not claim success, and before its first write the keyspace must be unchanged.

use selvedge_core::value::Value;
use selvedge_lua::host::{Host, Outcome};

use crate::hostile::corpus::Call;
use crate::hostile::generate::perform;
use crate::hostile::keyspace_data::shorten;
use crate::spec::report::show_reply;

/// What came of failing each inner command of one call.
#[derive(Debug, Default)]
pub struct Injected {
    /// How many failures were injected.
    pub failures: usize,
    /// What was wrong, one line each.
    pub faults: Vec<String>,
}

/// Fails each inner command of a call, if the call succeeds when nothing fails.
pub fn inject(call: &Call, host: &mut Host, injected: &mut Injected) {
    call.keyspace.put(host);
    let clean = perform(call, host);
    if !is_success(&clean) {
        return;
    }
    let inner = host.last_inner_log();
    let first_write = inner.iter().position(|one| one.outcome == Outcome::Wrote);
    let snapshot = {
        call.keyspace.put(host);
        host.snapshot()
    };
    let before = host.digest();
    for (index, command) in inner.iter().enumerate() {
        if (REPEATED_AFTER..inner.len().saturating_sub(REPEATED_AFTER)).contains(&index)
            && first_write.is_none_or(|first| index.abs_diff(first) > 1)
        {
            continue;
        }
        host.restore(&snapshot);
        host.fail_at(index + 1, REFUSAL);
        let reply = perform(call, host);
        host.take_published();
        injected.failures += 1;
        let mut complain = |fault: &str| {
            let words: Vec<_> = command.argv.iter().map(|word| shorten(word)).collect();
            injected.faults.push(format!(
                "{}: inner command {} ({}) fails, and {fault}: {}",
                call.function,
                index + 1,
                words.join(" "),
                shorten(show_reply(&reply).as_bytes()),
            ));
        };
        // A member that is drawn at random may lead the second run another way.
        if host.clear_failure() {
            continue;
        }
        if is_success(&reply) && (is_optional(&command.argv) || tells_failure(&reply)) {
            continue;
        }
        let untouched = host.digest() == before;
        if first_write.is_none_or(|first| index <= first) && !untouched {
            complain("something was written");
        }
        if is_success(&reply) {
            complain("the call claims success");
        }
        if matches!(reply, Value::Error(_)) && !tells_failure(&reply) {
            complain("the reason is lost");
        }
    }
}

/// Reads whose failure a function may live with: they only fill in what a reply tells, or tell one
/// server from another.
fn is_optional(argv: &[Vec<u8>]) -> bool {
    argv.first().is_some_and(|name| {
        [&b"HGET"[..], b"SMEMBERS", b"SCARD", b"XRANGE", b"INFO"]
            .iter()
            .any(|optional| name.eq_ignore_ascii_case(optional))
    })
}

/// Whether the reply, or a part of it, is the injected error.
fn tells_failure(reply: &Value) -> bool {
    match reply {
        Value::Error(text) => text.starts_with(REFUSAL),
        Value::Bulk(text) => text == REFUSAL.as_bytes(),
        Value::Array(elements) => elements.iter().any(tells_failure),
        Value::Nil | Value::Int(_) | Value::Status(_) => false,
    }
}

fn is_success(reply: &Value) -> bool {
    match reply {
        Value::Error(_) | Value::Nil => false,
        Value::Array(elements) => elements.first() != Some(&Value::Int(0)),
        Value::Int(_) | Value::Bulk(_) | Value::Status(_) => true,
    }
}

/// Longer calls repeat themselves in the middle: there only the first write is of interest.
const REPEATED_AFTER: usize = 30;

const REFUSAL: &str = "OOM command not allowed, pretended";
