//! The fields of a flow file, and their conversion to a [`Flow`].

use std::collections::BTreeMap;
use std::time::Duration;

use selvedge_core::id::{BudgetId, QuotaPolicyId};
use selvedge_core::strict_json::Object;
use serde::{Deserialize, Deserializer};

use super::InvalidFlowFile;
use super::payload::{self, Payload};
use crate::client::{Flow, OnSatisfied, Task};

#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "a flow: an object with kind and tasks")]
pub(super) struct FlowFile {
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
    #[serde(default, deserialize_with = "duration")]
    retention: Option<Duration>,
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

/// What happens to the remaining upstreams of a satisfied join.
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

/// An id, parsed from a string.
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

/// A duration with its unit, as in `90s` or `1h 30m`. A number without a unit is refused.
fn duration<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
    deserializer.deserialize_any(DurationVisitor).map(Some)
}

struct DurationVisitor;

impl serde::de::Visitor<'_> for DurationVisitor {
    type Value = Duration;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a duration with its unit, such as \"90s\" or \"1h 30m\"")
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Duration, E> {
        humantime::parse_duration(text)
            .map_err(|error| E::custom(format!("invalid duration `{text}`: {error}")))
    }
}

impl FlowFile {
    pub(super) fn into_flow(self) -> Result<Flow, InvalidFlowFile> {
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
        if let Some(kept) = self.retention {
            task = task.retention(kept);
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

/// Sets the needed capabilities, unless there are none: an empty list would still set a policy.
trait NeedsIf {
    fn needs_if(self, capabilities: Vec<String>) -> Self;
}

impl NeedsIf for Task {
    fn needs_if(self, capabilities: Vec<String>) -> Self {
        if capabilities.is_empty() { self } else { self.needs(capabilities) }
    }
}
