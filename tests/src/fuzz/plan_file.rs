//! Any text for a plan: read or refused by line and reason, and written as it is read.

use selvedge_sim::plan::Plan;

/// Reads a text as a plan.
///
/// # Panics
/// When a plan changes by being written, or a refusal names no line of the text.
pub fn run(data: &[u8]) {
    let Ok(text) = str::from_utf8(data) else { return };
    match Plan::parse(text) {
        Ok(plan) => {
            let written = plan.to_string();
            let again = Plan::parse(&written);
            assert_eq!(again.as_ref(), Ok(&plan), "written as\n{written}");
            assert_eq!(plan.lines(), written.lines().count(), "a plan that miscounts its lines");
        }
        Err(error) => {
            assert_eq!(text.lines().nth(error.line - 1), Some(error.text.as_str()));
            assert!(!error.reason.is_empty());
        }
    }
}
