//! Plans: the settings of a run, what clients do, and which faults are injected. A plan is data
//! with a text form; every line can be understood, and removed, on its own.

mod check;
mod check_fault;
mod config;
mod fault_rule;
mod flow;
mod generate;
mod mode;
mod policy;
mod seed;
mod step;
mod tokens;

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

pub use config::{Config, Ms, Times};
pub use fault_rule::{CallPattern, FaultRule, Trigger, TriggerKind};
pub use flow::{FlowSpec, Group, MEMBERS_MAX, Member, Shape};
pub use generate::{lite_plan_from_seed, plan_from_seed};
pub use mode::Mode;
pub(crate) use policy::MISSING_BUDGET;
pub use policy::{Habits, Policy, WorkerAction};
pub use seed::Seed;
pub use step::{Action, PlanStep, Task, TaskSpec};
pub use tokens::{PlanError, hint};

pub use crate::search::Span;
use check::Place;
use tokens::Tokens;

/// A plan.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// The settings.
    pub config: Config,
    /// What workers do with certain executions.
    pub tasks: Vec<Task>,
    /// What callers and signallers do.
    pub steps: Vec<PlanStep>,
    /// The faults.
    pub faults: Vec<FaultRule>,
}

impl Plan {
    /// Parses a plan. Empty lines, comments after `#` and a byte order mark are ignored.
    ///
    /// # Errors
    /// The first line that is wrong or could have no effect, and why.
    pub fn parse(text: &str) -> Result<Self, PlanError> {
        let mut plan = Self::default();
        let lines = lines_of(text);
        let error = |at: usize, reason: String| {
            let text = lines.get(at).copied().unwrap_or_default().to_owned();
            PlanError { line: at + 1, text, reason }
        };
        let mut set: BTreeMap<&str, usize> = BTreeMap::new();
        for (at, line) in lines.iter().enumerate() {
            let told = line.split('#').next().unwrap_or_default();
            plan.read_line(told).map_err(|reason| error(at, reason))?;
            let name = told.split_whitespace().next().filter(|word| !KINDS.contains(word));
            if let Some(before) = name.and_then(|name| set.insert(name, at)) {
                return Err(error(at, format!("this is already set in line {}", before + 1)));
            }
        }
        check::check(&plan).map_err(|(place, reason)| error(line_of(&lines, &place), reason))?;
        Ok(plan)
    }

    fn read_line(&mut self, line: &str) -> Result<(), String> {
        let mut tokens = Tokens::of(line);
        let Some(first) = tokens.next() else { return Ok(()) };
        match first {
            "at" => self.steps.push(PlanStep::read(&mut tokens)?),
            "task" => self.tasks.push(Task::read(&mut tokens)?),
            "fault" => self.faults.push(FaultRule::read(&mut tokens)?),
            name => {
                let value = tokens.want("the value of the setting")?;
                match self.config.set(name, value) {
                    Some(result) => result?,
                    None => {
                        let settings = Config::settings();
                        let known = settings.iter().map(|(name, ..)| *name);
                        let hint = hint(name, known.chain(["at", "task", "fault"]));
                        return Err(format!(
                            "`{name}` is not a setting, nor `at`, `task` or `fault`{hint}"
                        ));
                    }
                }
                tokens.end()?;
            }
        }
        Ok(())
    }

    /// When the last delayed work of the plan is due.
    #[must_use]
    pub fn last_due_ms(&self) -> u64 {
        self.steps.iter().map(PlanStep::due_ms).max().unwrap_or(0)
    }

    /// The line number, from 1, of the fault with this position among the faults.
    #[must_use]
    pub fn line_of_fault(text: &str, at: usize) -> usize {
        let lines = lines_of(text);
        line_of(&lines, &Place::Fault(at)) + 1
    }

    /// Lines that create something else under a name that is already used: the line number, the
    /// line number of the first use, and the name.
    #[must_use]
    pub fn remade<'a>(&'a self, text: &str) -> Vec<(usize, usize, &'a str)> {
        let lines = lines_of(text);
        let line = |at| line_of(&lines, &Place::Step(at)) + 1;
        let remade = check::remade(self).into_iter();
        remade.map(|(at, first, name)| (line(at), line(first), name)).collect()
    }

    /// The number of lines.
    #[must_use]
    pub fn lines(&self) -> usize {
        self.config.lines().len() + self.tasks.len() + self.steps.len() + self.faults.len()
    }
}

/// The first words of lines that are not settings.
const KINDS: [&str; 3] = ["at", "task", "fault"];

fn lines_of(text: &str) -> Vec<&str> {
    text.strip_prefix('\u{feff}').unwrap_or(text).lines().collect()
}

