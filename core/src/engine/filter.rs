//! The candidate filter: which executions an engine handles, and what must be read to know.

use alloc::string::String;
use alloc::vec::Vec;

use crate::command::Command;
use crate::command::Reply;
use crate::error::ServerError;
use crate::id::ExecutionId;
use crate::key::Key;
use crate::retry::{Idempotency, Retry};
use crate::value::Value;

/// Which executions an engine handles. Nothing set means all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Filter {
    /// Only executions of this namespace.
    pub namespace: Option<String>,
    /// Only executions that have this tag with this value.
    pub instance_tag: Option<(String, String)>,
}

/// The executions that pass a filter.
pub(super) struct Selection {
    pub(super) selected: Vec<ExecutionId>,
    /// Set when the store could not say now whether all others are excluded.
    pub(super) unknown: Option<ServerError>,
}

impl Filter {
    /// Only executions of this namespace.
    #[must_use]
    pub fn by_namespace(namespace: impl Into<String>) -> Self {
        Self { namespace: Some(namespace.into()), ..Self::default() }
    }

    /// The same, and only executions that have this tag with this value.
    #[must_use]
    pub fn and_tag(self, tag: impl Into<String>, value: impl Into<String>) -> Self {
        Self { instance_tag: Some((tag.into(), value.into())), ..self }
    }

    /// Whether every execution passes.
    #[must_use]
    pub const fn is_open(&self) -> bool {
        self.namespace.is_none() && self.instance_tag.is_none()
    }

    /// What must be read to tell which of these executions pass; nothing for an open filter.
    pub(super) fn reads(&self, ids: &[ExecutionId]) -> Vec<Command> {
        let mut reads = Vec::new();
        for id in ids {
            let keys = Key::execution(id);
            if self.namespace.is_some() {
                reads.push(Command::read("HGET", &keys.core(), &[b"namespace"]));
            }
            if let Some((tag, _)) = &self.instance_tag {
                reads.push(Command::read("HGET", &keys.tags(), &[tag.as_bytes()]));
            }
        }
        reads
    }

    /// The executions that pass, by the replies to [`Self::reads`]. One whose record cannot be
    /// read does not pass.
    pub(super) fn select(&self, ids: Vec<ExecutionId>, replies: &[Reply]) -> Selection {
        if self.is_open() {
            return Selection { selected: ids, unknown: None };
        }
        let unknown = replies
            .iter()
            .filter_map(|reply| reply.as_ref().err())
            .find(|error| error.retry(Idempotency::Idempotent) != Retry::Never)
            .cloned();
        let wanted: Vec<&String> =
            self.namespace.iter().chain(self.instance_tag.iter().map(|(_, value)| value)).collect();
        let passes = |replies: &[Reply]| {
            replies.len() == wanted.len()
                && replies.iter().zip(&wanted).all(|(reply, wanted)| {
                    matches!(reply, Ok(Value::Bulk(bytes)) if bytes == wanted.as_bytes())
                })
        };
        let selected = ids
            .into_iter()
            .zip(replies.chunks(wanted.len()))
            .filter(|(_, replies)| passes(replies))
            .map(|(id, _)| id)
            .collect();
        Selection { selected, unknown }
    }
}
