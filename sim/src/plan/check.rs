//! Checks of a plan beyond its syntax: actors and names that do not exist, steps and faults after
//! the end, times that are too long.

use std::collections::{BTreeMap, BTreeSet};

use super::check_fault::check_fault;
use super::tokens::show_ms;
use super::{Action, Config, FlowSpec, Group, Plan, PlanStep, Shape, TaskSpec};
use crate::event::Actor;

/// The most tags of one execution.
const TAGS_MAX: u64 = 10_000;

/// The largest window or queue of an engine.
const MANY: u64 = 1_000_000;

const DAY_MS: u64 = 24 * 3_600_000;

/// The longest duration of a setting or a fault.
pub(super) const SPAN_MAX_MS: u64 = 7 * DAY_MS;

/// The latest deadline.
const DEADLINE_MAX_MS: u64 = 3_650 * DAY_MS;

/// The line with an error, by its position among lines of its kind.
pub(super) enum Place {
    Setting(&'static str),
    /// One of two settings that contradict each other: the first, or the second if the plan does
    /// not set the first.
    Either(&'static str, &'static str),
    Task(usize),
    Step(usize),
    Fault(usize),
}

/// Returns the first error.
pub(super) fn check(plan: &Plan) -> Result<(), (Place, String)> {
    settings(plan)?;
    spans(&plan.config)?;
    let names = Names::of(plan);
    for (at, task) in plan.tasks.iter().enumerate() {
        names.execution(&task.name).map_err(|reason| (Place::Task(at), reason))?;
        if plan.tasks.iter().take(at).any(|earlier| earlier.name == task.name) {
            let reason =
                format!("there is another `task` line for `{}`: put both into one", task.name);
            return Err((Place::Task(at), reason));
        }
    }
    for (at, step) in plan.steps.iter().enumerate() {
        check_step(plan, &names, step).map_err(|reason| (Place::Step(at), reason))?;
    }
    for (at, rule) in plan.faults.iter().enumerate() {
        check_fault(plan, &names, rule).map_err(|reason| (Place::Fault(at), reason))?;
    }
    Ok(())
}

fn settings(plan: &Plan) -> Result<(), (Place, String)> {
    let config = &plan.config;
    for (name, value, least, most) in [
        ("engines", config.engines, 1, 7),
        ("shards", config.shards, 1, 3),
        ("workers", config.workers, 0, 9),
        ("capacity", config.capacity, 1, 64),
        ("tenants", config.tenants, 1, 2),
        ("kinds", config.kinds, 1, 3),
        ("lanes", config.lanes, 1, 9),
        ("flow_partitions", config.flow_partitions, 1, 256),
        ("budget_partitions", config.budget_partitions, 1, 256),
        ("quota_partitions", config.quota_partitions, 1, 256),
        ("window", config.window, 1, MANY),
        ("window_per_slot", config.window_per_slot, 1, MANY),
        ("dispatch_concurrency", config.dispatch_concurrency, 1, MANY),
        ("dispatch_queue", config.dispatch_queue, 1, MANY),
    ] {
        if !(least..=most).contains(&value) {
            let reason = format!("{name} must be {least} to {most}, not {value}");
            return Err((Place::Setting(name), reason));
        }
    }
    Ok(())
}

/// Durations that are too long, and settings with which time would not advance.
fn spans(config: &Config) -> Result<(), (Place, String)> {
    for (name, ms) in [
        ("link", config.link.0.to),
        ("work", config.work.0.to),
        ("idle", config.idle.0.to),
        ("lease", config.lease.0),
        ("patience", config.patience.0),
        ("ticket_timeout", config.ticket_timeout.0),
        ("length", config.length.0),
        ("bound", config.bound.0),
    ] {
        if ms > SPAN_MAX_MS {
            let reason = format!("{name} is longer than 7 days");
            return Err((Place::Setting(name), reason));
        }
    }
    // The rest phase takes four intervals.
    if config.interval.0 > DAY_MS {
        let reason = "interval is longer than a day";
        return Err((Place::Setting("interval"), reason.to_owned()));
    }
    for (name, ms) in [("link", config.link.0.to), ("idle", config.idle.0.to)] {
        if ms > config.bound.0 {
            let reason =
                format!("{name} is longer than `bound`: the run would be reported as stuck");
            return Err((Place::Either(name, "bound"), reason));
        }
    }
    let quickest = 2 * config.link.0.from;
    for (name, ms) in [("patience", config.patience.0), ("ticket_timeout", config.ticket_timeout.0)]
    {
        if ms <= quickest {
            let reason = format!("{name} ends before a reply can arrive over the link");
            return Err((Place::Either(name, "link"), reason));
        }
    }
    if config.link.0.to == 0 && config.idle.0.to == 0 {
        // An idle worker would claim without end at the same virtual time.
        let reason = "time does not advance if both `idle` and `link` are zero: make one longer";
        return Err((Place::Setting("idle"), reason.to_owned()));
    }
    Ok(())
}

/// All names that a step creates.
pub(super) struct Names {
    flows: BTreeSet<String>,
    /// Members of flows, and single executions.
    executions: BTreeSet<String>,
}

impl Names {
    fn of(plan: &Plan) -> Self {
        let (mut flows, mut executions) = (BTreeSet::new(), BTreeSet::new());
        for step in &plan.steps {
            match &step.action {
                Action::Submit(flow) | Action::Build(flow) => {
                    let member = |name: String| format!("{}.{name}", flow.name);
                    executions.extend(flow.members().into_iter().map(|(name, ..)| member(name)));
                    flows.insert(flow.name.clone());
                }
                Action::Create(task) => drop(executions.insert(task.name.clone())),
                Action::Cancel(_)
                | Action::CancelFlow(_)
                | Action::Replay(_)
                | Action::Signal(..)
                | Action::Wait(_) => {}
            }
        }
        Self { flows, executions }
    }

