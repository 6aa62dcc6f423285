//! Explains executions that are suspended until a signal or a timeout.

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::{DueBy, Explainer, Reason, UnblockedBy};
use crate::audit::Fields;
use crate::engine::ScannerName;
use crate::id::WaitpointId;
use crate::key::Key;
use crate::time::ServerTime;

impl Explainer<'_> {
    pub(super) fn suspended(&mut self) -> String {
        let suspension = self.snapshot.hash(&Key::execution(self.execution.id).suspension());
        let open = suspension.filter(|record| record.text("closed_at").is_empty());
        let Some(open) = open else {
            self.damaged();
            return "it is suspended without an open suspension".to_owned();
        };
        let can_be_signalled = self.waitpoint(&open);
        let timeout_at = open.number("timeout_at");
        if timeout_at > 0 {
            let at = ServerTime(timeout_at);
            let on = format!("its timeout at {at} ({})", open.text("timeout_behavior"));
            let unblocked_by = UnblockedBy::Scanner(ScannerName::SuspensionTimeout);
            let by = self.after(at, ScannerName::SuspensionTimeout);
            self.limit(Reason::SuspensionTimeout, on, unblocked_by, by);
        }
        if !can_be_signalled && timeout_at <= 0 {
            let on = "nothing: it has neither an open waitpoint nor a timeout";
            self.wait(Reason::Damage, on, UnblockedBy::Nobody, DueBy::Unknown);
        }
        format!("it is suspended ({})", open.text("reason_code"))
    }

    /// Adds the signals that are still missing; answers whether its waitpoint is open.
    fn waitpoint(&mut self, suspension: &Fields<'_>) -> bool {
        let Ok(id) = suspension.text("waitpoint_id").parse::<WaitpointId>() else { return false };
        let partition = self.execution.partition();
        let record = self.snapshot.hash(&Key::waitpoint(partition, id));
        let condition = self.snapshot.hash(&Key::waitpoint_condition(partition, id));
        let (Some(record), Some(condition)) = (record, condition) else { return false };
        if record.text("state") != "active" || condition.text("closed") == "1" {
            return false;
        }
        let who = format!("the holder of the token of waitpoint {}", record.text("waitpoint_key"));
        let by = UnblockedBy::Signaller(who);
        self.wait(Reason::Signal, missing(&condition), by, DueBy::Unknown);
        true
    }
}

/// The signals that a condition still needs.
fn missing(condition: &Fields<'_>) -> String {
    if condition.text("composite") == "1" {
        return "signals that satisfy its composite condition".to_owned();
    }
    let names: Vec<&str> = (0..condition.number("total_matchers").clamp(0, 64))
        .filter(|at| condition.text(&format!("matcher:{at}:satisfied")) != "1")
        .map(|at| condition.text(&format!("matcher:{at}:name")))
        .map(|name| if name.is_empty() { "any" } else { name })
        .collect();
    let names = names.join(", ");
    match condition.text("match_mode") {
        "all" => format!("all of the signals {names}"),
        "any" => format!("one of the signals {names}"),
        _ => format!("{} of the signals {names}", condition.text("minimum_signal_count")),
    }
}
