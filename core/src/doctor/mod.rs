//! What the settings of the servers mean for durable work, as pure checks over facts that were
//! read.
//!
//! Each check compares [`Facts`] with what the engine needs and returns [`Finding`]s. A finding
//! says what was read, why it matters, and which command changes it. Reading the facts is the
//! caller's business; what could not be read is a finding too.

mod access;
mod cluster;
mod facts;
mod servers;
#[cfg(test)]
mod tests;

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

pub use access::{Access, Probe, Role, acl_rule, excess_probes, needed_probes};
pub use cluster::{ClusterFacts, ClusterNode};
pub use facts::{ClockReading, Facts, InstalledLibrary, ServerFacts, read_info, read_settings};

wire_enum! {
    /// How much a finding matters.
    #[non_exhaustive]
    pub enum Severity {
        /// As it should be.
        Ok = "ok",
        /// Worth knowing; nothing is at risk.
        Note = "note",
        /// Work can be delayed, or lost in a failure that servers normally survive.
        Warning = "warning",
        /// Accepted work can be lost in normal operation, or the engine cannot work.
        Error = "error",
    }
}

/// One result of a check.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Finding {
    /// How much it matters.
    pub severity: Severity,
    /// Which check, in two or three words.
    pub check: &'static str,
    /// Which server; none for what concerns all of them.
    pub server: Option<String>,
    /// What was read.
    pub what: String,
    /// Why it matters; empty when all is well.
    pub why: String,
    /// The shell command that changes it, or shows more; empty where there is none.
    pub command: String,
}

impl Finding {
    fn new(severity: Severity, check: &'static str, what: impl Into<String>) -> Self {
        let (why, command) = (String::new(), String::new());
        Self { severity, check, server: None, what: what.into(), why, command }
    }

    fn ok(check: &'static str, what: impl Into<String>) -> Self {
        Self::new(Severity::Ok, check, what)
    }

    fn note(check: &'static str, what: impl Into<String>) -> Self {
        Self::new(Severity::Note, check, what)
    }

    fn warning(check: &'static str, what: impl Into<String>) -> Self {
        Self::new(Severity::Warning, check, what)
    }

    fn error(check: &'static str, what: impl Into<String>) -> Self {
        Self::new(Severity::Error, check, what)
    }

    fn because(mut self, why: impl Into<String>) -> Self {
        self.why = why.into();
        self
    }

    /// Names a command of the shell.
    fn run(mut self, command: impl Into<String>) -> Self {
        self.command = command.into();
        self
    }

    /// Names a command of this server.
    fn run_on(self, address: &str, words: &[&str]) -> Self {
        self.run(server_command(address, words))
    }

    /// Names the commands that change a setting of this server and keep it over a restart.
    fn set(self, server: &ServerFacts, setting: &str, value: &str) -> Self {
        let set = server_command(&server.address, &["CONFIG", "SET", setting, value]);
        let rewrite = server_command(&server.address, &["CONFIG", "REWRITE"]);
        match server.has_configuration_file() {
            true => self.run(format!("{set} && {rewrite}")),
            false => self.run(set),
        }
    }

    fn on(mut self, server: &str) -> Self {
        self.server = Some(server.into());
        self
    }
}

/// The shell command that sends a command to a server.
fn server_command(address: &str, words: &[&str]) -> String {
    let (host, port) = address.rsplit_once(':').unwrap_or((address, "6379"));
    let mut command = format!("valkey-cli -h {host} -p {port}");
    for word in words {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:=+@,/".contains(&byte);
        let quote = if word.bytes().all(plain) && !word.is_empty() { "" } else { "'" };
        command.push_str(&format!(" {quote}{}{quote}", word.replace('\'', r"'\''")));
    }
    command
}

/// Runs every check. The findings are ordered: the worst first, then by server.
#[must_use]
pub fn examine(facts: &Facts) -> Vec<Finding> {
    let mut findings = Vec::new();
    for server in &facts.servers {
        let of_server = match &server.silent {
            Some(why) => Vec::from([servers::silent(why)]),
            None => [servers::check(server), access::check(server)].concat(),
        };
        findings.extend(of_server.into_iter().map(|finding| finding.on(&server.address)));
    }
    findings.extend(servers::check_libraries(facts));
    findings.extend(servers::check_clocks(facts));
    findings.push(servers::check_partitions(facts));
    if let Some(cluster) = &facts.cluster {
        findings.extend(cluster::check(cluster, facts));
    }
    findings.sort_by_key(|finding| core::cmp::Reverse(finding.severity));
    findings
}
