//! Prints what an engine with nothing to do costs a Valkey server, by how much the server keeps.
//!
//! `cargo run -p selvedge-tests --bin growth -- [--warm SECONDS] [--for SECONDS] [--no-trimmer]
//! [ROW…]`

use std::collections::BTreeMap;
use std::env;
use std::process::ExitCode;
use std::time::Duration;

use selvedge::engine::Engine;
use selvedge::secret::SecretSource;
use selvedge::store::{Store, StoreOptions, StoreUrl};
use selvedge_core::engine::{EngineConfig, ScannerName};
use selvedge_core::id::LaneId;
use selvedge_core::value::Value;
use selvedge_tests::command_line::exit_code;
use selvedge_tests::connection::Connection;
use selvedge_tests::print_line;
use selvedge_tests::server::Server;

fn main() -> ExitCode {
    exit_code(run().map(|()| true))
}

/// One line of the table.
#[derive(Clone, Copy)]
struct Row {
    waiting: usize,
    ended: usize,
    lanes: usize,
}

/// What the server did in a while.
struct Spent {
    /// Commands by name, those inside of functions included.
    commands: BTreeMap<String, u64>,
    cpu_us: u64,
}

struct Options {
    warm: Duration,
    measured: Duration,
    /// Whether the retention trimmer runs as usual: it visits ended executions.
    trims: bool,
    rows: Vec<Row>,
}

fn run() -> Result<(), String> {
    let options = read_options(env::args().skip(1))?;
    let runtime = tokio::runtime::Runtime::new().map_err(text)?;
    print_line!("waiting    ended      lanes  calls/s  commands/s  server time  most frequent");
    for row in options.rows.iter().copied() {
        let spent = runtime.block_on(measure(row, &options))?;
        print_row(row, &spent, options.measured);
    }
    Ok(())
}

fn read_options(mut words: impl Iterator<Item = String>) -> Result<Options, String> {
    let (mut warm, mut measured, mut trims, mut rows) = (WARM, MEASURED, true, Vec::new());
    while let Some(word) = words.next() {
        let mut seconds = || {
            let number = words.next().and_then(|word| word.parse().ok()).ok_or(USAGE);
            number.map(Duration::from_secs)
        };
        match word.as_str() {
            "--warm" => warm = seconds()?,
            "--for" => measured = seconds()?,
            "--no-trimmer" => trims = false,
            row => {
                let numbers: Result<Vec<usize>, _> = row.split(',').map(str::parse).collect();
                let &[waiting, ended, lanes] = numbers.map_err(|_| USAGE)?.as_slice() else {
                    return Err(USAGE.to_owned());
                };
                rows.push(Row { waiting, ended, lanes: lanes.max(1) });
            }
        }
    }
    if rows.is_empty() {
        rows = ROWS.to_vec();
    }
    Ok(Options { warm, measured, trims, rows })
}

async fn measure(row: Row, options: &Options) -> Result<Spent, String> {
    let server = Server::valkey().map_err(text)?;
    let mut connection = server.connect().map_err(text)?;
    let url: StoreUrl = format!("valkey://127.0.0.1:{}", server.port()).parse().map_err(text)?;
    let store = Store::open(&url, StoreOptions::default()).await.map_err(text)?;
    let lanes: Vec<LaneId> = (0..row.lanes).filter_map(|n| lane(n).parse().ok()).collect();
    let mut config = EngineConfig::default().with_lanes(lanes);
    if !options.trims {
        config.intervals.insert(ScannerName::RetentionTrimmer, Duration::from_secs(3_600));
    }
    fill(&mut connection, row, usize::from(config.partitions.flow.get()))?;
    let engine = Engine::builder(store)
        .config(config)
        .secrets(SecretSource::Generate)
        .start()
        .await
        .map_err(text)?;
    tokio::time::sleep(options.warm).await;
    let before = spent(&mut connection)?;
    tokio::time::sleep(options.measured).await;
    let after = spent(&mut connection)?;
    engine.shutdown(Duration::from_secs(10)).await.map_err(text)?;
    let commands = after.commands.into_iter().filter_map(|(name, count)| {
        let more = count - before.commands.get(&name).copied().unwrap_or(0);
        (more > 0 && name != "info").then_some((name, more))
    });
    Ok(Spent { commands: commands.collect(), cpu_us: after.cpu_us - before.cpu_us })
}

/// Writes executions as they are when they wait for a worker, and when they have ended.
fn fill(connection: &mut Connection, row: Row, partitions: usize) -> Result<(), String> {
    for partition in 0..partitions {
        let share = |count: usize| count / partitions + usize::from(partition < count % partitions);
        let tag = format!("{{fp:{partition}}}");
        for (count, ended) in [(share(row.waiting), "0"), (share(row.ended), "1")] {
            let (count, lanes) = (count.to_string(), row.lanes.to_string());
            let key = format!("ff:idx:{tag}:all_executions");
            let words = ["EVAL", FILL, "1", &key, &tag, &count, ended, &lanes];
            let reply = connection.call(&words).map_err(text)?;
            if let Value::Error(error) = reply {
                return Err(error);
            }
        }
    }
    Ok(())
}

