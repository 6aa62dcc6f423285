//! Whole flows: what submitting them and resolving their edges takes per task and edge.

use selvedge_core::call::Function;
use selvedge_core::call::flow::{Edge, NewMember, ResolveOutgoing, SubmitFlow};
use selvedge_core::client::{
    Effect, FlowSubmission, FlowTask, Input, Machine, Needs, Settings, StartTime, Submit,
};
use selvedge_core::command::Answer;
use selvedge_core::id::{ExecutionId, FlowId, LaneId, Namespace};
use selvedge_core::key::Key;
use selvedge_core::partition::{Partition, PartitionCounts};
use selvedge_core::time::LocalTime;
use selvedge_core::value::Value;
use uuid::Uuid;

use super::{Cost, Line};
use crate::spec::store::{self, HostStore, SpecStore};

/// The tasks of a flow: for each, the earlier ones that it waits for.
type Tasks = Vec<Vec<usize>>;

/// Measures every shape on a library of its own.
pub(super) fn measure(library: &str) -> Result<Vec<Line>, String> {
    let hundred: Tasks = vec![Vec::new(); 100];
    let fan: Tasks = std::iter::once(Vec::new()).chain(vec![vec![0]; 1_000]).collect();
    let join: Tasks = vec![Vec::new(); 1_000].into_iter().chain([(0..1_000).collect()]).collect();
    let mut lines = Vec::new();
    let submissions = [
        ("one task", vec![Vec::new()]),
        ("100 tasks, per task", hundred),
        ("10,000 tasks, per task", vec![Vec::new(); 10_000]),
        ("10 by 100 grid, per task and edge", grid(10, 100)),
        ("1 into 1,000, per task and edge", fan.clone()),
        ("1,000 into 1, per task and edge", join.clone()),
    ];
    for (name, tasks) in submissions {
        let mut flow = SubmittedFlow::start(library)?;
        let cost = flow.submit(&tasks)?;
        let per = tasks.len() + tasks.iter().map(Vec::len).sum::<usize>();
        lines.push(Line { name: format!("ff_submit_flow: {name}"), per, cost });
        largest(&mut lines, &flow, per);
    }
    for (name, tasks, ends) in [
        ("1 into 1,000, per edge", fan, 0..1),
        ("1,000 into 1, per edge", join, 0..1_000),
        ("10 by 10 grid, per edge", grid(10, 10), 0..90),
    ] {
        let mut flow = SubmittedFlow::start(library)?;
        flow.submit(&tasks)?;
        flow.largest = Cost::default();
        let per = tasks.iter().map(Vec::len).sum();
        let mut cost = Cost::default();
        for task in ends {
            cost.add(flow.end(task)?);
        }
        lines.push(Line { name: format!("ff_resolve_outgoing: {name}"), per, cost });
        largest(&mut lines, &flow, per);
    }
    Ok(lines)
}

/// Adds a line for the largest call of a shape of some size: what occupies the server at a time.
fn largest(lines: &mut Vec<Line>, flow: &SubmittedFlow, per: usize) {
    if let (true, Some(line)) = (per >= 1_000, lines.last()) {
        let shape = line.name.split(", per").next().unwrap_or_default();
        let name = format!("{shape}, largest call");
        lines.push(Line { name, per: 1, cost: flow.largest.clone() });
    }
}

/// Layers in which every task waits for all of the layer before.
fn grid(width: usize, depth: usize) -> Tasks {
    let layer = |at: usize| (at * width)..((at + 1) * width);
    (0..width * depth)
        .map(|task| match (task / width).checked_sub(1) {
            None => Vec::new(),
            Some(before) => layer(before).collect(),
        })
        .collect()
}

/// A flow on a host that counts.
struct SubmittedFlow {
    store: HostStore,
    partition: Partition,
    id: FlowId,
    largest: Cost,
}

impl SubmittedFlow {
    fn start(library: &str) -> Result<Self, String> {
        let mut store = HostStore::counting();
        store::load(&mut store, library)?;
        let id = FlowId::from(Uuid::from_u128(1));
        Ok(Self { store, partition: Partition::flow(3), id, largest: Cost::default() })
    }

