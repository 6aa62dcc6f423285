//! What reads well and still cannot be: an actor that the world does not have, a name that nobody
//! makes, a step or a fault after the end, a time that no run lives to see.

use std::collections::{BTreeMap, BTreeSet};

use super::check_fault::check_fault;
use super::words::show_ms;
use super::{Config, Deed, FlowSpec, Group, Plan, Shape, Step, TaskSpec};
use crate::event::Actor;

/// Most tags that a plan may give one execution.
const TAGS_MAX: u64 = 10_000;

/// Most batches or completions that an engine can be told to have at once.
const MANY: u64 = 1_000_000;

const DAY_MS: u64 = 24 * 3_600_000;

/// The longest time that a setting or a fault may take: a run has to end while somebody waits.
pub(super) const SPAN_MAX_MS: u64 = 7 * DAY_MS;

/// How far away a deadline may be.
const DEADLINE_MAX_MS: u64 = 3_650 * DAY_MS;

/// The line of a plan that cannot be, by its place among those of its kind.
pub(super) enum Place {
    Setting(&'static str),
    /// The first of two settings that do not go together, or the other where a plan leaves the
    /// first at its default.
    Either(&'static str, &'static str),
    Task(usize),
    Step(usize),
    Fault(usize),
}

/// Finds the first thing that cannot be.
pub(super) fn check(plan: &Plan) -> Result<(), (Place, String)> {
    settings(plan)?;
    spans(&plan.config)?;
    let names = Names::of(plan);
    for (at, task) in plan.tasks.iter().enumerate() {
        names.execution(&task.name).map_err(|reason| (Place::Task(at), reason))?;
        if plan.tasks.iter().take(at).any(|earlier| earlier.name == task.name) {
            let reason = format!("there is another line about `{}`: join them", task.name);
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
        ("tenants", config.tenants, 1, 2),
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

/// Times that no run lives to see, and a world in which time stands still.
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
            let reason = format!("{name} is longer than 7 days, which no run lives to see");
            return Err((Place::Setting(name), reason));
        }
    }
    // Two rounds of every scanner end a run, and each may take two intervals.
    if config.interval.0 > DAY_MS {
        let reason = "interval is longer than a day, which no run lives to see four times";
        return Err((Place::Setting("interval"), reason.to_owned()));
    }
    for (name, ms) in [("link", config.link.0.to), ("idle", config.idle.0.to)] {
        if ms > config.bound.0 {
            let reason = format!("who takes longer than `bound` is taken for stuck: {name} may");
            return Err((Place::Either(name, "bound"), reason));
        }
    }
    let quickest = 2 * config.link.0.from;
    for (name, ms) in [("patience", config.patience.0), ("ticket_timeout", config.ticket_timeout.0)]
    {
        if ms <= quickest {
            let reason = format!("{name} is over before any reply can come over the link");
            return Err((Place::Either(name, "link"), reason));
        }
    }
    if config.link.0.to == 0 && config.idle.0.to == 0 {
        // A worker that has nothing to do would ask again and again within one instant.
        let reason = "time stands still while both `idle` and `link` take none: lengthen one";
        return Err((Place::Setting("idle"), reason.to_owned()));
    }
    Ok(())
}

/// Everything that some step makes.
pub(super) struct Names {
    flows: BTreeSet<String>,
    /// Members of flows, and executions of their own.
    executions: BTreeSet<String>,
}

impl Names {
    fn of(plan: &Plan) -> Self {
        let (mut flows, mut executions) = (BTreeSet::new(), BTreeSet::new());
        for step in &plan.steps {
            match &step.deed {
                Deed::Submit(flow) | Deed::Build(flow) => {
                    let member = |name: String| format!("{}.{name}", flow.name);
                    executions.extend(flow.members().into_iter().map(|(name, ..)| member(name)));
                    flows.insert(flow.name.clone());
                }
                Deed::Create(task) => drop(executions.insert(task.name.clone())),
                Deed::Cancel(_) | Deed::CancelFlow(_) | Deed::Replay(_) | Deed::Signal(..) => {}
            }
        }
        Self { flows, executions }
    }

    /// Refuses what is no execution.
    pub(super) fn execution(&self, name: &str) -> Result<(), String> {
        if self.executions.contains(name) {
            return Ok(());
        }
        Err(if self.flows.contains(name) {
            format!("`{name}` is a flow, and this is for executions: name a member of it")
        } else {
            format!("no step makes `{name}`")
        })
    }

