//! The policy that is stored with an execution, as JSON.
//!
//! Absent parts are left out when written, never null. Reading is lenient about members it does
//! not know, strict about the types of those it does.

use alloc::string::String;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};
use thiserror::Error;
use uuid::Uuid;

use crate::strict_json::{self, Object};

/// Everything that an execution's author may decide.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct ExecutionPolicy {
    /// Higher is served first; the argument of the call counts, this one is informational.
    pub priority: i64,
    /// Not before this time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delay_until: Option<i64>,
    /// Whether and when to try again.
    #[serde(
        skip_serializing_if = "Option::is_none",
        deserialize_with = "strict_json::optional_object"
    )]
    pub retry_policy: Option<RetryPolicy>,
    /// How long an attempt, or the whole execution, may take.
    #[serde(
        skip_serializing_if = "Option::is_none",
        deserialize_with = "strict_json::optional_object"
    )]
    pub timeout_policy: Option<TimeoutPolicy>,
    /// How often a lost lease may be reclaimed.
    pub max_reclaim_count: u32,
    /// What a suspension does by default.
    #[serde(
        skip_serializing_if = "Option::is_none",
        deserialize_with = "strict_json::optional_object"
    )]
    pub suspension_policy: Option<SuspensionPolicy>,
    /// What to fall back to.
    #[serde(
        skip_serializing_if = "Option::is_none",
        deserialize_with = "strict_json::optional_object"
    )]
    pub fallback_policy: Option<FallbackPolicy>,
    /// How often it may be replayed.
    pub max_replay_count: u32,
    /// Budgets that it spends from.
    pub budget_ids: Vec<Uuid>,
    /// The quota that admits it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quota_policy_id: Option<Uuid>,
    /// Who may run it.
    #[serde(
        skip_serializing_if = "Option::is_none",
        deserialize_with = "strict_json::optional_object"
    )]
    pub routing_requirements: Option<RoutingRequirements>,
    /// How long its idempotency key is remembered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dedup_window_ms: Option<u64>,
    /// How its output is kept.
    #[serde(
        skip_serializing_if = "Option::is_none",
        deserialize_with = "strict_json::optional_object"
    )]
    pub stream_policy: Option<StreamPolicy>,
    /// How many signals it may receive.
    pub max_signals_per_execution: u32,
}

impl Default for ExecutionPolicy {
    fn default() -> Self {
        Self {
            priority: 0,
            delay_until: None,
            retry_policy: None,
            timeout_policy: None,
            max_reclaim_count: 100,
            suspension_policy: None,
            fallback_policy: None,
            max_replay_count: 10,
            budget_ids: Vec::new(),
            quota_policy_id: None,
            routing_requirements: None,
            dedup_window_ms: None,
            stream_policy: None,
            max_signals_per_execution: 10_000,
        }
    }
}

/// Whether and when to try again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct RetryPolicy {
    /// How often, after the first attempt.
    pub max_retries: u32,
    /// How long to wait in between.
    #[serde(deserialize_with = "strict_json::object")]
    pub backoff: Backoff,
    /// Only failures of these categories; empty means all.
    pub retryable_categories: Vec<String>,
}

impl RetryPolicy {
    /// Up to so many retries, of failures of every category.
    #[must_use]
    pub const fn new(max_retries: u32, backoff: Backoff) -> Self {
        Self { max_retries, backoff, retryable_categories: Vec::new() }
    }

    /// The same policy for failures of these categories only.
    #[must_use]
    pub fn categories<T: Into<String>>(mut self, names: impl IntoIterator<Item = T>) -> Self {
        self.retryable_categories = names.into_iter().map(Into::into).collect();
        self
    }
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self { max_retries: 3, backoff: Backoff::default(), retryable_categories: Vec::new() }
    }
}

/// How long to wait before the next try.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase")]
#[non_exhaustive]
pub enum Backoff {
    /// Longer each time, up to a limit.
    Exponential {
        /// The first pause.
        #[serde(default = "Backoff::initial_delay_ms")]
        initial_delay_ms: u64,
        /// The longest pause.
        #[serde(default = "Backoff::max_delay_ms")]
        max_delay_ms: u64,
        /// By which factor pauses grow.
        #[serde(default = "Backoff::multiplier")]
        multiplier: f64,
        /// Draw each pause between its half and its whole.
        #[serde(default)]
        jitter: bool,
    },
    /// The same each time.
    Fixed {
        /// The pause.
        #[serde(default = "Backoff::initial_delay_ms")]
        delay_ms: u64,
    },
}

impl Backoff {
    /// The longest pause.
    #[must_use]
    pub fn longest_ms(&self) -> u64 {
        match *self {
            Self::Exponential { initial_delay_ms, max_delay_ms, .. } => {
                initial_delay_ms.max(max_delay_ms)
            }
            Self::Fixed { delay_ms } => delay_ms,
        }
    }

    const fn initial_delay_ms() -> u64 {
        1_000
    }

    const fn max_delay_ms() -> u64 {
        60_000
    }

    const fn multiplier() -> f64 {
        2.0
    }
}

impl Default for Backoff {
    fn default() -> Self {
        Self::Exponential {
            initial_delay_ms: Self::initial_delay_ms(),
            max_delay_ms: Self::max_delay_ms(),
            multiplier: Self::multiplier(),
            jitter: false,
        }
    }
}

