//! One seed, one world: tasks, workers that die with work in their hands, engines that die between
//! any two commands, and a clock that jumps to whatever comes next.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use selvedge_core::call::Function;
use selvedge_core::call::execution::{Authority, CompleteExecution, FailExecution, Running};
use selvedge_core::call::flow::{Edge, NewMember, SubmitFlow};
use selvedge_core::call::scheduling::{ClaimNext, ClaimNextReply, ClaimedWork};
use selvedge_core::capability::Capabilities;
use selvedge_core::engine::EngineConfig;
use selvedge_core::id::{ExecutionId, LaneId, Namespace, WorkerId, WorkerInstanceId};
use selvedge_core::key::Key;
use selvedge_core::partition::{Partition, PartitionCounts};
use selvedge_core::value::Value;
use uuid::Uuid;

use crate::rig::{Crash, Rig};

/// Longest virtual time that a world may need to come to rest.
const PATIENCE_MS: u64 = 600_000;
/// How long workers hold a lease.
const LEASE_MS: u64 = 5_000;
/// Every task is in this partition.
const HOME: Partition = Partition::flow(0);
/// Failures are tried again, so that only their number can end a task badly.
const POLICY: &str =
    r#"{"retry_policy":{"max_retries":50,"backoff":{"type":"fixed","delay_ms":100}}}"#;

/// What a world came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Tasks in the world.
    pub tasks: usize,
    /// Tasks that did not complete, with the state they are in.
    pub unfinished: Vec<(String, String)>,
    /// Workers that died with a task in their hands.
    pub dead_workers: usize,
    /// Engines that died between two commands.
    pub dead_engines: usize,
    /// Virtual milliseconds until rest.
    pub elapsed_ms: u64,
    /// Commands that engines sent.
    pub commands: usize,
    /// Digest of the final keyspace and the trace: equal for equal seeds.
    pub fingerprint: u64,
}

/// Runs the world of a seed.
///
/// # Errors
/// When a call is refused that the world had a right to make.
pub fn run(seed: u64) -> Result<Outcome, String> {
    let mut world = World::draw(seed);
    world.submit()?;
    let end = world.rig.now_ms() + PATIENCE_MS;
    let began = world.rig.now_ms();
    while world.rig.now_ms() < end && !world.unfinished().is_empty() {
        world.work()?;
        world.rig.run_for(100 + world.random.next_u64() % 900);
        world.replace_the_dead();
    }
    Ok(world.outcome(began))
}

struct World {
    rig: Rig,
    random: ChaCha8Rng,
    config: EngineConfig,
    engines: usize,
    dead_engines: usize,
    dead_workers: usize,
    /// One in so many claims ends with a dead worker.
    deadly_in: u64,
    tasks: Vec<ExecutionId>,
}

impl World {
    fn draw(seed: u64) -> Self {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let one = std::num::NonZeroU16::MIN;
        let config = EngineConfig {
            partitions: PartitionCounts { flow: one, budget: one, quota: one },
            ..EngineConfig::default()
        };
        let mut rig = Rig::new();
        rig.push = random.next_u64().is_multiple_of(2);
        let engines = 1 + usize::try_from(random.next_u64() % 3).unwrap_or(0);
        for _ in 0..engines {
            rig.start(config.clone());
        }
        for _ in 0..random.next_u64() % 4 {
            let at = usize::try_from(random.next_u64() % 400).unwrap_or(0);
            rig.crash(if random.next_u64().is_multiple_of(2) {
                Crash::Before(at)
            } else {
                Crash::After(at)
            });
        }
        let tasks = 3 + random.next_u64() % 10;
        let deadly_in = 3 + random.next_u64() % 5;
        let tasks = (0..tasks).map(|_| ExecutionId::new(HOME.index, id(&mut random))).collect();
        Self { rig, random, config, engines, dead_engines: 0, dead_workers: 0, deadly_in, tasks }
    }

    /// One flow; each task but the first waits for some of those before it.
    fn submit(&mut self) -> Result<(), String> {
        let members = self.tasks.iter().map(|task| member(task.clone())).collect();
        let mut edges = Vec::new();
        for to in 1..self.tasks.len() {
            for from in 0..to {
                if self.random.next_u64().is_multiple_of(3) {
                    edges.push(Edge {
                        edge_id: id(&mut self.random).into(),
                        upstream: self.tasks[from].clone(),
                        downstream: self.tasks[to].clone(),
                        data_passing_ref: String::new(),
                    });
                }
            }
        }
        let flow_id = id(&mut self.random).into();
        self.call(&SubmitFlow {
            partition: HOME,
            flow_id,
            flow_kind: "simulated".to_owned(),
            namespace: Namespace::new("sim"),
            members,
            edges,
            groups: Vec::new(),
            seal: true,
        })
        .map(drop)
    }

