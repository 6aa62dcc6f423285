//! Chooses the actions of the callers and signallers of a seed.

use crate::event::Actor;
use crate::plan::{
    Action, Config, FlowSpec, Group, PlanStep, Policy, Shape, Span, Task, TaskSpec, WorkerAction,
};
use crate::search::{Draws, Ratio};

/// The kinds of actions.
#[derive(Clone, Copy)]
enum Kind {
    Submit,
    Build,
    Create,
    Cancel,
    CancelFlow,
    Replay,
    Signal,
    Wait,
}

/// The names used so far.
#[derive(Default)]
struct Known {
    flows: Vec<String>,
    executions: Vec<String>,
}

pub(super) fn draw(stream: &mut Draws, config: &Config) -> (Vec<Task>, Vec<PlanStep>) {
    let mut kinds = vec![(Kind::Submit, stream.within(Span { from: 20, to: 100 }))];
    for kind in [
        Kind::Build,
        Kind::Create,
        Kind::Cancel,
        Kind::CancelFlow,
        Kind::Replay,
        Kind::Signal,
        Kind::Wait,
    ] {
        if stream.chance(Ratio { hits: 1, of: 2 }) {
            kinds.push((kind, stream.within(Span { from: 1, to: 60 })));
        }
    }
    let hot = stream.chance(Ratio { hits: 1, of: 2 });
    let (mut known, mut tasks, mut steps) = (Known::default(), Vec::new(), Vec::new());
    let count = stream.within(Span { from: 2, to: 16 });
    let mut at_ms = 0;
    for _ in 0..count {
        let gap = config.length.0 * 2 / 3 / count;
        at_ms += stream.below(gap + 1);
        let Some(kind) = stream.weighted(&kinds) else { continue };
        let by = match kind {
            Kind::Signal => Actor::Signaller(1),
            Kind::Submit
            | Kind::Build
            | Kind::Create
            | Kind::Cancel
            | Kind::CancelFlow
            | Kind::Replay
            | Kind::Wait => Actor::Caller(1 + u8::from(stream.chance(Ratio { hits: 1, of: 3 }))),
        };
        if let Some(action) = action(stream, kind, hot, &mut known, config) {
            if let (Action::Submit(flow) | Action::Build(flow), 0) = (&action, stream.below(4)) {
                let odd = odd_task(stream, flow);
                if tasks.iter().all(|known: &Task| known.name != odd.name) {
                    tasks.push(odd);
                }
            }
            steps.push(PlanStep { at_ms, by, action });
        }
    }
    (tasks, steps)
}

/// A member of a flow that does not simply complete.
fn odd_task(stream: &mut Draws, flow: &FlowSpec) -> Task {
    let members = flow.members();
    let at = usize::try_from(stream.below(members.len() as u64)).unwrap_or(0);
    let ends = [
        WorkerAction::FailForGood,
        WorkerAction::Fail,
        WorkerAction::Die,
        WorkerAction::SuspendTimed,
        WorkerAction::Slow,
    ];
    let count = 1 + stream.below(3);
    let does = (0..count).filter_map(|_| stream.pick(&ends).copied()).collect();
    Task { name: format!("{}.{}", flow.name, members[at].0), does }
}

fn action(
    stream: &mut Draws,
    kind: Kind,
    hot: bool,
    known: &mut Known,
    config: &Config,
) -> Option<Action> {
    let execution = |stream: &mut Draws, known: &Known| stream.pick(&known.executions).cloned();
    match kind {
        Kind::Submit => Some(Action::Submit(flow(stream, hot, known, false))),
        Kind::Build => {
            Some(Action::Build(FlowSpec { chunk: None, ..flow(stream, hot, known, true) }))
        }
        Kind::Create => {
            let name = name(stream, "E", hot, &known.executions);
            known.executions.push(name.clone());
            let lane = stream.below(config.lanes.max(1));
            let delay_ms = stream.chance(Ratio { hits: 1, of: 3 }).then(|| stream.below(6_000));
            let late = stream.chance(Ratio { hits: 1, of: 6 });
            let deadline_ms = late.then(|| 1_000 + stream.below(15_000));
            let priority = u32::try_from(stream.below(3) * 10).unwrap_or(0);
            let policy = policy(stream);
            let plain = TaskSpec::named(name);
            // As many values as a Lua function can unpack at once, and more.
            let tags = match stream.below(60) {
                0 => stream.pick(&[3_999, 4_001]).copied().unwrap_or(0),
                1..=5 => 1 + stream.below(5),
                _ => 0,
            };
            let task = TaskSpec { lane, delay_ms, deadline_ms, priority, policy, tags, ..plain };
            Some(Action::Create(task))
        }
        Kind::Cancel => execution(stream, known).map(Action::Cancel),
        Kind::Replay => execution(stream, known).map(Action::Replay),
        Kind::CancelFlow => stream.pick(&known.flows).cloned().map(Action::CancelFlow),
        Kind::Signal => execution(stream, known).map(|name| Action::Signal(name, "go".to_owned())),
        Kind::Wait if stream.chance(Ratio { hits: 1, of: 2 }) => {
            stream.pick(&known.flows).cloned().map(Action::Wait)
        }
        Kind::Wait => execution(stream, known).map(Action::Wait),
    }
}

/// A name of a small pool that causes conflicts, or a new name.
fn name(stream: &mut Draws, letter: &str, hot: bool, known: &[String]) -> String {
    if hot { format!("{letter}{}", stream.below(4)) } else { format!("{letter}{}", known.len()) }
}

fn policy(stream: &mut Draws) -> Policy {
    if stream.chance(Ratio { hits: 1, of: 2 }) {
        return Policy::Plain;
    }
    stream.pick(Policy::ALL).copied().unwrap_or(Policy::Plain)
}

/// A small number, or sometimes one at or just above a limit.
fn size(stream: &mut Draws, built: bool) -> usize {
    let at = |stream: &mut Draws, sizes: &[usize]| stream.pick(sizes).copied().unwrap_or(1);
    match stream.below(if built { 40 } else { 60 }) {
        0..=2 if !built => at(stream, &[19, 20, 21]),
        3 | 4 if !built => at(stream, &[49, 50, 51]),
        5 if !built => at(stream, &[99, 100, 101]),
        _ => usize::try_from(stream.within(Span { from: 1, to: 6 })).unwrap_or(1),
    }
}

fn flow(stream: &mut Draws, hot: bool, known: &mut Known, built: bool) -> FlowSpec {
    let size = size(stream, built);
    let quorum = u32::try_from(1 + stream.below(size as u64)).unwrap_or(1);
    let cancel_remaining = stream.chance(Ratio { hits: 2, of: 3 });
    let group = match stream.below(4) {
        0 => Group::All,
        1 | 2 => Group::AnyOf { cancel_remaining },
        _ => Group::Quorum { of: quorum, cancel_remaining },
    };
    let shape = match stream.below(5) {
        0 => Shape::Chain(size),
        1 | 2 => Shape::FanIn(size, group),
        3 => Shape::FanOut(size),
        _ => Shape::Diamond(size, group),
    };
    let name = name(stream, "F", hot, &known.flows);
    let chunked = stream.chance(Ratio { hits: 1, of: 4 });
    let chunk = chunked.then(|| 1 + stream.below(4));
    let policy = policy(stream);
    let flow = FlowSpec { chunk, policy, ..FlowSpec::new(name.clone(), shape) };
    let members = flow.members();
    known.executions.extend(members.iter().take(8).map(|(member, ..)| format!("{name}.{member}")));
    known.flows.push(name);
    flow
}
