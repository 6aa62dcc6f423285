//! The changes of data that one execution makes, as raw commands: recorded once from the library in
//! the process, then sent to the server with other ids, one pipeline per call.

use std::time::Duration;

use selvedge_core::call::Function;
use selvedge_core::call::execution::{Authority, CompleteExecution, CreateExecution, Running};
use selvedge_core::call::scheduling::{ClaimNext, ClaimNextReply};
use selvedge_core::capability::Capabilities;
use selvedge_core::id::{ExecutionId, LaneId, Namespace, WorkerId, WorkerInstanceId};
use selvedge_core::value::Value;
use selvedge_core::work_filter::WorkFilter;
use selvedge_lua::host::{Host, HostConfig};
use selvedge_lua::library;
use selvedge_tests::server::Server;
use tokio::time::Instant;
use uuid::Uuid;

use super::Fault;

/// Commands of one call, as they were recorded.
type Changes = Vec<Vec<Vec<u8>>>;

/// How long so many executions take when a client sends the same changes itself.
pub(super) async fn same_changes(
    server: &Server,
    executions: usize,
    side_by_side: usize,
) -> Result<Duration, Fault> {
    let (recorded, name) = record()?;
    let client = redis::Client::open(format!("redis://127.0.0.1:{}", server.port()))?;
    let connection = client.get_multiplexed_async_connection().await?;
    let began = Instant::now();
    let senders: Vec<_> = (0..side_by_side)
        .map(|nth| {
            let (mut connection, recorded, name) =
                (connection.clone(), recorded.clone(), name.clone());
            tokio::spawn(async move {
                for _ in (nth..executions).step_by(side_by_side) {
                    let fresh = Uuid::new_v4().to_string();
                    for call in &recorded {
                        let pipe = pipeline(call, &name, &fresh);
                        let () = pipe.query_async(&mut connection).await?;
                    }
                }
                Ok::<_, redis::RedisError>(())
            })
        })
        .collect();
    for sender in senders {
        sender.await??;
    }
    Ok(began.elapsed())
}

fn pipeline(call: &Changes, name: &str, fresh: &str) -> redis::Pipeline {
    let mut pipe = redis::pipe();
    for argv in call {
        let mut words = argv.iter().map(|word| rename(word, name, fresh));
        let Some(verb) = words.next() else { continue };
        let mut command = redis::cmd(&String::from_utf8_lossy(&verb));
        for word in words {
            command.arg(word);
        }
        pipe.add_command(command).ignore();
    }
    pipe
}

/// Puts another execution's id in the place of the recorded one.
fn rename(word: &[u8], name: &str, fresh: &str) -> Vec<u8> {
    match std::str::from_utf8(word) {
        Ok(text) => text.replace(name, fresh).into_bytes(),
        Err(_) => word.to_vec(),
    }
}

/// Records what creating, claiming and completing write, reads left out.
fn record() -> Result<(Vec<Changes>, String), Fault> {
    let mut host = Host::new(HostConfig::default());
    host.set_now_us(1_700_000_000_000_000);
    host.log_inner_commands(true);
    host.call(&["FUNCTION", "LOAD", library::SOURCE]);
    let uuid = Uuid::new_v4();
    let id = ExecutionId::new(0, uuid);
    let lane: LaneId = "raw".parse()?;
    let instance = WorkerInstanceId::new("raw-1");
    let create = CreateExecution {
        execution_id: id.clone(),
        namespace: Namespace::new("default"),
        lane_id: lane.clone(),
        execution_kind: "noop".to_owned(),
        priority: 0,
        creator_identity: "bench".to_owned(),
        policy_json: String::new(),
        input_payload: b"input".to_vec(),
        delay_until: None,
        idempotency: None,
        tags_json: String::new(),
        execution_deadline_at: None,
    };
    let claim = ClaimNext {
        partition: id.partition(),
        lane: lane.clone(),
        worker_id: WorkerId::new("raw"),
        worker_instance_id: instance.clone(),
        capabilities: Capabilities::default(),
        lease_id: Uuid::new_v4().into(),
        lease_ttl_ms: 30_000,
        attempt_id: Uuid::new_v4().into(),
        window: None,
        after: None,
        admitted: None,
        filter: WorkFilter::all(),
    };
    let mut calls = vec![changes(&mut host, &create)?.0];
    let (claimed, reply) = changes(&mut host, &claim)?;
    calls.push(claimed);
    let ClaimNextReply::Claimed(work) = ClaimNext::parse(reply)? else {
        return Err("nothing was claimed".into());
    };
    let complete = CompleteExecution {
        running: Running {
            execution_id: id,
            attempt_index: work.attempt_index,
            lane,
            worker_instance_id: instance,
        },
        authority: Authority::Holder(work.fence),
        result_payload: b"done".to_vec(),
    };
    calls.push(changes(&mut host, &complete)?.0);
    Ok((calls, uuid.to_string()))
}

fn changes<F: Function>(host: &mut Host, call: &F) -> Result<(Changes, Value), Fault> {
    let reply = host.call(&call.command());
    F::parse(reply.clone())?;
    let log = host.last_inner_log().into_iter().map(|inner| inner.argv);
    Ok((log.filter(|argv| writes(argv)).collect(), reply))
}

/// Whether the command changes data. Messages count as well: they are part of the work.
fn writes(argv: &[Vec<u8>]) -> bool {
    let verb = argv.first().map(|verb| verb.to_ascii_uppercase()).unwrap_or_default();
    const WRITES: [&[u8]; 13] = [
        b"SET", b"HSET", b"DEL", b"ZADD", b"ZREM", b"SADD", b"SREM", b"XADD", b"HINCRBY",
        b"PEXPIRE", b"PUBLISH", b"HDEL", b"PERSIST",
    ];
    WRITES.contains(&verb.as_slice())
}
