//! Judges the result of a call: an error means that nothing was written.

use selvedge_core::value::Value;
use selvedge_lua::host::{Host, InnerCommand, Outcome};

use crate::hostile::allowed_writes::beyond_allowed_writes;
use crate::hostile::contract::Contract;
use crate::hostile::corpus::{Call, Corpus};
use crate::hostile::generate::perform;
use crate::hostile::keyspace_data::{KeyspaceData, shorten};
use crate::spec::report::show_reply;

/// What came of a call.
#[derive(Debug)]
pub struct Judged {
    /// What it answered.
    pub reply: Value,
    /// What is wrong with that, or with what it did.
    pub fault: Option<String>,
}

/// Carries out a call in its keyspace, and judges what came of it.
pub fn judge(call: &Call, contract: &Contract, corpus: &Corpus, host: &mut Host) -> Judged {
    call.keyspace.put(host);
    let before = host.digest();
    let reply = perform(call, host);
    let fault = fault(call, contract, corpus, host, &reply, &before);
    Judged { reply, fault }
}

fn fault(
    call: &Call,
    contract: &Contract,
    corpus: &Corpus,
    host: &mut Host,
    reply: &Value,
    before: &[u8; 32],
) -> Option<String> {
    let inner = host.last_inner_log();
    let unchanged = host.digest() == *before;
    let published = !host.take_published().is_empty();
    let most = contract.bound(call.keyspace.largest() + call.args.len() + call.keys.len());
    let most = most + if contract.reads_only { 0 } else { LOOK_FOR_ABSENT_KEY };
    if inner.len() > most {
        return Some(format!("{} inner commands, {most} at most", inner.len()));
    }
    if contract.reads_only && !unchanged {
        return Some("a function that only reads has changed something".to_owned());
    }
    match reply {
        Value::Error(text) => broken(text, unchanged && !published, &inner),
        Value::Array(elements) if elements.first() == Some(&Value::Int(0)) => {
            refused(call, contract, elements, unchanged && !published, host)
        }
        Value::Array(_) | Value::Bulk(_) => answered(contract, reply),
        Value::Nil | Value::Int(_) | Value::Status(_) => Some("no reply of ours".to_owned()),
    }
    .or_else(|| cut_short(contract, corpus, reply))
    .map(|fault| format!("{fault}: {}", shorten(show_reply(reply).as_bytes())))
}

/// Only the server's own refusal of a foreign key may pass, and only before the first write.
fn broken(text: &str, untouched: bool, inner: &[InnerCommand]) -> Option<String> {
    let foreign_key = text.starts_with("WRONGTYPE");
    if foreign_key && untouched {
        return None;
    }
    let failed = inner.iter().rev().find(|one| matches!(one.outcome, Outcome::Failed(_)));
    let culprit = failed.map(|one| {
        let words: Vec<_> = one.argv.iter().map(|word| shorten(word)).collect();
        format!(" ({})", words.join(" "))
    });
    let when = if untouched { "a script error" } else { "a script error after a write" };
    Some(format!("{when}{}", culprit.unwrap_or_default()))
}

fn refused(
    call: &Call,
    contract: &Contract,
    elements: &[Value],
    untouched: bool,
    host: &mut Host,
) -> Option<String> {
    let Some(words) = words(elements) else {
        return Some("an element is no text".to_owned());
    };
    let Some(code) = words.first() else { return Some("no code".to_owned()) };
    if !contract.lists_error(code) {
        return Some("the header does not list this code".to_owned());
    }
    if untouched {
        return None;
    }
    let after = KeyspaceData::read(host);
    // Read back, because what the call's keyspace holds may be empty or over by now.
    call.keyspace.put(host);
    beyond_allowed_writes(call, code, &KeyspaceData::read(host), &after)
        .map(|beyond| format!("refused, and yet something was written: {beyond}"))
}

fn answered(contract: &Contract, reply: &Value) -> Option<String> {
    let (texts, bare) = match reply {
        Value::Array(elements) if elements.first() == Some(&Value::Int(1)) => {
            (flat_words(elements), false)
        }
        Value::Array(elements) => (elements.iter().map(text).collect(), true),
        Value::Nil | Value::Int(_) | Value::Bulk(_) | Value::Status(_) | Value::Error(_) => {
            (text(reply).map(|word| vec![word]), true)
        }
    };
    let Some(texts) = texts else { return Some("an element is no text".to_owned()) };
    (!contract.lists_reply(&texts, bare)).then(|| "the header does not list this reply".to_owned())
}

/// The server cuts a reply at the first nil: it is then shorter than any that the spec shows.
fn cut_short(contract: &Contract, corpus: &Corpus, reply: &Value) -> Option<String> {
    let Value::Array(elements) = reply else { return None };
    if ENDING_IN_A_LIST.contains(&contract.function.as_str()) {
        return None;
    }
    let shortest = corpus.shortest(&contract.function, reply)?;
    (elements.len() < shortest)
        .then(|| format!("{} elements, at least {shortest} in the spec", elements.len()))
}

/// The texts behind the head of an envelope, if there is nothing else behind it.
fn words(elements: &[Value]) -> Option<Vec<String>> {
    elements.iter().skip(1).map(text).collect()
}

/// The same where lists of texts, or of such lists, may stand among the texts.
fn flat_words(elements: &[Value]) -> Option<Vec<String>> {
    elements.iter().skip(1).map(text_or_list).collect()
}

fn text_or_list(value: &Value) -> Option<String> {
    match value {
        Value::Array(inner) => {
            // A reply of its own begins with its status.
            let status = usize::from(matches!(inner.first(), Some(Value::Int(0 | 1))));
            let rest = inner.iter().skip(status).map(text_or_list);
            rest.collect::<Option<Vec<_>>>().map(|_| String::new())
        }
        Value::Nil | Value::Int(_) | Value::Bulk(_) | Value::Status(_) | Value::Error(_) => {
            text(value)
        }
    }
}

fn text(value: &Value) -> Option<String> {
    if let Value::Bulk(bytes) = value {
        Some(String::from_utf8_lossy(bytes).into_owned())
    } else {
        None
    }
}

/// Callers that do not declare a key that never exists leave it to `define` to look for one; what
/// headers say is without that.
const LOOK_FOR_ABSENT_KEY: usize = 1;

/// Functions whose replies end in a list that may be shorter than any that the spec shows.
const ENDING_IN_A_LIST: [&str; 4] =
    ["ff_cancel_flow", "ff_list_waitpoint_hmac_kids", "ff_purge_executions", "ff_reconcile_quota"];