    /// Submits the tasks as a client does.
    fn submit(&mut self, tasks: &Tasks) -> Result<Cost, String> {
        let submit = Submit::new(Needs::counts(PartitionCounts::DEFAULT, true), self.flow(tasks));
        let mut machine = Machine::new(submit, Settings::default(), 1);
        let mut cost = Cost::default();
        let mut input = Input::Wake;
        loop {
            machine.handle(LocalTime(0), input);
            if let Some(result) = machine.take_result() {
                return result.map(|_| cost).map_err(|error| error.to_string());
            }
            let Some(Effect::Send { ticket, batch, .. }) = machine.next_effect() else {
                return Err("a submission does nothing but call".to_owned());
            };
            let mut answers = Vec::new();
            for command in batch {
                let (reply, took) = self.run(&command.argv)?;
                cost.add(took);
                answers.push(Answer::Applied(reply));
            }
            input = Input::Settled { ticket, answers };
        }
    }

    fn flow(&self, tasks: &Tasks) -> FlowSubmission {
        let task = |(at, after): (usize, &Vec<usize>)| FlowTask {
            member: member(task_id(at)),
            start: StartTime::AtOnce,
            edges: after.iter().map(|from| edge(*from, at)).collect(),
            group: None,
        };
        FlowSubmission {
            flow_id: self.id,
            partition: self.partition,
            flow_kind: "measured".to_owned(),
            namespace: Namespace::new("ledger"),
            tasks: tasks.iter().enumerate().map(task).collect(),
            tags: Vec::new(),
            content: String::new(),
            tasks_per_call: SubmitFlow::MEMBERS_MAX,
        }
    }

    /// Ends a task and resolves its edges.
    fn end(&mut self, task: usize) -> Result<Cost, String> {
        let core = Key::execution(&task_id(task)).core().to_string();
        let ended = ["HSET", &core, "lifecycle_phase", "terminal", "terminal_outcome", "success"];
        let command = ended.map(|word| word.as_bytes().to_vec());
        self.store.call(&command).map_err(|error| error.to_string())?;
        let mut cost = Cost::default();
        let mut cursor = "0".to_owned();
        loop {
            let (reply, took) = self.call(&ResolveOutgoing {
                execution_id: task_id(task),
                cursor,
                limit: Some(100),
                only_edge: None,
                only_child: None,
            })?;
            cost.add(took);
            match reply.get(2..4) {
                Some([Value::Bulk(word), Value::Bulk(next)]) if word == b"more" => {
                    cursor = String::from_utf8_lossy(next).into_owned();
                }
                _ => return Ok(cost),
            }
        }
    }

    fn call<F: Function>(&mut self, call: &F) -> Result<(Vec<Value>, Cost), String> {
        let (reply, cost) = self.run(&call.command())?;
        if let Value::Array(fields) = &reply
            && fields.first() == Some(&Value::Int(1))
        {
            return Ok((fields.clone(), cost));
        }
        Err(format!("{}: {reply:?}", F::NAME))
    }

    fn run(&mut self, command: &[Vec<u8>]) -> Result<(Value, Cost), String> {
        let reply = self.store.call(command).map_err(|error| error.to_string())?;
        let cost = Cost::of_last_call(self.store.host());
        self.largest = std::mem::take(&mut self.largest).dearer(cost.clone());
        Ok((reply, cost))
    }
}

fn task_id(task: usize) -> ExecutionId {
    ExecutionId::new(3, Uuid::from_u128((1 << 64) + task as u128))
}

fn member(execution_id: ExecutionId) -> NewMember {
    NewMember {
        execution_id,
        lane_id: LaneId::default_lane(),
        execution_kind: "work".to_owned(),
        priority: 0,
        creator_identity: "ledger".to_owned(),
        policy_json: String::new(),
        input_payload: b"input".to_vec(),
        delay_until: None,
        tags_json: r#"{"selvedge.task":"name"}"#.to_owned(),
        execution_deadline_at: None,
    }
}

fn edge(from: usize, to: usize) -> Edge {
    let id = Uuid::from_u128((2 << 96) + ((from as u128) << 32) + to as u128);
    Edge {
        edge_id: id.into(),
        upstream: task_id(from),
        downstream: task_id(to),
        data_passing_ref: String::new(),
    }
}
