//! What a server has done so far, as it counts it.

use selvedge_core::value::Value;
use selvedge_tests::server::Server;

use super::Fault;

pub(super) struct ServerStats {
    /// Functions and scripts that clients called.
    pub(super) calls: f64,
    /// All commands, with those inside of functions and scripts.
    pub(super) commands: f64,
    /// Seconds.
    pub(super) cpu: f64,
}

impl ServerStats {
    pub(super) fn read(server: &Server) -> Result<Self, Fault> {
        let mut stats = Self { calls: 0.0, commands: 0.0, cpu: 0.0 };
        for line in info(server, "commandstats")?.lines() {
            let Some((name, rest)) = line.split_once(":calls=") else { continue };
            let count: f64 = rest.split(',').next().unwrap_or_default().parse()?;
            stats.commands += count;
            if ["fcall", "fcall_ro", "eval", "evalsha"]
                .iter()
                .any(|call| name.strip_prefix("cmdstat_") == Some(call))
            {
                stats.calls += count;
            }
        }
        for line in info(server, "cpu")?.lines() {
            if let Some((name, seconds)) = line.split_once(':')
                && ["used_cpu_sys", "used_cpu_user"].contains(&name)
            {
                stats.cpu += seconds.trim().parse::<f64>()?;
            }
        }
        Ok(stats)
    }

    pub(super) fn since(&self, before: &Self) -> Self {
        Self {
            calls: self.calls - before.calls,
            commands: self.commands - before.commands,
            cpu: self.cpu - before.cpu,
        }
    }
}

fn info(server: &Server, section: &str) -> Result<String, Fault> {
    let reply = server.connect()?.call(&["INFO", section])?;
    let Value::Bulk(text) = reply else { return Err(format!("INFO: {reply:?}").into()) };
    Ok(String::from_utf8(text)?)
}