/// How long an attempt, or the whole execution, may take.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct TimeoutPolicy {
    /// For one attempt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempt_timeout_ms: Option<u64>,
    /// From creation to the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub execution_deadline_ms: Option<u64>,
    /// How often a lost lease may be reclaimed, where the policy itself does not say.
    pub max_reclaim_count: u32,
}

impl Default for TimeoutPolicy {
    fn default() -> Self {
        Self { attempt_timeout_ms: None, execution_deadline_ms: None, max_reclaim_count: 100 }
    }
}

/// What a suspension does by default.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct SuspensionPolicy {
    /// How long it lasts at most.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default_timeout_ms: Option<u64>,
    /// What happens then.
    pub timeout_behavior: String,
}

impl Default for SuspensionPolicy {
    fn default() -> Self {
        Self { default_timeout_ms: None, timeout_behavior: "fail".into() }
    }
}

/// What to fall back to, in order.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct FallbackPolicy {
    /// The tiers.
    #[serde(deserialize_with = "strict_json::objects")]
    pub tiers: Vec<FallbackTier>,
}

/// One thing to fall back to.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct FallbackTier {
    /// Who provides it.
    pub provider: String,
    /// Which model.
    pub model: String,
    /// How long it may take.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
}

/// Who may run it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct RoutingRequirements {
    /// Every one of these, verbatim.
    pub required_capabilities: Vec<String>,
    /// Where it should run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preferred_locality: Option<String>,
    /// How isolated it must be.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub isolation_level: Option<String>,
}

/// How output is kept.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct StreamPolicy {
    /// How durable.
    pub durability_mode: String,
    /// How many frames.
    pub retention_maxlen: u64,
    /// How long after the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retention_ttl_ms: Option<u64>,
}

impl Default for StreamPolicy {
    fn default() -> Self {
        Self {
            durability_mode: "buffered".into(),
            retention_maxlen: 10_000,
            retention_ttl_ms: None,
        }
    }
}

/// A text that is no policy.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("the policy cannot be read: {reason}")]
#[non_exhaustive]
pub struct InvalidPolicy {
    /// What is wrong, and where.
    pub reason: String,
}

impl ExecutionPolicy {
    /// Reads a stored policy; nothing stored means the defaults.
    ///
    /// # Errors
    /// When the text is no JSON, or a known member has another type.
    pub fn read(json: &[u8]) -> Result<Self, InvalidPolicy> {
        if json.is_empty() {
            return Ok(Self::default());
        }
        serde_json::from_slice(json)
            .map(|Object(policy)| policy)
            .map_err(|error| InvalidPolicy { reason: alloc::string::ToString::to_string(&error) })
    }

    /// The policy as it is stored.
    #[must_use]
    pub fn to_json(&self) -> String {
        // Only maps with keys that are no text, and failing writers, make this fail: neither here.
        serde_json::to_string(self).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn no_policy_means_the_defaults() {
        assert_eq!(ExecutionPolicy::read(b"{}").unwrap(), ExecutionPolicy::default());
        assert_eq!(ExecutionPolicy::read(b"").unwrap(), ExecutionPolicy::default());
    }

    #[test]
    fn absent_parts_are_left_out() {
        let json = ExecutionPolicy::default().to_json();
        assert!(!json.contains("null"), "{json}");
        assert!(json.contains(r#""max_reclaim_count":100"#), "{json}");
        assert!(!json.contains("retry_policy"), "{json}");
    }

    #[test]
    fn parts_have_their_own_defaults() {
        let policy = ExecutionPolicy::read(
            br#"{"retry_policy":{"backoff":{"type":"fixed"}},"timeout_policy":{},"unknown":[1]}"#,
        )
        .unwrap();
        let retry = policy.retry_policy.unwrap();
        assert_eq!(retry.max_retries, 3);
        assert_eq!(retry.backoff, Backoff::Fixed { delay_ms: 1_000 });
        assert_eq!(policy.timeout_policy.unwrap().max_reclaim_count, 100);
    }

    #[test]
    fn a_list_is_no_object() {
        for list in [
            r#"[5]"#,
            r#"{"timeout_policy":[7,8,9]}"#,
            r#"{"retry_policy":{"backoff":["fixed",7]}}"#,
            r#"{"fallback_policy":{"tiers":[["p","m",1]]}}"#,
        ] {
            let error = ExecutionPolicy::read(list.as_bytes()).unwrap_err();
            assert!(error.reason.contains("invalid type: sequence"), "{list}: {error}");
        }
    }

    #[test]
    fn a_broken_policy_says_where() {
        let error = ExecutionPolicy::read(br#"{"max_replay_count":"ten"}"#).unwrap_err();
        assert!(error.reason.contains("line 1"), "{error}");
    }

    proptest! {
        #[test]
        fn policies_round_trip(priority: i64, retries: u32, delay_ms: u64, names: Vec<String>) {
            let policy = ExecutionPolicy {
                priority,
                retry_policy: Some(RetryPolicy {
                    max_retries: retries,
                    backoff: Backoff::Fixed { delay_ms },
                    retryable_categories: names,
                }),
                ..ExecutionPolicy::default()
            };
            prop_assert_eq!(ExecutionPolicy::read(policy.to_json().as_bytes()).unwrap(), policy);
        }

        #[test]
        fn no_text_breaks_the_reader(bytes: Vec<u8>) {
            let _ = ExecutionPolicy::read(&bytes);
        }
    }
}
