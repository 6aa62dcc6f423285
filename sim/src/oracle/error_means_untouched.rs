//! `ErrorMeansUntouched`

use super::call::{Answer, Call};
use super::{Class, Findings, Judge, Oracle, Scene, View};
use crate::event::{Event, What};

pub(super) const ORACLE: Oracle = Oracle {
    name: "ErrorMeansUntouched",
    statement: "an error leaves the keyspace as it was, but for what the contract ties to it, and \
                no call ever raises",
    class: Class::Safety,
    judge: || Box::new(ErrorMeansUntouched),
};

/// Refusals to which the contract ties a write.
const TIED: [&str; 6] = [
    "lease_expired",
    "max_retries_exhausted",
    "capability_mismatch",
    "missing_token",
    "invalid_token",
    "token_expired",
];

struct ErrorMeansUntouched;

impl Judge for ErrorMeansUntouched {
    fn see(&mut self, event: &Event, _: &Scene, view: &View<'_>, findings: &mut Findings) {
        let What::Applied(applied) = &event.what else { return };
        let Some(call) = Call::of(applied) else { return };
        let subject =
            || call.execution().map_or_else(|| call.function.to_owned(), |id| id.to_string());
        match &applied.answer {
            Answer::Refused(code) if !applied.writes.is_empty() => {
                if !TIED.contains(&code.as_str()) {
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

/// Whether a script broke by itself, and nobody made it.
fn is_ours(text: &str) -> bool {
    text.contains("user_function") && !text.contains(INJECTED)
}

/// What an error says that was injected on purpose.
pub(super) const INJECTED: &str = "injected";

fn spelled(argv: &[Vec<u8>]) -> String {
    let words: Vec<_> = argv.iter().map(|word| word.escape_ascii().to_string()).collect();
    words.join(" ").chars().take(120).collect()
}
