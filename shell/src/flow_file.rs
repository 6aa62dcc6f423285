//! Flows as files: what `selvedge flow submit` reads, in TOML or JSON.
//!
//! ```
//! use selvedge::flow_file::{Format, read};
//!
//! let flow = read(
//!     r#"
//!     kind = "report"
//!
//!     [[tasks]]
//!     name = "fetch"
//!     kind = "http.get"
//!     payload = "https://example.org"
//!     retries = { max = 3, pause = "2s" }
//!
//!     [[tasks]]
//!     name = "render"
//!     kind = "pdf"
//!     after = ["fetch"]
//!     attempt_timeout = "1m"
//!     "#,
//!     Format::Toml,
//! )?;
//! assert_eq!(flow.names().collect::<Vec<_>>(), ["fetch", "render"]);
//! # Ok::<(), selvedge::flow_file::InvalidFlowFile>(())
//! ```
//!
//! A task is joined to others by `after`: a list means all of them, `{ any = [...] }` one of them,
//! `{ quorum = 2, of = [...] }` so many. `rest = "cancel"` (the default) cancels the others once a
//! join is satisfied, `rest = "let_run"` lets them run.

mod payload;

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use selvedge_core::id::{BudgetId, QuotaPolicyId};
use selvedge_core::object::Object;
use serde::{Deserialize, Deserializer};
use thiserror::Error;

use crate::client::{Flow, InvalidFlow, OnSatisfied, Task};
use payload::Payload;

/// Largest file that is read.
pub const FILE_BYTES_MAX: usize = 64 * 1024 * 1024;

/// How a file is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// TOML.
    Toml,
    /// JSON.
    Json,
}

impl Format {
    /// The format of a file: by its extension, else by its first character.
    #[must_use]
    pub fn of(path: &Path, text: &str) -> Self {
        let extension = path.extension().and_then(|extension| extension.to_str());
        match extension {
            Some(extension) if extension.eq_ignore_ascii_case("json") => Self::Json,
            Some(extension) if extension.eq_ignore_ascii_case("toml") => Self::Toml,
            _ if without_mark(text).trim_start().starts_with('{') => Self::Json,
            _ => Self::Toml,
        }
    }
}

/// A file that describes no flow.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum InvalidFlowFile {
    /// It is too large.
    #[error("the file has {0} bytes; at most {FILE_BYTES_MAX} are read")]
    TooLarge(usize),
    /// It is no TOML, or not of this form; the message says where.
    #[error("{0}")]
    Toml(String),
    /// It is no JSON, or not of this form; the message says where.
    #[error("{0}")]
    Json(String),
    /// A task has several payloads.
    #[error("task `{task}` has several payloads; give one of payload and payload_json")]
    Payloads {
        /// The task.
        task: String,
    },
    /// The flow makes no sense.
    #[error("{0}")]
    Flow(#[from] InvalidFlow),
}

/// Reads a flow, and checks it as a whole.
///
/// # Errors
/// The first thing that is wrong, with its place in the file where that is known.
pub fn read(text: &str, format: Format) -> Result<Flow, InvalidFlowFile> {
    if text.len() > FILE_BYTES_MAX {
        return Err(InvalidFlowFile::TooLarge(text.len()));
    }
    // Some editors begin a file with the mark of its encoding, which neither format knows.
    let text = without_mark(text);
    let Object(file): Object<FlowFile> = match format {
        Format::Toml => {
            let told = |error: toml::de::Error| error.to_string().trim_end().to_owned();
            toml::from_str(text).map_err(|error| InvalidFlowFile::Toml(told(error)))?
        }
        Format::Json => {
            serde_json::from_str(text).map_err(|error| InvalidFlowFile::Json(error.to_string()))?
        }
    };
    let flow = file.into_flow()?;
    flow.check()?;
    Ok(flow)
}

fn without_mark(text: &str) -> &str {
    text.strip_prefix('\u{feff}').unwrap_or(text)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "a flow: an object with kind and tasks")]
struct FlowFile {
    kind: String,
    idempotency_key: Option<String>,
    #[serde(default)]
    tags: BTreeMap<String, String>,
    tasks: Vec<Object<TaskEntry>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "a task: an object with name and kind")]