    /// Refuses what is no flow.
    fn flow(&self, name: &str) -> Result<(), String> {
        if self.flows.contains(name) {
            return Ok(());
        }
        Err(if self.executions.contains(name) {
            format!("`{name}` is an execution, and this is for flows")
        } else {
            format!("no step makes `{name}`")
        })
    }
}

/// Steps that make a flow or an execution otherwise than an earlier one did, by their places: the
/// later one, the one that stands, and the name. A swarm wants that, for callers do get in each
/// other's way; who writes a plan by hand hardly does.
pub(super) fn remade(plan: &Plan) -> Vec<(usize, usize, &str)> {
    let mut made: BTreeMap<&str, (usize, &Deed)> = BTreeMap::new();
    let members = members(plan);
    let mut remade = Vec::new();
    for (at, Step { deed, .. }) in plan.steps.iter().enumerate() {
        let name = match deed {
            Deed::Submit(flow) | Deed::Build(flow) => &flow.name,
            Deed::Create(task) => &task.name,
            Deed::Cancel(_) | Deed::CancelFlow(_) | Deed::Replay(_) | Deed::Signal(..) => continue,
        };
        let (first, before) = *made.entry(name).or_insert((at, deed));
        let member_of = members.get(name.as_str()).filter(|_| matches!(deed, Deed::Create(_)));
        if before != deed {
            remade.push((at, first, name.as_str()));
        } else if let Some(flow) = member_of {
            remade.push((at, *flow, name.as_str()));
        }
    }
    remade
}

/// The members of all flows by name, and the first step that makes each.
fn members(plan: &Plan) -> BTreeMap<String, usize> {
    let mut members = BTreeMap::new();
    for (at, step) in plan.steps.iter().enumerate() {
        let (Deed::Submit(flow) | Deed::Build(flow)) = &step.deed else { continue };
        for (name, ..) in flow.members() {
            members.entry(format!("{}.{name}", flow.name)).or_insert(at);
        }
    }
    members
}

/// Refuses a flow partition that the world does not have.
pub(super) fn check_partition(plan: &Plan, partition: Option<u16>) -> Result<(), String> {
    let partitions = plan.config.flow_partitions;
    match partition {
        Some(partition) if u64::from(partition) >= partitions => {
            Err(format!("there is no fp:{partition}: flow_partitions is {partitions}"))
        }
        Some(_) | None => Ok(()),
    }
}

fn check_step(plan: &Plan, names: &Names, step: &Step) -> Result<(), String> {
    present(plan, step.by)?;
    let length = plan.config.length.0;
    if step.at_ms > length {
        return Err(format!(
            "steps are taken until the length of {}, this one comes later: raise `length`",
            show_ms(length)
        ));
    }
    match &step.deed {
        Deed::Build(FlowSpec { chunk: Some(_), .. }) => {
            Err("a flow is built piece by piece: leave `chunk` out".to_owned())
        }
        Deed::Submit(flow) | Deed::Build(flow) => {
            check_partition(plan, flow.partition)?;
            can_be_met(flow)
        }
        Deed::Create(task) => check_task(plan, step, task),
        Deed::CancelFlow(name) => names.flow(name),
        Deed::Cancel(name) | Deed::Replay(name) | Deed::Signal(name, _) => names.execution(name),
    }
}

fn check_task(plan: &Plan, step: &Step, task: &TaskSpec) -> Result<(), String> {
    if task.tags > TAGS_MAX {
        return Err(format!("{} tags are more than {TAGS_MAX}", task.tags));
    }
    if task.lane >= plan.config.lanes {
        return Err(format!("there is no lane {}: lanes is {}", task.lane, plan.config.lanes));
    }
    let last = plan.config.length.0 + plan.config.bound.0;
    if step.due_ms() > last {
        return Err(format!(
            "it falls due after `length` and `bound`, {} together: raise `bound`",
            show_ms(last)
        ));
    }
    if task.deadline_ms.is_some_and(|ms| ms > DEADLINE_MAX_MS) {
        return Err("a deadline is at most ten years away".to_owned());
    }
    check_partition(plan, task.partition)
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

/// Whether the world has such an actor.
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
    Err(format!("there is no {actor}: this world has {most} of them"))
}
