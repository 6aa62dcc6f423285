//! Simulator plans: any text is read, or refused with line and reason; a plan is written as it is
//! read.

use selvedge_sim::plan::{Plan, Seed, plan_from_seed};

/// Reads a text as a plan; behind a zero byte stands a seed, whose plan must be read as it is.
///
/// # Panics
/// When a plan changes by being written, or a refusal names no line of the text.
pub fn run(data: &[u8]) {
    if let Some(seed) = data.strip_prefix(b"\0").and_then(|rest| rest.first_chunk()) {
        return comes_back(&plan_from_seed(Seed::from(u64::from_le_bytes(*seed))));
    }
    let Ok(text) = str::from_utf8(data) else { return };
    match Plan::parse(text) {
        Ok(plan) => comes_back(&plan),
        Err(error) => {
            assert_eq!(text.lines().nth(error.line - 1), Some(error.text.as_str()));
            assert!(!error.reason.is_empty());
        }
    }
}

fn comes_back(plan: &Plan) {
    let written = plan.to_string();
    let again = Plan::parse(&written);
    assert_eq!(again.as_ref(), Ok(plan), "written as\n{written}");
    assert_eq!(plan.lines(), written.lines().count(), "a plan that miscounts its lines");
}
