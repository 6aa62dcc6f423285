//! The few policies that executions of a plan can have, by name.

use std::fmt;

use super::config::Setting;

/// Declares words of a plan that stand for something.
macro_rules! plan_words {
    ($(#[$doc:meta])* pub enum $name:ident ($what:literal) { $( #[doc = $word_doc:literal] $variant:ident = $word:literal, )+ }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum $name { $( #[doc = $word_doc] $variant, )+ }

        impl $name {
            /// All of them.
            pub const ALL: &[Self] = &[$( Self::$variant, )+];

            /// How plans spell it.
            #[must_use]
            pub const fn word(self) -> &'static str {
                match self { $( Self::$variant => $word, )+ }
            }

            /// What it means.
            #[must_use]
            pub const fn meaning(self) -> &'static str {
                match self { $( Self::$variant => $word_doc, )+ }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.word())
            }
        }

        impl std::str::FromStr for $name {
            type Err = String;

            fn from_str(text: &str) -> Result<Self, String> {
                let words: Vec<&str> = Self::ALL.iter().map(|known| known.word()).collect();
                Self::ALL.iter().find(|known| known.word() == text).copied().ok_or_else(|| {
                    format!("`{text}` is no {}: expected {}", $what, words.join(", "))
                })
            }
        }
    };
}

plan_words! {
    /// Under which policy an execution runs.
    pub enum Policy ("policy") {
        /// none
        Plain = "plain",
        /// three retries, half a second apart
        Retry = "retry",
        /// two seconds for an attempt, one retry
        Timeout = "timeout",
        /// twenty seconds until it must have ended
        Deadline = "deadline",
        /// forgotten two seconds after its end
        Brief = "brief",
        /// comes back after a lost lease once, and may be replayed twice
        Capped = "capped",
        /// needs a worker that has a gpu, which odd ones have
        Gpu = "gpu",
        /// spends of one budget that all share
        Budget = "budget",
        /// needs a slot of one quota that all share
        Quota = "quota",
    }
}

plan_words! {
    /// What a worker does with a task.
    pub enum Doing ("thing to do") {
        /// completes it
        Complete = "complete",
        /// fails it, with retries
        Fail = "fail",
        /// fails it for good
        FailForGood = "fail_for_good",
        /// suspends it until a signal comes, without a timeout
        Suspend = "suspend",
        /// suspends it, with a timeout
        SuspendTimed = "suspend_timed",
        /// makes a waitpoint ahead, and suspends on it later
        SuspendAhead = "suspend_ahead",
        /// gives it up until later
        Delay = "delay",
        /// works for longer than a lease, and renews
        Slow = "slow",
        /// dies with it
        Die = "die",
    }
}

impl Policy {
    /// The policy as executions store it; `budget` and `quota` are the ids of the shared ones.
    #[must_use]
    pub fn json(self, budget: &str, quota: &str) -> String {
        match self {
            Self::Plain => String::new(),
            Self::Retry => {
                r#"{"retry_policy":{"max_retries":3,"backoff":{"type":"fixed","delay_ms":500}}}"#
                    .to_owned()
            }
            Self::Timeout => {
                r#"{"timeout_policy":{"attempt_timeout_ms":2000},"retry_policy":{"max_retries":1,"backoff":{"type":"fixed","delay_ms":500}}}"#
                    .to_owned()
            }
            Self::Deadline => {
                r#"{"timeout_policy":{"execution_deadline_ms":20000,"attempt_timeout_ms":8000}}"#
                    .to_owned()
            }
            Self::Brief => r#"{"stream_policy":{"retention_ttl_ms":2000}}"#.to_owned(),
            Self::Capped => r#"{"max_reclaim_count":1,"max_replay_count":2}"#.to_owned(),
            Self::Gpu => {
                r#"{"routing_requirements":{"required_capabilities":["gpu"]}}"#.to_owned()
            }
            Self::Budget => format!(r#"{{"budget_ids":["{budget}"]}}"#),
            Self::Quota => format!(r#"{{"quota_policy_id":"{quota}"}}"#),
        }
    }
}

/// What workers do when nobody tells them, each with its weight.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Habits(pub Vec<(Doing, u64)>);

/// Sums of weights stay small.
const WEIGHTS: std::ops::RangeInclusive<u64> = 1..=1_000_000;

impl Setting for Habits {
    fn read(text: &str) -> Result<Self, String> {
        let habit = |part: &str| -> Result<(Doing, u64), String> {
            let (word, weight) = part.split_once(':').unwrap_or((part, "1"));
            let number = weight.parse().ok().filter(|number| WEIGHTS.contains(number));
            let number = number.ok_or_else(|| format!("`{weight}` is no weight: 1 to 1000000"))?;
            Ok((word.parse()?, number))
        };
        let habits: Vec<(Doing, u64)> = text.split(',').map(habit).collect::<Result<_, _>>()?;
        let twice = habits
            .iter()
            .enumerate()
            .find(|(at, (doing, _))| habits[..*at].iter().any(|(before, _)| before == doing));
        match twice {
            Some((_, (doing, _))) => Err(format!("`{doing}` is said twice")),
            None => Ok(Self(habits)),
        }
    }

    fn show(&self) -> String {
        let parts: Vec<String> =
            self.0.iter().map(|(doing, weight)| format!("{doing}:{weight}")).collect();
        parts.join(",")
    }
}
