//! `ErrorMeansUntouched`: a refusal changes nothing, except where the contract says so, and no
//! function raises an error.

use super::call::{Answer, Call};
use super::{Changes, Checker, Class, Findings, Oracle, View};
use crate::event::{Event, EventKind};

pub(super) const ORACLE: Oracle = Oracle {
    name: "ErrorMeansUntouched",
    statement: "a refusal changes nothing, except where the contract says so, and no function \
                raises an error",
    class: Class::Safety,
    checker: || Box::new(ErrorMeansUntouched),
};

/// Refusals that the contract combines with a write.
const WRITES_ALLOWED: [&str; 6] = [
    "lease_expired",
    "max_retries_exhausted",
    "capability_mismatch",
    "missing_token",
    "invalid_token",
    "token_expired",
];

struct ErrorMeansUntouched;

impl Checker for ErrorMeansUntouched {
    fn on_event(&mut self, event: &Event, _: &Changes, view: &View<'_>, findings: &mut Findings) {
        let EventKind::Applied(applied) = &event.kind else { return };
        let Some(call) = Call::of(applied) else { return };
        let subject =
            || call.execution().map_or_else(|| call.function.to_owned(), |id| id.to_string());
        match &applied.answer {
            Answer::Refused(code) if !applied.writes.is_empty() => {
                if !WRITES_ALLOWED.contains(&code.as_str()) {
                    let first = applied.writes.first().map(|argv| spelled(argv));
                    findings.add(
                        view,
                        subject(),
                        format!("{} refused with {code}, and wrote {first:?}", call.function),
                    );
                }
            }
            Answer::Raised(text) if is_ours(text) => {
                findings.add(view, subject(), format!("{} raised: {text}", call.function));
            }
            Answer::Raised(text) if !applied.writes.is_empty() => {
                findings.add(
                    view,
                    subject(),
                    format!("{} wrote before it failed: {text}", call.function),
                );
            }
            Answer::Raised(_) | Answer::Refused(_) | Answer::Done(_) | Answer::Plain => {}
        }
    }
}

/// Whether a function failed by itself, without an injected error.
fn is_ours(text: &str) -> bool {
    text.contains("user_function") && !text.contains(INJECTED)
}

/// The text of injected errors.
pub(super) const INJECTED: &str = "injected";

fn spelled(argv: &[Vec<u8>]) -> String {
    let words: Vec<_> = argv.iter().map(|word| word.escape_ascii().to_string()).collect();
    words.join(" ").chars().take(120).collect()
}
