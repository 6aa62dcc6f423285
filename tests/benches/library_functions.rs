//! What each function of the library costs: calls per second and inner commands, in the process and
//! inside a loopback Valkey.
//!
//! The calls are those of the spec files that succeed, so every function is measured on the records
//! it was made for. The rate is that of the median call: neither a case with ten thousand tags nor
//! somebody else's turn on the core changes it. On Valkey the time is the server's own account of
//! each call, without the connection; so the two columns compare the same thing.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use selvedge_core::value::Value;
use selvedge_lua::library;
use selvedge_tests::connection::Message;
use selvedge_tests::server::Kind;
use selvedge_tests::spec::run_on;
use selvedge_tests::spec::store::{self, HostStore, ServerStore, SpecStore};
use selvedge_tests::spec::suite::Suite;

/// How often the whole suite is run on each store.
const ROUNDS: usize = 3;

fn main() -> Result<(), String> {
    let suite = Suite::read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("spec"))?;
    let on_host = measure(&suite, HostCost(HostStore::start()))?;
    let server = ServerStore::start(Kind::Valkey).map_err(|error| error.to_string())?;
    let on_valkey = measure(&suite, ServerCost(server))?;

    println!("{:<42} {:>6} {:>12} {:>12} {:>7} {:>5}", "", "", "host", "valkey", "inner", "");
    println!(
        "{:<42} {:>6} {:>12} {:>12} {:>7} {:>5}",
        "function", "calls", "calls/s", "calls/s", "mean", "max"
    );
    for (function, host) in &on_host {
        let valkey = on_valkey.get(function).map(Cost::rate);
        println!(
            "{function:<42} {:>6} {:>12.0} {:>12} {:>7.1} {:>5}",
            host.times.len(),
            host.rate(),
            valkey.map_or_else(|| "-".to_owned(), |rate| format!("{rate:.0}")),
            host.inner as f64 / host.times.len() as f64,
            host.inner_max,
        );
    }
    Ok(())
}

#[derive(Default)]
struct Cost {
    times: Vec<Duration>,
    inner: usize,
    inner_max: usize,
}

impl Cost {
    /// Calls like the median one in a second.
    fn rate(&self) -> f64 {
        let mut times = self.times.clone();
        times.sort_unstable();
        let median = times.get(times.len() / 2).copied().unwrap_or_default();
        1.0 / median.as_secs_f64().max(1e-6)
    }
}

/// What one call took, by whoever can tell.
trait Account: SpecStore {
    fn timed(&mut self, command: &[Vec<u8>]) -> io::Result<(Value, Duration, usize)>;
}

/// In the process, time is the process's.
struct HostCost(HostStore);

/// On a server, time is what the server counted.
struct ServerCost(ServerStore);

impl Account for HostCost {
    #[expect(clippy::disallowed_methods, reason = "a bench measures real time")]
    fn timed(&mut self, command: &[Vec<u8>]) -> io::Result<(Value, Duration, usize)> {
        let began = Instant::now();
        let reply = self.0.call(command)?;
        Ok((reply, began.elapsed(), self.0.host().last_inner_commands()))
    }
}

impl Account for ServerCost {
    fn timed(&mut self, command: &[Vec<u8>]) -> io::Result<(Value, Duration, usize)> {
        self.0.call(&words("CONFIG RESETSTAT"))?;
        let reply = self.0.call(command)?;
        let stats = self.0.call(&words("INFO commandstats"))?;
        Ok((reply, fcall_time(&stats), 0))
    }
}

fn words(command: &str) -> Vec<Vec<u8>> {
    command.split(' ').map(|word| word.as_bytes().to_vec()).collect()
}

/// The time of all `FCALL`s in `cmdstat_fcall:calls=1,usec=37,…`.
fn fcall_time(stats: &Value) -> Duration {
    let Value::Bulk(stats) = stats else { return Duration::ZERO };
    let usec = String::from_utf8_lossy(stats)
        .lines()
        .find_map(|line| {
            line.strip_prefix("cmdstat_fcall:")?
                .split("usec=")
                .nth(1)?
                .split(',')
                .next()?
                .parse()
                .ok()
        })
        .unwrap_or(0);
    Duration::from_micros(usec)
}

/// Runs the suite on an store that measures every function call that succeeds.
fn measure(suite: &Suite, account: impl Account) -> Result<BTreeMap<String, Cost>, String> {
    let mut measured = Measured { account, costs: BTreeMap::new() };
    store::load(&mut measured, library::SOURCE)?;
    for _ in 0..ROUNDS {
        let tally = run_on(suite, "", &mut measured);
        if tally.failed > 0 {
            return Err(format!(
                "{} of {} cases fail; see the spec suite",
                tally.failed, tally.cases
            ));
        }
    }
    Ok(measured.costs)
}

struct Measured<A> {
    account: A,
    costs: BTreeMap<String, Cost>,
}

impl<A: Account> SpecStore for Measured<A> {
    fn name(&self) -> String {
        self.account.name()
    }

    fn call(&mut self, command: &[Vec<u8>]) -> io::Result<Value> {
        let [verb, function, ..] = command else { return self.account.call(command) };
        if verb.as_slice() != b"FCALL" {
            return self.account.call(command);
        }
        let (reply, time, inner) = self.account.timed(command)?;
        let refused = match &reply {
            Value::Array(elements) => elements.first() == Some(&Value::Int(0)),
            Value::Error(_) => true,
            Value::Nil | Value::Int(_) | Value::Bulk(_) | Value::Status(_) => false,
        };
        if !refused {
            let function = String::from_utf8_lossy(function).into_owned();
            let cost = self.costs.entry(function).or_default();
            cost.times.push(time);
            cost.inner += inner;
            cost.inner_max = cost.inner_max.max(inner);
        }
        Ok(reply)
    }

    fn published(&mut self) -> io::Result<Vec<Message>> {
        self.account.published()
    }
}

macro_rules! as_arm {
    ($($account:ty),+) => {$(
        impl SpecStore for $account {
            fn name(&self) -> String {
                self.0.name()
            }

            fn call(&mut self, command: &[Vec<u8>]) -> io::Result<Value> {
                self.0.call(command)
            }

            fn published(&mut self) -> io::Result<Vec<Message>> {
                self.0.published()
            }
        }
    )+};
}

as_arm!(HostCost, ServerCost);