    /// Workers take what they can get; each completes it, fails it or dies.
    fn work(&mut self) -> Result<(), String> {
        while let Some(work) = self.claim()? {
            let running = Running {
                execution_id: work.execution_id.clone(),
                attempt_index: work.attempt_index,
                lane: lane(),
                worker_instance_id: WorkerInstanceId::new("w"),
            };
            let authority = Authority::Holder(work.fence);
            match self.random.next_u64() % self.deadly_in {
                0 => self.dead_workers += 1,
                1 => {
                    self.call(&FailExecution {
                        running,
                        authority,
                        failure_reason: "bad luck".to_owned(),
                        failure_category: "transient".to_owned(),
                        retry_policy_json: retry_policy(),
                    })?;
                }
                _ => {
                    self.call(&CompleteExecution { running, authority, result_payload: vec![] })?;
                }
            }
        }
        Ok(())
    }

    fn claim(&mut self) -> Result<Option<ClaimedWork>, String> {
        let call = ClaimNext {
            partition: HOME,
            lane: lane(),
            worker_id: WorkerId::new("w"),
            worker_instance_id: WorkerInstanceId::new("w"),
            capabilities: Capabilities::default(),
            lease_id: id(&mut self.random).into(),
            lease_ttl_ms: LEASE_MS,
            attempt_id: id(&mut self.random).into(),
            window: None,
            offset: 0,
            admitted: None,
        };
        Ok(match self.call(&call)? {
            ClaimNextReply::Claimed(work) => Some(work),
            ClaimNextReply::NeedsAdmission { .. }
            | ClaimNextReply::NoneClaimable { .. }
            | ClaimNextReply::Empty
            | ClaimNextReply::Lapsed(_) => None,
        })
    }

    /// Somebody restarts what died; the new engine knows nothing but the keyspace.
    fn replace_the_dead(&mut self) {
        while self.rig.living() < self.engines {
            self.dead_engines += 1;
            self.rig.start(self.config.clone());
        }
    }

    fn unfinished(&mut self) -> Vec<(String, String)> {
        let mut unfinished = Vec::new();
        for task in self.tasks.clone() {
            let key = Key::execution(&task).core().to_string();
            let state = match self.rig.host.call(&["HGET", &key, "public_state"]) {
                Value::Bulk(state) => String::from_utf8_lossy(&state).into_owned(),
                Value::Nil
                | Value::Int(_)
                | Value::Status(_)
                | Value::Error(_)
                | Value::Array(_) => "gone".to_owned(),
            };
            if state != "completed" {
                unfinished.push((task.to_string(), state));
            }
        }
        unfinished
    }

    fn outcome(mut self, began: u64) -> Outcome {
        let unfinished = self.unfinished();
        let mut bytes = self.rig.host.digest().to_vec();
        bytes.extend(self.rig.trace.join("\n").into_bytes());
        Outcome {
            tasks: self.tasks.len(),
            unfinished,
            dead_workers: self.dead_workers,
            dead_engines: self.dead_engines,
            elapsed_ms: self.rig.now_ms() - began,
            commands: self.rig.commands,
            fingerprint: selvedge_core::capability::fnv1a(&bytes),
        }
    }

    fn call<F: Function>(&mut self, call: &F) -> Result<F::Reply, String> {
        F::parse(self.rig.call(&call.command())).map_err(|error| format!("{}: {error}", F::NAME))
    }
}

fn member(execution_id: ExecutionId) -> NewMember {
    NewMember {
        execution_id,
        lane_id: lane(),
        execution_kind: "task".to_owned(),
        priority: 0,
        creator_identity: "sim".to_owned(),
        policy_json: POLICY.to_owned(),
        input_payload: Vec::new(),
        delay_until: None,
        tags_json: String::new(),
        execution_deadline_at: None,
    }
}

fn lane() -> LaneId {
    "default".parse().expect("`default` is printable ASCII")
}

/// The `retry_policy` member of [`POLICY`], as workers pass it on.
fn retry_policy() -> String {
    let start = POLICY.find(":{").map_or(0, |at| at + 1);
    POLICY[start..POLICY.len() - 1].to_owned()
}

fn id(random: &mut ChaCha8Rng) -> Uuid {
    let mut bytes = [0; 16];
    random.fill_bytes(&mut bytes);
    uuid::Builder::from_random_bytes(bytes).into_uuid()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_task_ends_whoever_dies() {
        let mut dead = (0, 0);
        for seed in 0..20 {
            let outcome = run(seed).unwrap();
            assert_eq!(outcome.unfinished, [], "seed {seed}");
            dead = (dead.0 + outcome.dead_workers, dead.1 + outcome.dead_engines);
        }
        assert!(dead.0 > 10 && dead.1 > 5, "the worlds are too kind: {dead:?}");
    }

    #[test]
    fn a_seed_always_deals_the_same_world() {
        assert_eq!(run(7).unwrap(), run(7).unwrap());
        assert_ne!(run(7).unwrap().fingerprint, run(8).unwrap().fingerprint);
    }
}
