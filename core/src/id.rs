//! Identifiers, with the parse rules of the contract. An id that exists is a valid one.

use alloc::string::{String, ToString};
use core::fmt;
use core::str::FromStr;

use thiserror::Error;
use uuid::Uuid;

use crate::error::InvalidNumber;
use crate::partition::Partition;

/// Declares an id that is a UUID: any standard spelling is read, lowercase hyphens are written.
macro_rules! uuid_ids {
    ($( $(#[$doc:meta])* $name:ident: $spoken:literal ),+ $(,)?) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Uuid);

        impl $name {
            /// The id made of these bytes; who calls decides where they come from.
            #[must_use]
            pub const fn from_bytes(bytes: [u8; 16]) -> Self {
                Self(Uuid::from_bytes(bytes))
            }

            /// The 16 raw bytes, in network order.
            #[must_use]
            pub const fn as_bytes(&self) -> &[u8; 16] {
                self.0.as_bytes()
            }
        }

        impl From<Uuid> for $name {
            fn from(uuid: Uuid) -> Self {
                Self(uuid)
            }
        }

        impl From<$name> for Uuid {
            fn from(id: $name) -> Self {
                id.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.as_hyphenated().fmt(f)
            }
        }

        impl FromStr for $name {
            type Err = InvalidId;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                Uuid::parse_str(text).map(Self).map_err(|_| InvalidId::uuid($spoken, text))
            }
        }
    )+};
}

uuid_ids! {
    /// A flow.
    FlowId: "flow id",
    /// An edge of a flow's graph.
    EdgeId: "edge id",
    /// A budget.
    BudgetId: "budget id",
    /// A quota policy.
    QuotaPolicyId: "quota policy id",
    /// A lease.
    LeaseId: "lease id",
    /// An attempt.
    AttemptId: "attempt id",
    /// A signal.
    SignalId: "signal id",
    /// A waitpoint.
    WaitpointId: "waitpoint id",
    /// A suspension.
    SuspensionId: "suspension id",
}

/// Declares a free text with a type of its own; the contract puts no rule on it.
macro_rules! text_ids {
    ($( $(#[$doc:meta])* $name:ident ),+ $(,)?) => {$(
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(String);

        impl $name {
            /// Takes any text.
            #[must_use]
            pub fn new(text: impl Into<String>) -> Self {
                Self(text.into())
            }

            /// The text.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    )+};
}

text_ids! {
    /// A namespace: whose work it is.
    Namespace,
    /// A worker, the logical service.
    WorkerId,
    /// One running process of a worker.
    WorkerInstanceId,
    /// The name under which a waitpoint is addressed.
    WaitpointKey,
}

/// An execution: `{fp:N}:<uuid>`. The partition is part of the name, so it needs no look-up.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ExecutionId {
    /// As it was given: ids are compared and stored verbatim.
    text: String,
    partition: u16,
    uuid: Uuid,
}

impl ExecutionId {
    /// The execution `uuid` on `partition`, which must be a flow partition's number.
    #[must_use]
    pub fn new(partition: u16, uuid: Uuid) -> Self {
        let text = alloc::format!("{}:{}", Partition::flow(partition), uuid.as_hyphenated());
        Self { text, partition, uuid }
    }

    /// The partition named in the id.
    #[must_use]
    pub const fn partition(&self) -> Partition {
        Partition::flow(self.partition)
    }

    /// The part after the hash tag.
    #[must_use]
    pub const fn uuid(&self) -> Uuid {
        self.uuid
    }

    /// The id, verbatim.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

impl fmt::Display for ExecutionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl FromStr for ExecutionId {
    type Err = InvalidId;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (index, uuid) = text
            .strip_prefix("{fp:")
            .and_then(|rest| rest.split_once("}:"))
            .ok_or_else(|| InvalidId::MissingTag { text: text.into() })?;
        let partition =
            index.parse().map_err(|_| InvalidId::PartitionIndex { text: text.into() })?;
        let uuid = Uuid::parse_str(uuid).map_err(|_| InvalidId::uuid("execution id", text))?;
        Ok(Self { text: text.to_string(), partition, uuid })
    }
}

/// A lane: 1 to 64 printable ASCII characters.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LaneId(String);

impl LaneId {
    /// Longest name, in bytes.
    pub const BYTES_MAX: usize = 64;

    /// The lane `default`: that of tasks and records that name none.
    #[must_use]
    pub fn default_lane() -> Self {
        Self("default".to_string())
    }

    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for LaneId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for LaneId {
    type Err = InvalidId;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text.is_empty() {
            return Err(InvalidId::LaneEmpty);
        }
        if text.len() > Self::BYTES_MAX {
            return Err(InvalidId::LaneTooLong { bytes: text.len() });
        }
        match text.bytes().position(|byte| !(0x20..=0x7E).contains(&byte)) {
            Some(index) => Err(InvalidId::LaneNotPrintable { index }),
            None => Ok(Self(text.to_string())),
        }
    }
}

/// Declares a counter that is decimal text on the wire.
macro_rules! number_ids {
    ($( $(#[$doc:meta])* $name:ident($number:ty) ),+ $(,)?) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub $number);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl FromStr for $name {
            type Err = InvalidNumber;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                text.parse().map(Self).map_err(|_| InvalidNumber::new(stringify!($name), text))
            }
        }
    )+};
}

number_ids! {
    /// The place of an attempt among those of its execution, from 0.
    AttemptIndex(u32),
    /// How many leases an execution has had; the first lease is 1.
    LeaseEpoch(u64),
}

/// Who holds an execution: the triple that every holder's call must show whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fence {
    /// The lease.
    pub lease_id: LeaseId,
    /// Its number.
    pub lease_epoch: LeaseEpoch,
    /// The attempt that runs under it.
    pub attempt_id: AttemptId,
}

/// A text that is not the id it should be.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum InvalidId {
    /// Not a UUID in any standard spelling.
    #[error("`{text}` is not a valid {kind}: it must be a UUID")]
    Uuid {
        /// What should have been there.
        kind: &'static str,
        /// What was there.
        text: String,
    },
    /// An execution id without `{fp:N}:` before the UUID.
    #[error("`{text}` is not a valid execution id: it must start with {{fp:N}}:")]
    MissingTag {
        /// What was there.
        text: String,
    },
    /// An execution id whose partition is no number below 65536.
    #[error("`{text}` is not a valid execution id: its partition is not a number below 65536")]
    PartitionIndex {
        /// What was there.
        text: String,
    },
    /// An empty lane name.
    #[error("a lane name must not be empty")]
    LaneEmpty,
    /// A lane name past its limit.
    #[error("a lane name has at most 64 bytes, this one has {bytes}")]
    LaneTooLong {
        /// Its length.
        bytes: usize,
    },
    /// A lane name with something else than printable ASCII in it.
    #[error("a lane name is printable ASCII, byte {index} is not")]
    LaneNotPrintable {
        /// Where.
        index: usize,
    },
}