/// The line of a place.
fn line_of(lines: &[&str], place: &Place) -> usize {
    let find = |word: &str, nth: usize| {
        let begins = |line: &str| line.split_whitespace().next() == Some(word);
        (0..lines.len()).filter(|at| begins(lines[*at])).nth(nth)
    };
    let found = match place {
        Place::Setting(name) => find(name, 0),
        Place::Either(name, other) => find(name, 0).or_else(|| find(other, 0)),
        Place::Task(at) => find("task", *at),
        Place::Step(at) => find("at", *at),
        Place::Fault(at) => find("fault", *at),
    };
    found.unwrap_or(0)
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.config.lines().iter().try_for_each(|line| writeln!(f, "{line}"))?;
        self.tasks.iter().try_for_each(|task| writeln!(f, "{task}"))?;
        self.steps.iter().try_for_each(|step| writeln!(f, "{step}"))?;
        self.faults.iter().try_for_each(|rule| writeln!(f, "{rule}"))
    }
}

impl FromStr for Plan {
    type Err = PlanError;

    fn from_str(text: &str) -> Result<Self, PlanError> {
        Self::parse(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
seed 8812940317
engines 3
lanes 2
link 1ms..20ms
interval 500ms
push no
length 50s
task F1.0 does fail suspend_timed complete
at 500ms caller-1 submit F1 in fp:0 fan_in 3 any_of cancel_remaining
at 600ms caller-1 submit F2 chunk 2 : a, b, c <- a b quorum 1 let_run, d <- c
at 1.25s caller-2 create E1 delay 2s lane 1 priority 7 policy retry
at 1.5s caller-2 build F3 policy brief chain 3
at 2s caller-1 cancel F1.0
at 2s caller-1 cancel_flow F2
at 3s caller-1 replay E1
at 3s signaller-1 signal E1 go
fault ReplyLost on 3rd drain by engine-1 in fp:0
fault FailoverLosesSuffix at 41.2s to node-1 commits 5
fault EnginePause at 8s to engine-2 for 12s
";

    #[test]
    fn a_plan_round_trips() {
        let plan = Plan::parse(TEXT).unwrap();
        assert_eq!(plan.to_string(), TEXT);
        assert_eq!(plan.lines(), TEXT.lines().count());
    }

    #[test]
    fn an_impossible_line_is_refused_with_a_reason() {
        for (line, reason) in [
            ("at 1s caller-1 cancel E7", "no step creates `E7`"),
            ("task F1.9 does die", "no step creates `F1.9`"),
            ("at 1s caller-9 cancel E1", "there is no caller-9"),
            ("at 1s caller-1 create E2 lane 4", "there is no lane 4"),
            ("at 1s caller-1 create E2 in fp:3", "there is no fp:3"),
            ("at 1s caller-1 submit F2 fan_in 3 quorum 4", "can never be met"),
            ("fault EnginePause at 3s to engine-2", "there is no engine-2"),
            ("fault ReplyLost on 1st drain by worker-7", "there is no worker-7"),
            ("fault EnginePause at 40s", "after the length"),
            ("fault SlotMove at 4s", "needs a cluster"),
            ("engines 9", "1 to 7"),
            ("at 31s caller-1 cancel E1", "after the length of 30s"),
            ("at 2s caller-1 create E2 delay 700s", "raise `bound`"),
            ("at 2s caller-1 create E2 delay 5124095576030h", "raise `bound`"),
            ("at 2s caller-1 create E2 deadline 99999999h", "ten years"),
            ("length 999999999999h", "longer than 7 days"),
            ("bound 5124095576030h", "longer than 7 days"),
            ("interval 25h", "longer than a day"),
            ("link 1s..5124095576030h", "longer than 7 days"),
            ("idle 5124095576030h", "longer than 7 days"),
            ("idle 601s", "longer than `bound`"),
            ("link 0s..601s", "longer than `bound`"),
            ("patience 0s", "before a reply"),
            ("link 2s..3s", "before a reply"),
            ("bound 500ms", "longer than `bound`"),
            ("ticket_timeout 2ms", "before a reply"),
            ("habits complete:18446744073709551615,die:5", "not a weight"),
            ("habits complete:0", "not a weight"),
            ("window 0", "1 to 1000000"),
            ("window_per_slot 0", "1 to 1000000"),
            ("dispatch_concurrency 0", "1 to 1000000"),
            ("dispatch_queue 0", "1 to 1000000"),
            ("at 1s caller-1 build F2 chunk 2 chain 3", "leave `chunk` out"),
            ("at 2s caller-1 cancel F1", "`F1` is a flow"),
            ("at 2s caller-1 replay F1", "`F1` is a flow"),
            ("at 2s signaller-1 signal F1 go", "`F1` is a flow"),
            ("at 2s caller-1 cancel_flow E1", "`E1` is an execution"),
            ("task F1 does die", "`F1` is a flow"),
            ("fault ServerClockJump at 1s", "needs a number: add `ms`"),
            ("fault ServerClockJump at 1s ms 0", "needs a number: add `ms`"),
            ("fault FailoverLosesSuffix at 1s", "needs a number: add `commits`"),
        ] {
            let text =
                format!("at 1s caller-1 create E1\nat 1s caller-1 submit F1 chain 2\n{line}\n");
            let error = Plan::parse(&text).unwrap_err();
            assert_eq!(error.line, 3, "{line}");
            assert!(error.to_string().contains(reason), "{line}: {error}");
        }
    }

    #[test]
    fn a_step_at_the_end_may_be_due_within_the_bound() {
        let plan = Plan::parse("at 30s caller-1 create E1 delay 600s\n").unwrap();
        assert_eq!(plan.last_due_ms(), 630_000);
    }

    #[test]
    fn time_must_advance_and_a_setting_is_given_once() {
        let error = Plan::parse("idle 0s..0s\nlink 0s..0s\n").unwrap_err();
        assert!(error.line == 1 && error.reason.contains("time does not advance"), "{error}");
        assert!(Plan::parse("idle 0s..1ms\nlink 0s..0s\n").is_ok());
        let error = Plan::parse("seed 1\n# again\nseed 2\n").unwrap_err();
        assert!(error.line == 3 && error.reason.contains("already set in line 1"), "{error}");
    }

    #[test]
    fn a_reused_name_is_found_with_its_line() {
        let text = "at 0s caller-1 submit F1 chain 2\n\nat 1s caller-2 submit F1 chain 2\n\
                    at 1s caller-1 submit F1 chain 3\nat 1s caller-1 create E1\n\
                    at 2s caller-1 create E1 policy retry\nat 3s caller-1 cancel E1\n\
                    at 3s caller-1 create F1.1\n";
        let plan = Plan::parse(text).unwrap();
        assert_eq!(plan.remade(text), [(4, 1, "F1"), (6, 5, "E1"), (8, 1, "F1.1")]);
    }

    #[test]
    fn the_line_of_a_fault_is_found() {
        let text = "# fault\nfault WakeupLost at 1s\n\nfault EnginePause at 2s\n";
        assert_eq!([0, 1].map(|at| Plan::line_of_fault(text, at)), [2, 4]);
    }

    #[test]
    fn a_byte_order_mark_and_crlf_are_accepted() {
        let text = format!("\u{feff}{}", TEXT.replace('\n', "\r\n"));
        assert_eq!(Plan::parse(&text).unwrap(), Plan::parse(TEXT).unwrap());
        assert_eq!(Plan::line_of_fault("\u{feff}fault WakeupLost at 1s\r\n", 0), 1);
    }

    #[test]
    fn the_example_plans_parse() {
        for text in [
            include_str!("../../examples/approval.plan"),
            include_str!("../../examples/crash-between-cancel-and-drain.plan"),
        ] {
            Plan::parse(text).unwrap_or_else(|error| panic!("{error}"));
        }
    }

    #[test]
    fn plans_md_lists_every_setting_policy_and_worker_action() {
        let page = include_str!("../../PLANS.md");
        for (name, meaning, default) in Config::settings() {
            let row = format!("| `{name}` | {} | `{default}` |", meaning.trim());
            assert!(page.contains(&row), "PLANS.md lacks: {row}");
        }
        let policies = Policy::ALL.iter().map(|known| (known.word(), known.meaning()));
        let actions = WorkerAction::ALL.iter().map(|known| (known.word(), known.meaning()));
        for (word, meaning) in policies.chain(actions) {
            let item = format!("`{word}` ({})", meaning.trim());
            assert!(page.contains(&item), "PLANS.md lacks: {item}");
        }
    }

    #[test]
    fn a_wrong_line_is_refused_with_a_reason() {
        for (line, reason) in [
            ("engines many", "`many` is not a whole number"),
            ("motors 3", "not a setting"),
            ("fault Rain at 3s", "not a fault of the catalogue"),
            ("fault ReplyLost at 3s", "at a call"),
            ("fault EnginePause on 1st drain", "at a time"),
            ("fault EnginePause at 3s commits 4", "`commits`"),
            ("at soon caller-1 cancel E1", "is not a time"),
            ("at 1s caller-1 dance E1", "`dance`"),
            ("at 1s worker-1 cancel E1", "cannot do that"),
            ("at 1s caller-1 submit F1 : a, b <- c", "not named before"),
            ("at 1s caller-1 submit F1 : a, b <- a quorum 2", "can never be met"),
            ("at 1s caller-1 submit F1 chain 0", "1 to 5000"),
            ("at 1s caller-1 create E1 policy odd", "expected plain, retry"),
            ("task E1 complete", "expected `does`"),
            ("habits complete:80,sleep:3", "`sleep`"),
            ("habits complete:80,die:1,complete:3", "`complete` is given twice"),
            ("lease 0.0001s", "finer than a millisecond"),
            ("at 1s caller-1 create E1 delay 1s delay 2s", "`delay` is given twice"),
            (
                "at 1s caller-1 submit F1 policy retry policy brief chain 2",
                "`policy` is given twice",
            ),
            ("at 1s caller-1 submit F1 chunk 0 chain 2", "at least 1 member"),
            ("at 1s caller-1 submit F1 : a, b <- a a", "depends on `a` twice"),
            ("fault EnginePause at 3s for 3s for 4s", "`for` is given twice"),
        ] {
            let error = Plan::parse(&format!("seed 1\n\n{line}\n")).unwrap_err();
            assert_eq!(error.line, 3, "{line}");
            assert!(error.to_string().contains(reason), "{line}: {error}");
        }
    }
}
