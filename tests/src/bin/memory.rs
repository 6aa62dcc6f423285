//! Prints how much memory of a Valkey server an execution takes, waiting and ended.
//!
//! `cargo run -p selvedge-tests --bin memory -- [--executions N]`

use std::collections::BTreeMap;
use std::env;
use std::process::ExitCode;

use selvedge_core::call::Function;
use selvedge_core::call::execution::{Authority, CompleteExecution, CreateExecution, Running};
use selvedge_core::call::scheduling::{
    ClaimMany, ClaimManyReply, ClaimTerms, EndAndClaim, IssueGrantAndClaim, NewLease, NewLeases,
    RunEnd,
};
use selvedge_core::capability::Capabilities;
use selvedge_core::id::{
    AttemptIndex, ExecutionId, Fence, LaneId, Namespace, WorkerId, WorkerInstanceId,
};
use selvedge_core::partition::Partition;
use selvedge_core::value::Value;
use selvedge_core::work_filter::WorkFilter;
use selvedge_tests::command_line::exit_code;
use selvedge_tests::connection::Connection;
use selvedge_tests::print_line;
use selvedge_tests::server::Server;
use uuid::Uuid;

fn main() -> ExitCode {
    exit_code(run().map(|()| true))
}

fn run() -> Result<(), String> {
    let words: Vec<String> = env::args().skip(1).collect();
    let count = match words.as_slice() {
        [] => EXECUTIONS,
        [flag, count] if flag == "--executions" => count.parse().map_err(|_| USAGE)?,
        _ => return Err(USAGE.to_owned()),
    };
    for path in [Path::Contract, Path::Own] {
        let server = Server::valkey().map_err(|error| error.to_string())?;
        let mut store = Store { connection: server.connect().map_err(text)?, next: 0 };
        store.load()?;
        let ids: Vec<ExecutionId> = (0..count).map(|_| store.create()).collect::<Result<_, _>>()?;
        store.report(path, "waiting", count)?;
        match path {
            Path::Contract => ids.iter().try_for_each(|id| store.claim_and_complete(id))?,
            Path::Own => store.run_all(count)?,
        }
        store.report(path, "ended", count)?;
    }
    Ok(())
}

/// Which calls are used.
#[derive(Clone, Copy)]
enum Path {
    /// Those of the contract.
    Contract,
    /// Those of our worker.
    Own,
}

struct Store {
    connection: Connection,
    next: u128,
}

impl Store {
    fn load(&mut self) -> Result<(), String> {
        let source = selvedge_lua::library::SOURCE;
        let reply = self.connection.call(&["FUNCTION", "LOAD", source]).map_err(text)?;
        if matches!(reply, Value::Error(_)) { Err(format!("{reply:?}")) } else { Ok(()) }
    }

    fn call<F: Function>(&mut self, call: &F) -> Result<F::Reply, String> {
        let reply = self.connection.call(&call.command()).map_err(text)?;
        F::parse(reply).map_err(|error| format!("{}: {error}", F::NAME))
    }