fn lane(n: usize) -> String {
    if n == 0 { "default".to_owned() } else { format!("lane-{n}") }
}

fn spent(connection: &mut Connection) -> Result<Spent, String> {
    let mut info = |section: &str| match connection.call(&["INFO", section]) {
        Ok(Value::Bulk(told)) => Ok(String::from_utf8_lossy(&told).into_owned()),
        other => Err(format!("INFO {section}: {other:?}")),
    };
    let mut commands = BTreeMap::new();
    for line in info("commandstats")?.lines() {
        let Some((name, rest)) = line.split_once(":calls=") else { continue };
        let calls = rest.split(',').next().and_then(|calls| calls.parse().ok()).unwrap_or(0);
        commands.insert(name.trim_start_matches("cmdstat_").to_owned(), calls);
    }
    let mut cpu_us = 0;
    for line in info("cpu")?.lines() {
        if let Some(seconds) =
            line.strip_prefix("used_cpu_sys:").or_else(|| line.strip_prefix("used_cpu_user:"))
        {
            let (whole, part) = seconds.trim().split_once('.').unwrap_or((seconds, "0"));
            let number = |digits: &str| digits.parse::<u64>().unwrap_or(0);
            cpu_us += number(whole) * 1_000_000 + number(&format!("{part:0<6}"));
        }
    }
    Ok(Spent { commands, cpu_us })
}

fn print_row(row: Row, spent: &Spent, measured: Duration) {
    let tenths = |count: u64| {
        let tenths = count * 10 / measured.as_secs().max(1);
        format!("{}.{}", tenths / 10, tenths % 10)
    };
    let inside = |name: &str| INSIDE.contains(&name);
    let calls: u64 =
        spent.commands.iter().filter(|(name, _)| !inside(name)).map(|(_, count)| count).sum();
    let mut frequent: Vec<(&String, &u64)> = spent.commands.iter().collect();
    frequent.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
    let frequent: Vec<String> = frequent
        .iter()
        .take(5)
        .map(|(name, count)| format!("{name} {}", tenths(**count)))
        .collect();
    let thousandths = spent.cpu_us / 10 / measured.as_secs().max(1);
    let time = format!("{}.{:03} %", thousandths / 1_000, thousandths % 1_000);
    let Row { waiting, ended, lanes } = row;
    print_line!(
        "{waiting:<10} {ended:<10} {lanes:<6} {:<8} {:<11} {time:<12} {}",
        tenths(calls),
        tenths(spent.commands.values().sum()),
        frequent.join(", ")
    );
}

fn text(error: impl ToString) -> String {
    error.to_string()
}

/// ARGV: the partition's tag, how many executions, whether they have ended, how many lanes.
const FILL: &str = r#"
local tag, count, ended, lanes = ARGV[1], tonumber(ARGV[2]), ARGV[3] == "1", tonumber(ARGV[4])
local time = redis.call("TIME")
local now = time[1] .. "000"
for i = 1, count do
  local id = string.format("%s:%08d-0000-4000-8000-%012d", tag, ended and 1 or 0, i)
  local n = (i - 1) % lanes
  local lane = n == 0 and "default" or "lane-" .. n
  local index = "ff:idx:" .. tag .. ":lane:" .. lane .. (ended and ":terminal" or ":eligible")
  local core = "ff:exec:" .. tag .. ":" .. id .. ":core"
  redis.call("HSET", core, "execution_id", id, "lane_id", lane, "namespace", "growth",
    "execution_kind", "work", "created_at", now, "priority", "0", "last_transition_at", now)
  if ended then
    redis.call("HSET", core, "lifecycle_phase", "terminal", "ownership_state", "unowned",
      "eligibility_state", "not_applicable", "terminal_outcome", "success",
      "attempt_state", "attempt_terminal", "public_state", "completed", "completed_at", now)
  else
    redis.call("HSET", core, "lifecycle_phase", "runnable", "ownership_state", "unowned",
      "eligibility_state", "eligible_now", "blocking_reason", "waiting_for_worker",
      "terminal_outcome", "none", "attempt_state", "pending_first_attempt",
      "public_state", "waiting")
  end
  redis.call("ZADD", index, now, id)
  redis.call("SADD", KEYS[1], id)
end
"#;

/// Commands that only functions use here: all others are calls over the network.
const INSIDE: [&str; 9] =
    ["exists", "time", "zcard", "scard", "zrangebyscore", "zrange", "hmget", "zmscore", "sscan"];
const WARM: Duration = Duration::from_secs(90);
const MEASURED: Duration = Duration::from_secs(60);
const ROWS: [Row; 4] = [
    Row { waiting: 0, ended: 0, lanes: 1 },
    Row { waiting: 0, ended: 0, lanes: 40 },
    Row { waiting: 10_000, ended: 100_000, lanes: 1 },
    Row { waiting: 10_000, ended: 100_000, lanes: 40 },
];
const USAGE: &str = "growth [--warm SECONDS] [--for SECONDS] [--no-trimmer] [WAITING,ENDED,LANES …]
Prints what an engine with nothing to do costs a Valkey server that keeps so many executions.";