struct TaskEntry {
    name: String,
    kind: String,
    lane: Option<String>,
    payload: Option<String>,
    #[serde(default, deserialize_with = "payload::given")]
    payload_json: Option<Payload>,
    priority: Option<u32>,
    #[serde(default, deserialize_with = "duration")]
    delay: Option<Duration>,
    #[serde(default, deserialize_with = "duration")]
    attempt_timeout: Option<Duration>,
    #[serde(default, deserialize_with = "duration")]
    deadline: Option<Duration>,
    retries: Option<Object<Retries>>,
    #[serde(default)]
    needs: Vec<String>,
    #[serde(default)]
    budgets: Vec<Id<BudgetId>>,
    quota: Option<Id<QuotaPolicyId>>,
    #[serde(default)]
    tags: BTreeMap<String, String>,
    after: Option<After>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "retries as { max = N, pause = \"2s\" }")]
struct Retries {
    max: u32,
    #[serde(default, deserialize_with = "duration")]
    pause: Option<Duration>,
}

#[derive(Deserialize)]
#[serde(
    untagged,
    expecting = "expected a list of names, { any = [...] } or { quorum = N, of = [...] }"
)]
enum After {
    All(Vec<String>),
    Any(Object<AnyOf>),
    Quorum(Object<QuorumOf>),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AnyOf {
    any: Vec<String>,
    #[serde(default)]
    rest: Rest,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct QuorumOf {
    quorum: u32,
    of: Vec<String>,
    #[serde(default)]
    rest: Rest,
}

/// What becomes of those that a satisfied join does not need any more.
#[derive(Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Rest {
    #[default]
    Cancel,
    LetRun,
}

impl From<Rest> for OnSatisfied {
    fn from(rest: Rest) -> Self {
        match rest {
            Rest::Cancel => Self::CancelRemaining,
            Rest::LetRun => Self::LetRun,
        }
    }
}

/// An id as text.
struct Id<T>(T);

impl<'de, T> Deserialize<'de> for Id<T>
where
    T: std::str::FromStr,
    T::Err: std::fmt::Display,
{
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map(Self).map_err(serde::de::Error::custom)
    }
}

/// A duration with its unit, as in `90s` or `1h 30m`. A bare number could mean anything.
fn duration<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
    let text = String::deserialize(deserializer)?;
    humantime::parse_duration(&text)
        .map(Some)
        .map_err(|error| serde::de::Error::custom(format!("`{text}` is no duration: {error}")))
}

impl FlowFile {
    fn into_flow(self) -> Result<Flow, InvalidFlowFile> {
        let mut flow = Flow::new(self.kind);
        if let Some(key) = self.idempotency_key {
            flow = flow.idempotency_key(key);
        }
        for (name, value) in self.tags {
            flow = flow.tag(name, value);
        }
        for Object(entry) in self.tasks {
            flow = flow.task(entry.into_task()?);
        }
        Ok(flow)
    }
}

impl TaskEntry {
    fn into_task(self) -> Result<Task, InvalidFlowFile> {
        let mut task = Task::new(self.name.clone(), self.kind).needs_if(self.needs);
        task = match (self.payload, self.payload_json) {
            (None, None) => task,
            (Some(text), None) => task.payload(text),
            (None, Some(Payload(json))) => task.payload(json.to_string()),
            (Some(_), Some(_)) => return Err(InvalidFlowFile::Payloads { task: self.name }),
        };
        if let Some(lane) = self.lane {
            task = task.lane(lane);
        }
        if let Some(priority) = self.priority {
            task = task.priority(priority);
        }
        if let Some(delay) = self.delay {
            task = task.delay(delay);
        }
        if let Some(timeout) = self.attempt_timeout {
            task = task.attempt_timeout(timeout);
        }
        if let Some(within) = self.deadline {
            task = task.deadline(within);
        }
        if let Some(Object(retries)) = self.retries {
            task = task.retries(retries.max, retries.pause.unwrap_or_default());
        }
        for Id(budget) in self.budgets {
            task = task.budget(budget);
        }
        if let Some(Id(quota)) = self.quota {
            task = task.quota(quota);
        }
        for (name, value) in self.tags {
            task = task.tag(name, value);
        }
        Ok(match self.after {
            None => task,
            Some(After::All(upstreams)) => task.after(upstreams),
            Some(After::Any(Object(AnyOf { any, rest }))) => task.after_any(any, rest.into()),
            Some(After::Quorum(Object(QuorumOf { quorum, of, rest }))) => {
                task.after_quorum(quorum, of, rest.into())
            }
        })
    }
}

/// Says what a task needs, if it needs anything: an empty list is no policy.
trait NeedsIf {
    fn needs_if(self, capabilities: Vec<String>) -> Self;
}

