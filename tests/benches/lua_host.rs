//! How fast the same function call runs in the process and on a server next door.
//!
//! One connection, no pipelining: what a caller without the host would have to wait for. Fails
//! when the host is less than twice as fast.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use selvedge_core::value::Value;
use selvedge_lua::host::{Host, HostConfig};
use selvedge_tests::server::Server;

/// How much faster the host has to be.
const RATIO_MIN: f64 = 2.0;

/// How long each side is measured.
const MEASURED: Duration = Duration::from_secs(3);

/// A function of the usual kind: reads, decides, writes a hash, moves a member between indexes.
const LIBRARY: &str = r#"#!lua name=bench
redis.register_function('move', function(keys, args)
  local now = redis.call('TIME')
  local state = redis.call('HMGET', keys[1], 'state', 'attempt')
  local attempt = tonumber(state[2] or '0') + 1
  local into = state[1] == 'waiting' and 'running' or 'waiting'
  redis.call('HSET', keys[1], 'state', into, 'attempt', tostring(attempt), 'at', now[1])
  redis.call('ZREM', keys[2], args[1])
  redis.call('ZADD', keys[3], attempt, args[1])
  return { 1, 'OK', into, tostring(attempt) }
end)
"#;

const CALL: [&str; 7] =
    ["FCALL", "move", "3", "{p:1}:record", "{p:1}:waiting", "{p:1}:running", "member"];

fn main() -> ExitCode {
    let mut host = Host::new(HostConfig::default());
    host.call(&["FUNCTION", "LOAD", LIBRARY]);
    let server = match Server::valkey() {
        Ok(server) => server,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::FAILURE;
        }
    };
    let mut connection = server.connect().expect("a server that was just started listens");
    connection.call(&["FUNCTION", "LOAD", LIBRARY]).expect("the server answers");

    let keys = &CALL[3..6];
    let arguments = &CALL[6..];
    let in_process = rate(|| host.fcall("move", keys, arguments));
    let as_command = rate(|| host.call(&CALL));
    let on_server = rate(|| connection.call(&CALL).expect("the server answers"));

    let ratio = in_process / on_server;
    println!("in process, typed call    {in_process:>10.0} calls/s");
    println!("in process, as a command  {as_command:>10.0} calls/s");
    println!("Valkey on loopback        {on_server:>10.0} calls/s");
    println!("ratio                     {ratio:>10.2} (at least {RATIO_MIN:.1})");
    if ratio < RATIO_MIN { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

/// Calls per second, after a short time to get warm.
#[expect(clippy::disallowed_methods, reason = "a benchmark measures time")]
fn rate(mut call: impl FnMut() -> Value) -> f64 {
    let mut run = |length: Duration| {
        let start = Instant::now();
        let mut calls = 0_u32;
        while start.elapsed() < length {
            for _ in 0..100 {
                let reply = call();
                assert!(matches!(&reply, Value::Array(items) if items.len() == 4), "{reply:?}");
                calls += 1;
            }
        }
        f64::from(calls) / start.elapsed().as_secs_f64()
    };
    run(MEASURED / 10);
    run(MEASURED)
}
