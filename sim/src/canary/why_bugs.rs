//! Bugs in what `why` says. The explanation itself is the production code.

use selvedge_core::explain::{DueBy, Explanation, Reason, UnblockedBy};

use super::{PlantedBug, WhyBug};

/// What the oracle is told instead of an explanation.
pub(crate) fn change_answer_of_why(bug: Option<PlantedBug>, mut why: Explanation) -> Explanation {
    let Some(PlantedBug::Why(bug)) = bug else { return why };
    match bug {
        WhyBug::AtOnce => {
            for wait in why.waits.iter_mut().chain(&mut why.limits) {
                if wait.by != DueBy::Unknown {
                    wait.by = DueBy::Time(why.at);
                }
            }
        }
        WhyBug::LimitsForgotten => why.limits.clear(),
        WhyBug::NobodyCanRunIt => {
            for wait in &mut why.waits {
                if wait.reason == Reason::Worker {
                    wait.reason = Reason::NoWorker;
                }
            }
        }
        WhyBug::UpstreamForgotten => {
            why.waits.retain(|wait| !matches!(wait.unblocked_by, UnblockedBy::Upstream(_)));
        }
    }
    why
}
