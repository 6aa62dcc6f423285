//! What reads well and still cannot be: an actor that the world does not have, a name that nobody
//! makes, a fault after the end.

use std::collections::BTreeSet;

use super::{CallPattern, Deed, FlowSpec, Group, Plan, Rule, Shape, Step, When};
use crate::event::Actor;
use crate::fault::Fault;

/// Most tags that a plan may give one execution.
const TAGS_MAX: u64 = 10_000;

/// The line of a plan that cannot be, by its place among those of its kind.
pub(super) enum Place {
    Setting(&'static str),
    Task(usize),
    Step(usize),
    Fault(usize),
}

/// Finds the first thing that cannot be.
pub(super) fn check(plan: &Plan) -> Result<(), (Place, String)> {
    settings(plan)?;
    let names = names(plan);
    for (at, task) in plan.tasks.iter().enumerate() {
        known(&names, &task.name).map_err(|reason| (Place::Task(at), reason))?;
    }
    for (at, step) in plan.steps.iter().enumerate() {
        check_step(plan, &names, step).map_err(|reason| (Place::Step(at), reason))?;
    }
    for (at, rule) in plan.faults.iter().enumerate() {
        check_fault(plan, rule).map_err(|reason| (Place::Fault(at), reason))?;
    }
    Ok(())
}

fn settings(plan: &Plan) -> Result<(), (Place, String)> {
    let config = &plan.config;
    for (name, value, least, most) in [
        ("engines", config.engines, 1, 7),
        ("shards", config.shards, 1, 3),
        ("workers", config.workers, 0, 9),
        ("tenants", config.tenants, 1, 2),
        ("lanes", config.lanes, 1, 9),
        ("flow_partitions", config.flow_partitions, 1, 256),
        ("budget_partitions", config.budget_partitions, 1, 256),
        ("quota_partitions", config.quota_partitions, 1, 256),
    ] {
        if !(least..=most).contains(&value) {
            let reason = format!("{name} must be {least} to {most}, not {value}");
            return Err((Place::Setting(name), reason));
        }
    }
    Ok(())
}

/// Everything that some step makes: flows, their members, executions of their own.
fn names(plan: &Plan) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for step in &plan.steps {
        match &step.deed {
            Deed::Submit(flow) | Deed::Build(flow) => {
                let member = |name: String| format!("{}.{name}", flow.name);
                names.extend(flow.members().into_iter().map(|(name, ..)| member(name)));
                names.insert(flow.name.clone());
            }
            Deed::Create(task) => drop(names.insert(task.name.clone())),
            Deed::Cancel(_) | Deed::CancelFlow(_) | Deed::Replay(_) | Deed::Signal(..) => {}
        }
    }
    names
}

fn known(names: &BTreeSet<String>, name: &str) -> Result<(), String> {
    if names.contains(name) { Ok(()) } else { Err(format!("no step makes `{name}`")) }
}

fn check_step(plan: &Plan, names: &BTreeSet<String>, step: &Step) -> Result<(), String> {
    present(plan, step.by)?;
    let partition = |partition: Option<u16>| match partition {
        Some(partition) if u64::from(partition) >= plan.config.flow_partitions => Err(format!(
            "there is no fp:{partition}: flow_partitions is {}",
            plan.config.flow_partitions
        )),
        _ => Ok(()),
    };
    match &step.deed {
        Deed::Submit(flow) | Deed::Build(flow) => {
            partition(flow.partition)?;
            can_be_met(flow)
        }
        Deed::Create(task) => {
            if task.tags > TAGS_MAX {
                return Err(format!("{} tags are more than {TAGS_MAX}", task.tags));
            }
            if task.lane >= plan.config.lanes {
                return Err(format!(
                    "there is no lane {}: lanes is {}",
                    task.lane, plan.config.lanes
                ));
            }
            partition(task.partition)
        }
        Deed::Cancel(name)
        | Deed::CancelFlow(name)
        | Deed::Replay(name)
        | Deed::Signal(name, _) => known(names, name),
    }
}

fn can_be_met(flow: &FlowSpec) -> Result<(), String> {
    let (Shape::FanIn(count, group) | Shape::Diamond(count, group)) = &flow.shape else {
        return Ok(());
    };
    match group {
        Group::Quorum { of, .. } if *of == 0 || *of as usize > *count => {
            Err(format!("a quorum of {of} of {count} can never be met"))
        }
        Group::All | Group::AnyOf { .. } | Group::Quorum { .. } => Ok(()),
    }
}

fn check_fault(plan: &Plan, rule: &Rule) -> Result<(), String> {
    if let Some(to) = rule.to {
        present(plan, to)?;
    }
    let (fault, length) = (rule.fault, plan.config.length.0);
    if matches!(fault, Fault::Moved | Fault::Ask | Fault::SlotMove) && plan.config.shards < 2 {
        return Err(format!("{fault} needs a cluster: set shards to 2 or 3"));
    }
    match &rule.when {
        When::At(ms) if *ms >= length => {
            Err(format!("faults strike until the length of {length} ms, this one comes later"))
        }
        When::Call(CallPattern { by: Some(by), .. }) => present(plan, *by),
        When::At(_) | When::Call(_) => Ok(()),
    }
}

/// Whether the world has such an actor.
fn present(plan: &Plan, actor: Actor) -> Result<(), String> {
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
    Err(format!("there is no {actor}: this world has {most} of them"))
}
