//! Partitions: which hash tag, and so which cluster slot, an entity lives under.

use alloc::string::String;
use core::fmt;
use core::num::NonZeroU16;
use core::str::FromStr;

use crc::{CRC_16_XMODEM, Crc};
use thiserror::Error;

use crate::id::{BudgetId, FlowId, LaneId, QuotaPolicyId};

/// Cluster slots of Valkey.
pub const SLOTS: u16 = 16_384;

const CRC16: Crc<u16> = Crc::<u16>::new(&CRC_16_XMODEM);

/// The CRC that Valkey uses for cluster slots, and we for partitions.
#[must_use]
pub fn crc16(bytes: &[u8]) -> u16 {
    CRC16.checksum(bytes)
}

/// The cluster slot of a key: the CRC of its first non-empty `{…}`, or of the whole key.
#[must_use]
pub fn slot(key: &[u8]) -> u16 {
    let tagged = key.iter().position(|&byte| byte == b'{').and_then(|open| {
        let rest = &key[open + 1..];
        rest.iter().position(|&byte| byte == b'}').map(|close| &rest[..close])
    });
    match tagged {
        Some(tag) if !tag.is_empty() => crc16(tag) % SLOTS,
        Some(_) | None => crc16(key) % SLOTS,
    }
}

wire_enum! {
    /// The three families of partitions.
    pub enum Family {
        /// Flows and all their executions; executions without a flow.
        Flow = "fp",
        /// Budgets.
        Budget = "b",
        /// Quota policies.
        Quota = "q",
    }
}

/// One partition; its text is the hash tag, `{fp:7}`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Partition {
    /// Which family it belongs to.
    pub family: Family,
    /// Its number within the family.
    pub index: u16,
}

impl Partition {
    /// The flow partition with this number.
    #[must_use]
    pub const fn flow(index: u16) -> Self {
        Self { family: Family::Flow, index }
    }

    /// The budget partition with this number.
    #[must_use]
    pub const fn budget(index: u16) -> Self {
        Self { family: Family::Budget, index }
    }

    /// The quota partition with this number.
    #[must_use]
    pub const fn quota(index: u16) -> Self {
        Self { family: Family::Quota, index }
    }

    /// The cluster slot of all keys of this partition.
    #[must_use]
    pub fn slot(self) -> u16 {
        slot(alloc::string::ToString::to_string(&self).as_bytes())
    }
}

impl fmt::Display for Partition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("{")?;
        f.write_str(self.family.as_str())?;
        f.write_str(":")?;
        self.index.fmt(f)?;
        f.write_str("}")
    }
}

/// A text that is no partition's hash tag.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "`{text}` is not a valid partition: expected {{fp:N}}, {{b:N}} or {{q:N}} with N below 65536"
)]
#[non_exhaustive]
pub struct InvalidPartition {
    /// What was given.
    pub text: String,
}

impl FromStr for Partition {
    type Err = InvalidPartition;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.strip_prefix('{')
            .and_then(|rest| rest.strip_suffix('}'))
            .and_then(|body| body.split_once(':'))
            .and_then(|(family, index)| {
                Some(Self { family: family.parse().ok()?, index: index.parse().ok()? })
            })
            .ok_or_else(|| InvalidPartition { text: text.into() })
    }
}

/// How many partitions a deployment has. Written once; a change would orphan every record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartitionCounts {
    /// Flow partitions, `num_flow_partitions`.
    pub flow: NonZeroU16,
    /// Budget partitions, `num_budget_partitions`.
    pub budget: NonZeroU16,
    /// Quota partitions, `num_quota_partitions`.
    pub quota: NonZeroU16,
}

impl PartitionCounts {
    /// What a new deployment gets: 256, 32 and 32.
    pub const DEFAULT: Self = Self {
        flow: NonZeroU16::new(256).expect("256 is not zero"),
        budget: NonZeroU16::new(32).expect("32 is not zero"),
        quota: NonZeroU16::new(32).expect("32 is not zero"),
    };