    /// An error unless this is an execution.
    pub(super) fn execution(&self, name: &str) -> Result<(), String> {
        if self.executions.contains(name) {
            return Ok(());
        }
        Err(if self.flows.contains(name) {
            format!("`{name}` is a flow, expected an execution: name one of its members")
        } else {
            format!("no step creates `{name}`")
        })
    }

    /// An error unless this is a flow.
    fn flow(&self, name: &str) -> Result<(), String> {
        if self.flows.contains(name) {
            return Ok(());
        }
        Err(if self.executions.contains(name) {
            format!("`{name}` is an execution, expected a flow")
        } else {
            format!("no step creates `{name}`")
        })
    }
}

/// Steps that create something else under a name that an earlier step has used, by position: the
/// later step, the earlier one, and the name. Generated plans do this on purpose, plans written by
/// hand hardly ever.
pub(super) fn remade(plan: &Plan) -> Vec<(usize, usize, &str)> {
    let mut made: BTreeMap<&str, (usize, &Action)> = BTreeMap::new();
    let members = members(plan);
    let mut remade = Vec::new();
    for (at, PlanStep { action, .. }) in plan.steps.iter().enumerate() {
        let name = match action {
            Action::Submit(flow) | Action::Build(flow) => &flow.name,
            Action::Create(task) => &task.name,
            Action::Cancel(_)
            | Action::CancelFlow(_)
            | Action::Replay(_)
            | Action::Signal(..)
            | Action::Wait(_) => continue,
        };
        let (first, before) = *made.entry(name).or_insert((at, action));
        let member_of = members.get(name.as_str()).filter(|_| matches!(action, Action::Create(_)));
        if before != action {
            remade.push((at, first, name.as_str()));
        } else if let Some(flow) = member_of {
            remade.push((at, *flow, name.as_str()));
        }
    }
    remade
}

/// The members of all flows by name, and the first step that creates each.
fn members(plan: &Plan) -> BTreeMap<String, usize> {
    let mut members = BTreeMap::new();
    for (at, step) in plan.steps.iter().enumerate() {
        let (Action::Submit(flow) | Action::Build(flow)) = &step.action else { continue };
        for (name, ..) in flow.members() {
            members.entry(format!("{}.{name}", flow.name)).or_insert(at);
        }
    }
    members
}

/// An error if the world has no such flow partition.
pub(super) fn check_partition(plan: &Plan, partition: Option<u16>) -> Result<(), String> {
    let partitions = plan.config.flow_partitions;
    match partition {
        Some(partition) if u64::from(partition) >= partitions => {
            Err(format!("there is no fp:{partition}: flow_partitions is {partitions}"))
        }
        Some(_) | None => Ok(()),
    }
}

fn check_step(plan: &Plan, names: &Names, step: &PlanStep) -> Result<(), String> {
    present(plan, step.by)?;
    let length = plan.config.length.0;
    if step.at_ms > length {
        return Err(format!(
            "this step is after the length of {}: raise `length`",
            show_ms(length)
        ));
    }
    match &step.action {
        Action::Build(FlowSpec { chunk: Some(_), .. }) => {
            Err("`build` makes one call for each part: leave `chunk` out".to_owned())
        }
        Action::Submit(flow) | Action::Build(flow) => {
            check_partition(plan, flow.partition)?;
            can_be_met(flow)
        }
        Action::Create(task) => check_task(plan, step, task),
        Action::CancelFlow(name) => names.flow(name),
        Action::Wait(name) => names.flow(name).or_else(|_| names.execution(name)),
        Action::Cancel(name) | Action::Replay(name) | Action::Signal(name, _) => {
            names.execution(name)
        }
    }
}

fn check_task(plan: &Plan, step: &PlanStep, task: &TaskSpec) -> Result<(), String> {
    if task.tags > TAGS_MAX {
        return Err(format!("{} tags are too many: at most {TAGS_MAX}", task.tags));
    }
    if task.lane >= plan.config.lanes {
        return Err(format!("there is no lane {}: lanes is {}", task.lane, plan.config.lanes));
    }
    let last = plan.config.length.0 + plan.config.bound.0;
    if step.due_ms() > last {
        return Err(format!(
            "it is due after `length` plus `bound`, which is {}: raise `bound`",
            show_ms(last)
        ));
    }
    if task.deadline_ms.is_some_and(|ms| ms > DEADLINE_MAX_MS) {
        return Err("a deadline is at most ten years".to_owned());
    }
    check_partition(plan, task.partition)
}

fn can_be_met(flow: &FlowSpec) -> Result<(), String> {
    let (Shape::FanIn(count, group) | Shape::Diamond(count, group)) = &flow.shape else {
        return Ok(());
    };
    match group {
        Group::Quorum { of, .. } if *of == 0 || *of as usize > *count => {
            Err(format!("a quorum of {of} out of {count} can never be met"))
        }
        Group::All | Group::AnyOf { .. } | Group::Quorum { .. } => Ok(()),
    }
}

/// An error if the world has no such actor.
pub(super) fn present(plan: &Plan, actor: Actor) -> Result<(), String> {
    let (number, most) = match actor {
        Actor::World => return Ok(()),
        Actor::Engine(number) => (number, plan.config.engines),
        Actor::Worker(number) => (number, plan.config.workers),
        Actor::Node(number) => (number, plan.config.shards),
        Actor::Caller(number) => (number, 3),
        Actor::Signaller(number) => (number, 2),
        Actor::Foreign(number) => (number, 1),
    };
    if u64::from(number) <= most {
        return Ok(());
    }
    Err(format!("there is no {actor}: this plan has {most} of them"))
}