impl NeedsIf for Task {
    fn needs_if(self, capabilities: Vec<String>) -> Self {
        if capabilities.is_empty() { self } else { self.needs(capabilities) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn toml(task: &str) -> Result<Flow, InvalidFlowFile> {
        let first = "kind = \"f\"\n[[tasks]]\nname = \"a\"\nkind = \"k\"\n";
        read(&format!("{first}[[tasks]]\nname = \"b\"\nkind = \"k\"\n{task}"), Format::Toml)
    }

    #[test]
    fn both_forms_mean_the_same() {
        let json = r#"{"kind":"f","tasks":[
            {"name":"a","kind":"k","payload_json":{"x":1},"delay":"5s","priority":3},
            {"name":"b","kind":"k","after":{"quorum":1,"of":["a"],"rest":"let_run"}}]}"#;
        let toml = r#"
            kind = "f"
            tasks = [
              { name = "a", kind = "k", payload_json = { x = 1 }, delay = "5s", priority = 3 },
              { name = "b", kind = "k", after = { quorum = 1, of = ["a"], rest = "let_run" } },
            ]"#;
        let json = read(json, Format::Json).unwrap();
        let toml = read(toml, Format::Toml).unwrap();
        assert_eq!(format!("{json:?}"), format!("{toml:?}"));
    }

    #[test]
    fn the_format_is_told_by_name_or_by_look() {
        assert_eq!(Format::of(Path::new("x.JSON"), ""), Format::Json);
        assert_eq!(Format::of(Path::new("x.toml"), "{"), Format::Toml);
        assert_eq!(Format::of(Path::new("-"), "  {"), Format::Json);
        assert_eq!(Format::of(Path::new("-"), "kind = 1"), Format::Toml);
    }

    #[test]
    fn what_is_wrong_is_said_with_its_place() {
        for (task, says) in [
            ("after = [\"b\"]", "wait for each other"),
            ("after = [\"nobody\"]", "no task of this flow"),
            ("after = \"a\"", "expected a list of names"),
            ("after = [[\"a\"]]", "expected a list of names"),
            ("after = [1, [\"a\"]]", "expected a list of names"),
            ("retries = [3, \"2s\"]", "expected retries as { max = N, pause"),
            ("after = { any = [\"a\"], quorum = 1 }", "expected a list of names"),
            ("delay = 5", "line 8"),
            ("delay = \"5\"", "is no duration"),
            ("colour = \"red\"", "unknown field `colour`"),
            ("payload = \"x\"\npayload_json = 1", "several payloads"),
            ("budgets = [\"x\"]", "x"),
            ("payload_json = 1979-05-27", "no date 1979-05-27"),
            ("payload_json = { at = [07:32:00] }", "no date 07:32:00"),
            ("payload_json = { x = nan }", "no number NaN"),
            ("payload_json = [-inf]", "no number -inf"),
            ("payload_json = 1e400", "overflowed"),
            ("payload_json = 1e20", "too large to keep all its digits"),
            ("priority = -1", "line 8"),
        ] {
            let error = toml(task).unwrap_err().to_string();
            assert!(error.contains(says), "{task}: {error}");
        }
    }

    #[test]
    fn a_payload_is_kept_as_it_is_written_or_refused() {
        let json = |payload: &str| {
            let task = format!(r#"{{"name":"a","kind":"k","payload_json":{payload}}}"#);
            read(&format!(r#"{{"kind":"f","tasks":[{task}]}}"#), Format::Json)
        };
        for kept in ["null", "18446744073709551615", "-9223372036854775808", "0.1", r#"{"a":[{}]}"#]
        {
            let flow = format!("{:?}", json(kept).unwrap());
            assert!(flow.contains(&format!("{:?}", kept.as_bytes())), "{kept}: {flow}");
        }
        for (lost, says) in [
            ("12345678901234567890123", "1.2345678901234568e22 is too large"),
            ("1e400", "out of range"),
            (r#"{"a":1,"a":2}"#, "`a` stands there twice"),
        ] {
            let error = json(lost).unwrap_err().to_string();
            assert!(error.contains(says), "{lost}: {error}");
        }
    }

    #[test]
    fn a_file_that_is_neither_says_so() {
        assert!(read("", Format::Toml).is_err());
        assert!(read("{", Format::Json).unwrap_err().to_string().contains("line 1"));
        for text in ["[]", "3", r#"{"kind":"f","tasks":[3]}"#, r#"{"kind":"f","tasks":[[]]}"#] {
            let error = read(text, Format::Json).unwrap_err().to_string();
            assert!(!error.contains("struct") && error.contains("an object with"), "{error}");
        }
        let retries = toml("retries = 3").unwrap_err().to_string();
        assert!(!retries.contains("struct") && retries.contains("max = N"), "{retries}");
    }
}