    /// Where a flow and its members live.
    #[must_use]
    pub fn of_flow(&self, id: FlowId) -> Partition {
        Partition::flow(crc16(id.as_bytes()) % self.flow)
    }

    /// Where executions without a flow live: all of one lane together.
    #[must_use]
    pub fn of_lane(&self, lane: &LaneId) -> Partition {
        Partition::flow(crc16(lane.as_str().as_bytes()) % self.flow)
    }

    /// Where a budget lives.
    #[must_use]
    pub fn of_budget(&self, id: BudgetId) -> Partition {
        Partition::budget(crc16(id.as_bytes()) % self.budget)
    }

    /// Where a quota policy lives.
    #[must_use]
    pub fn of_quota(&self, id: QuotaPolicyId) -> Partition {
        Partition::quota(crc16(id.as_bytes()) % self.quota)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    fn counts(n: u16) -> PartitionCounts {
        let n = NonZeroU16::new(n).unwrap();
        PartitionCounts { flow: n, budget: n, quota: n }
    }

    #[test]
    fn crc_is_the_one_of_cluster_slots() {
        assert_eq!(crc16(b"123456789"), 0x31C3);
        assert_eq!(crc16(b""), 0);
    }

    #[test]
    fn lanes_fall_where_the_contract_says() {
        for (lane, crc, of_256, of_4) in
            [("default", 54870, 86, 2), ("workers-a", 11969, 193, 1), ("gpu", 14480, 144, 0)]
        {
            let id: LaneId = lane.parse().unwrap();
            assert_eq!(crc16(lane.as_bytes()), crc, "{lane}");
            assert_eq!(PartitionCounts::DEFAULT.of_lane(&id), Partition::flow(of_256), "{lane}");
            assert_eq!(counts(4).of_lane(&id), Partition::flow(of_4), "{lane}");
        }
    }

    #[test]
    fn uuids_fall_where_the_contract_says() {
        for (uuid, crc, of_256, of_32, of_4, of_2) in [
            ("550e8400-e29b-41d4-a716-446655440000", 36888, 24, 24, 0, 0),
            ("123e4567-e89b-12d3-a456-426614174000", 27785, 137, 9, 1, 1),
            ("00000000-0000-0000-0000-000000000001", 4129, 33, 1, 1, 1),
            ("00000000-0000-0000-0000-000000000000", 0, 0, 0, 0, 0),
        ] {
            let flow: FlowId = uuid.parse().unwrap();
            let budget: BudgetId = uuid.parse().unwrap();
            let quota: QuotaPolicyId = uuid.parse().unwrap();
            assert_eq!(crc16(flow.as_bytes()), crc, "{uuid}");
            assert_eq!(PartitionCounts::DEFAULT.of_flow(flow), Partition::flow(of_256));
            assert_eq!(PartitionCounts::DEFAULT.of_budget(budget), Partition::budget(of_32));
            assert_eq!(PartitionCounts::DEFAULT.of_quota(quota), Partition::quota(of_32));
            assert_eq!(counts(4).of_flow(flow), Partition::flow(of_4));
            assert_eq!(counts(2).of_flow(flow), Partition::flow(of_2));
        }
    }

    #[test]
    fn a_partition_is_its_hash_tag() {
        assert_eq!(Partition::flow(7).to_string(), "{fp:7}");
        assert_eq!("{b:31}".parse(), Ok(Partition::budget(31)));
        for bad in ["", "fp:7", "{fp:}", "{fp:65536}", "{x:1}", "{fp7}", "{fp:7", "{fp:7:8}"] {
            assert!(bad.parse::<Partition>().is_err(), "{bad}");
        }
    }

    #[test]
    fn the_slot_is_that_of_the_first_filled_tag() {
        assert_eq!(slot(b"ff:exec:{fp:7}:{fp:8}:x"), crc16(b"fp:7") % SLOTS);
        assert_eq!(slot(b"{}x"), crc16(b"{}x") % SLOTS);
        assert_eq!(slot(b"{a"), crc16(b"{a") % SLOTS);
        assert_eq!(Partition::flow(7).slot(), crc16(b"fp:7") % SLOTS);
    }
}