impl InvalidId {
    fn uuid(kind: &'static str, text: &str) -> Self {
        Self::Uuid { kind, text: text.into() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const UUID: &str = "550e8400-e29b-41d4-a716-446655440000";

    #[test]
    fn any_uuid_spelling_is_read_and_one_is_written() {
        for spelling in [
            UUID,
            "550E8400-E29B-41D4-A716-446655440000",
            "550e8400e29b41d4a716446655440000",
            "urn:uuid:550e8400-e29b-41d4-a716-446655440000",
            "{550e8400-e29b-41d4-a716-446655440000}",
        ] {
            assert_eq!(spelling.parse::<FlowId>().unwrap().to_string(), UUID);
        }
        assert!("flow-chain".parse::<FlowId>().is_err());
    }

    #[test]
    fn an_execution_id_keeps_its_text() {
        for (text, partition) in [
            ("{fp:7}:550e8400-e29b-41d4-a716-446655440000", 7),
            ("{fp:007}:550e8400-e29b-41d4-a716-446655440000", 7),
            ("{fp:+7}:550E8400-e29b-41d4-a716-446655440000", 7),
            ("{fp:65535}:550e8400-e29b-41d4-a716-446655440000", 65535),
        ] {
            let id: ExecutionId = text.parse().unwrap();
            assert_eq!(id.as_str(), text);
            assert_eq!(id.partition(), Partition::flow(partition));
        }
    }

    #[test]
    fn a_broken_execution_id_says_what_is_wrong() {
        let wrong = |text: &str| text.parse::<ExecutionId>().unwrap_err();
        assert!(matches!(wrong(UUID), InvalidId::MissingTag { .. }));
        assert!(matches!(wrong("{fp:7"), InvalidId::MissingTag { .. }));
        assert!(matches!(wrong("{b:7}:x"), InvalidId::MissingTag { .. }));
        assert!(matches!(wrong("{fp:x}:y"), InvalidId::PartitionIndex { .. }));
        assert!(matches!(wrong("{fp:65536}:y"), InvalidId::PartitionIndex { .. }));
        assert!(matches!(wrong("{fp:7}:y"), InvalidId::Uuid { .. }));
    }

    #[test]
    fn lanes_are_checked() {
        assert!("default".parse::<LaneId>().is_ok());
        assert_eq!("".parse::<LaneId>(), Err(InvalidId::LaneEmpty));
        assert_eq!("x".repeat(65).parse::<LaneId>(), Err(InvalidId::LaneTooLong { bytes: 65 }));
        assert_eq!("a\tb".parse::<LaneId>(), Err(InvalidId::LaneNotPrintable { index: 1 }));
    }

    proptest! {
        #[test]
        fn ids_round_trip(partition: u16, bytes: [u8; 16]) {
            let execution = ExecutionId::new(partition, Uuid::from_bytes(bytes));
            prop_assert_eq!(&execution.to_string().parse::<ExecutionId>().unwrap(), &execution);
            let flow = FlowId::from_bytes(bytes);
            prop_assert_eq!(flow.to_string().parse::<FlowId>().unwrap(), flow);
        }

        #[test]
        fn no_text_breaks_a_parser(text: String) {
            let _ = text.parse::<ExecutionId>();
            let _ = text.parse::<FlowId>();
            let _ = text.parse::<LaneId>();
            let _ = text.parse::<AttemptIndex>();
        }
    }
}
