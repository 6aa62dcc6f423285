//! The policies of executions, and what workers do with executions: the fixed words of a plan.

use std::fmt;

use super::config::Setting;

/// Declares an enum whose variants are words of a plan.
macro_rules! plan_words {
    ($(#[$doc:meta])* pub enum $name:ident ($what:literal) {
        $( #[doc = $word_doc:literal] $variant:ident = $word:literal, )+
    }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum $name { $( #[doc = $word_doc] $variant, )+ }

        impl $name {
            /// All variants.
            pub const ALL: &[Self] = &[$( Self::$variant, )+];

            /// The word in plans.
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
                    format!("`{text}` is not a {}: expected {}", $what, words.join(", "))
                })
            }
        }
    };
}

plan_words! {
    /// The policy of an execution.
    pub enum Policy ("policy") {
        /// three retries, half a second apart, as all policies but `timeout` have
        Plain = "plain",
        /// the same as plain
        Retry = "retry",
        /// two seconds for an attempt, one retry
        Timeout = "timeout",
        /// must end within twenty seconds
        Deadline = "deadline",
        /// purged two seconds after its end
        Brief = "brief",
        /// requeued once after a lost lease, replayed at most twice
        Capped = "capped",
        /// needs a worker with a gpu, which every odd worker has
        Gpu = "gpu",
        /// spends from the shared budget
        Budget = "budget",
        /// needs a slot of the shared quota
        Quota = "quota",
        /// names a budget that does not exist, so that the client refuses it
        Missing = "missing",
    }
}

plan_words! {
    /// What a worker does with an execution.
    pub enum WorkerAction ("worker action") {
        /// completes it
        Complete = "complete",
        /// fails it, with retries
        Fail = "fail",
        /// fails it without retries
        FailForGood = "fail_for_good",
        /// suspends it until a signal, without a timeout
        Suspend = "suspend",
        /// suspends it, with a timeout
        SuspendTimed = "suspend_timed",
        /// creates a waitpoint, and suspends on it later
        SuspendAhead = "suspend_ahead",
        /// delays it
        Delay = "delay",
        /// works for longer than a lease, and renews it
        Slow = "slow",
        /// crashes
        Die = "die",
        /// panics
        Panic = "panic",
        /// never returns, unless it is told to stop
        Hang = "hang",
        /// works for three leases, and ignores that it is told to stop
        Stubborn = "stubborn",
    }
}

impl Policy {
    /// The policy as JSON; `budget` and `quota` are the ids of the shared ones.
    #[must_use]
    pub fn json(self, budget: &str, quota: &str) -> String {
        let own = match self {
            Self::Plain | Self::Retry => String::new(),
            Self::Timeout => {
                return r#"{"timeout_policy":{"attempt_timeout_ms":2000},"retry_policy":{"max_retries":1,"backoff":{"type":"fixed","delay_ms":500}}}"#
                    .to_owned();
            }
            Self::Deadline => {
                r#","timeout_policy":{"execution_deadline_ms":20000,"attempt_timeout_ms":8000}"#
                    .to_owned()
            }
            Self::Brief => r#","stream_policy":{"retention_ttl_ms":2000}"#.to_owned(),
            Self::Capped => r#","max_reclaim_count":1,"max_replay_count":2"#.to_owned(),
            Self::Gpu => r#","routing_requirements":{"required_capabilities":["gpu"]}"#.to_owned(),
            Self::Budget => format!(r#","budget_ids":["{budget}"]"#),
            Self::Missing => format!(r#","budget_ids":["{MISSING_BUDGET}"]"#),
            Self::Quota => format!(r#","quota_policy_id":"{quota}""#),
        };
        format!(r#"{{"retry_policy":{RETRIES}{own}}}"#)
    }
}

/// Three retries, half a second apart.
const RETRIES: &str = r#"{"max_retries":3,"backoff":{"type":"fixed","delay_ms":500}}"#;

/// The id of the budget that does not exist.
pub(crate) const MISSING_BUDGET: uuid::Uuid =
    uuid::Uuid::from_u128(0x6d69_7373_4000_8000_0000_0000_0000);

/// What workers do with executions that have no `task` line, with weights.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Habits(pub Vec<(WorkerAction, u64)>);

/// Limits the sum of all weights.
const WEIGHTS: std::ops::RangeInclusive<u64> = 1..=1_000_000;

impl Setting for Habits {
    fn read(text: &str) -> Result<Self, String> {
        let habit = |part: &str| -> Result<(WorkerAction, u64), String> {
            let (word, weight) = part.split_once(':').unwrap_or((part, "1"));
            let number = weight.parse().ok().filter(|number| WEIGHTS.contains(number));
            let number = number
                .ok_or_else(|| format!("`{weight}` is not a weight: expected 1 to 1000000"))?;
            Ok((word.parse()?, number))
        };
        let habits: Vec<(WorkerAction, u64)> =
            text.split(',').map(habit).collect::<Result<_, _>>()?;
        let twice = habits
            .iter()
            .enumerate()
            .find(|(at, (action, _))| habits[..*at].iter().any(|(before, _)| before == action));
        match twice {
            Some((_, (action, _))) => Err(format!("`{action}` is given twice")),
            None => Ok(Self(habits)),
        }
    }

    fn show(&self) -> String {
        let parts: Vec<String> =
            self.0.iter().map(|(action, weight)| format!("{action}:{weight}")).collect();
        parts.join(",")
    }
}
