//! `selvedge doctor`: check the settings of the servers.

use clap::{Args, ValueEnum};
use selvedge::inspect;
use selvedge_core::doctor::{Finding, Role, Severity, acl_rule};
use selvedge_lua::library;
use serde_json::json;

use super::context::Context;
use super::failure::{Exit, Failure};
use super::output::escape_control;

/// What to check.
#[derive(Args)]
pub(crate) struct Options {
    /// ACL user whose rights are checked. Default: the user of this connection.
    #[arg(long, value_name = "NAME")]
    user: Option<String>,
    /// Print the command that creates an ACL user with the rights of a role, and check nothing.
    #[arg(long, value_name = "ROLE")]
    print_acl: Option<RoleName>,
}

/// A role, on the command line.
#[derive(Clone, Copy, ValueEnum)]
enum RoleName {
    /// An engine: it also loads the function library.
    Engine,
    /// A worker.
    Worker,
    /// A client that submits, waits and signals.
    Client,
}

impl From<RoleName> for Role {
    fn from(name: RoleName) -> Self {
        match name {
            RoleName::Engine => Self::Engine,
            RoleName::Worker => Self::Worker,
            RoleName::Client => Self::Client,
        }
    }
}

/// Exit code 0 without warnings and errors, 5 with some.
pub(crate) async fn run(context: &Context, options: &Options) -> Result<(), Failure> {
    if let Some(role) = options.print_acl {
        let rule = acl_rule(role.into(), library::SOURCE);
        return Ok(context.output.message(&rule, json!({ "acl": rule }))?);
    }
    let store = context.store().await?;
    let configured = context.settings.partitions();
    let findings = inspect::examine(&store, configured, options.user.as_deref()).await;
    for finding in &findings {
        context.output.message(&sentence(finding), object(finding))?;
    }
    let count = |severity| findings.iter().filter(|finding| finding.severity == severity).count();
    let (errors, warnings) = (count(Severity::Error), count(Severity::Warning));
    let notes = count(Severity::Note);
    let counted = |count: usize, what: &str| match count {
        1 => format!("1 {what}"),
        _ => format!("{count} {what}s"),
    };
    let parts = [(errors, "error"), (warnings, "warning"), (notes, "note")];
    let summary = parts.map(|(count, what)| counted(count, what)).join(", ");
    let object = json!({ "errors": errors, "warnings": warnings, "notes": notes });
    context.output.message(&summary, object)?;
    if errors + warnings == 0 {
        return Ok(());
    }
    Err(Failure::new(Exit::Partial, "the servers need attention")
        .hint("each finding above names the command that changes it"))
}

fn sentence(finding: &Finding) -> String {
    let Finding { severity, check, server, what, why, command, .. } = finding;
    let server = server.as_ref().map(|server| format!("{server}: ")).unwrap_or_default();
    let mut text = format!("{:<8}{server}{check}: {}", severity.as_str(), escape_control(what));
    for (label, line) in [("why: ", why), ("run: ", command)] {
        if !line.is_empty() {
            text.push_str(&format!("\n          {label}{}", escape_control(line)));
        }
    }
    text
}

fn object(finding: &Finding) -> serde_json::Value {
    json!({
        "severity": finding.severity.as_str(),
        "check": finding.check,
        "server": finding.server,
        "what": finding.what,
        "why": finding.why,
        "command": finding.command,
    })
}