    fn fresh(&mut self) -> Uuid {
        self.next += 1;
        // Spread over all bits, as random ones are.
        Uuid::from_u128(self.next.wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835))
    }

    fn create(&mut self) -> Result<ExecutionId, String> {
        let id = ExecutionId::new(3, self.fresh());
        self.call(&CreateExecution {
            execution_id: id.clone(),
            namespace: Namespace::new("memory"),
            lane_id: LaneId::default_lane(),
            execution_kind: "work".into(),
            priority: 0,
            creator_identity: "memory".into(),
            policy_json: String::new(),
            input_payload: b"0123456789".to_vec(),
            delay_until: None,
            idempotency: None,
            tags_json: String::new(),
            execution_deadline_at: None,
        })?;
        Ok(id)
    }

    fn claim_and_complete(&mut self, id: &ExecutionId) -> Result<(), String> {
        let (lease_id, attempt_id) = (self.fresh().into(), self.fresh().into());
        let claim = self.call(&IssueGrantAndClaim {
            execution_id: id.clone(),
            worker_id: WorkerId::new(WORKER),
            worker_instance_id: WorkerInstanceId::new(WORKER),
            lane: LaneId::default_lane(),
            lease_id,
            lease_ttl_ms: LEASE_TTL_MS,
            attempt_id,
            attempt_policy_json: String::new(),
            attempt_timeout_ms: None,
            execution_deadline_at: None,
        })?;
        let fence = Fence { lease_id, lease_epoch: claim.lease_epoch, attempt_id };
        self.call(&CompleteExecution {
            running: Running {
                execution_id: id.clone(),
                attempt_index: AttemptIndex(0),
                lane: LaneId::default_lane(),
                worker_instance_id: WorkerInstanceId::new(WORKER),
            },
            authority: Authority::Holder(fence),
            result_payload: b"0123456789".to_vec(),
        })
    }

    /// Runs all executions as a worker does: each end claims the next.
    fn run_all(&mut self, count: usize) -> Result<(), String> {
        let leases = self.lease();
        let first = ClaimMany { partition: PARTITION, terms: terms(), admitted: None, leases };
        let mut claims = self.call(&first)?;
        for _ in 0..count {
            let ClaimManyReply::Claimed { works, .. } = claims else {
                return Err("none claimed".into());
            };
            let Some(work) = works.into_iter().next() else { return Err("none claimed".into()) };
            let leases = self.lease();
            let end = EndAndClaim {
                execution_id: work.execution_id,
                fence: work.fence,
                end: RunEnd::Complete { result_payload: b"0123456789".to_vec() },
                terms: terms(),
                leases,
            };
            claims = self.call(&end)?.claims;
        }
        Ok(())
    }

    fn lease(&mut self) -> NewLeases {
        NewLeases::one(NewLease { lease_id: self.fresh().into(), attempt_id: self.fresh().into() })
    }

    /// Prints the memory of all keys by their kind, per execution.
    fn report(&mut self, path: Path, state: &str, count: usize) -> Result<(), String> {
        let (mut by_kind, mut cursor) = (BTreeMap::<String, i64>::new(), "0".to_owned());
        loop {
            let reply = self.connection.call(&["SCAN", &cursor, "COUNT", "1000"]).map_err(text)?;
            let Value::Array(page) = reply else { return Err("no page of keys".into()) };
            let [Value::Bulk(next), Value::Array(keys)] = page.as_slice() else {
                return Err("no page of keys".into());
            };
            for key in keys {
                let Value::Bulk(key) = key else { continue };
                let command: [&[u8]; 5] = [b"MEMORY", b"USAGE", key, b"SAMPLES", b"0"];
                if let Value::Int(bytes) = self.connection.call(&command).map_err(text)? {
                    *by_kind.entry(kind_of(&String::from_utf8_lossy(key))).or_default() += bytes;
                }
            }
            cursor = String::from_utf8_lossy(next).into_owned();
            if cursor == "0" {
                break;
            }
        }
        let per = |bytes: i64| bytes / i64::try_from(count).unwrap_or(i64::MAX).max(1);
        let whose = match path {
            Path::Contract => "calls of the contract",
            Path::Own => "calls of our worker",
        };
        print_line!("{whose}, {state}: {} bytes each", per(by_kind.values().sum()));
        for (kind, bytes) in by_kind.iter().filter(|(_, bytes)| per(**bytes) > 0) {
            print_line!("  {:>6}  {kind}", per(*bytes));
        }
        Ok(())
    }
}

fn terms() -> ClaimTerms {
    ClaimTerms {
        lane: LaneId::default_lane(),
        worker_id: WorkerId::new(WORKER),
        worker_instance_id: WorkerInstanceId::new(WORKER),
        capabilities: Capabilities::default(),
        lease_ttl_ms: LEASE_TTL_MS,
        window: None,
        after: None,
        filter: WorkFilter::all(),
    }
}

/// A key without the ids in it.
fn kind_of(key: &str) -> String {
    let is_id = |part: &str| part.parse::<Uuid>().is_ok() || part.contains(['{', '}']);
    let parts = key.replace("{fp:3}", "{}");
    let named: Vec<&str> = parts.split(':').filter(|part| !is_id(part)).collect();
    named.join(":")
}

fn text(error: std::io::Error) -> String {
    error.to_string()
}

const EXECUTIONS: usize = 1_000;
const LEASE_TTL_MS: u64 = 600_000;
const WORKER: &str = "worker-1";
const PARTITION: Partition = Partition::flow(3);
const USAGE: &str = "memory [--executions N]
Prints what MEMORY USAGE says about all keys of N executions, waiting and ended, per execution.";
