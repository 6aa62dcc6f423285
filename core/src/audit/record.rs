//! What a key holds, and the records that oracles read.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec::Vec;

use crate::eligible_score::eligible_score;
use crate::error::UnknownWord;
use crate::id::ExecutionId;
use crate::partition::Partition;
use crate::state::StateVector;
use crate::time::ServerTime;

/// What a key holds.
#[derive(Clone, Debug, PartialEq)]
pub enum Stored {
    /// A string.
    Text(Vec<u8>),
    /// A hash.
    Hash(BTreeMap<String, Vec<u8>>),
    /// A set.
    Set(BTreeSet<String>),
    /// A sorted set: the score of each member.
    Zset(BTreeMap<String, f64>),
    /// A stream: the number of entries. No oracle reads them.
    Stream(usize),
}

/// A value with its expiry, if it has one.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// What is stored.
    pub stored: Stored,
    /// When it expires.
    pub expires_at: Option<ServerTime>,
}

impl Entry {
    /// The fields, if it is a hash.
    #[must_use]
    pub fn fields(&self) -> Option<Fields<'_>> {
        match &self.stored {
            Stored::Hash(fields) => Some(Fields(fields)),
            _ => None,
        }
    }

    /// How many members it has, if it is a set or a sorted set.
    #[must_use]
    pub fn members(&self) -> usize {
        match &self.stored {
            Stored::Set(members) => members.len(),
            Stored::Zset(members) => members.len(),
            _ => 0,
        }
    }
}

/// The fields of a hash.
#[derive(Clone, Copy, Debug)]
pub struct Fields<'a>(&'a BTreeMap<String, Vec<u8>>);

impl<'a> Fields<'a> {
    pub(super) const fn new(fields: &'a BTreeMap<String, Vec<u8>>) -> Self {
        Self(fields)
    }

    /// A field as text; empty when it is missing or not UTF-8.
    #[must_use]
    pub fn text(&self, name: &str) -> &'a str {
        self.0.get(name).and_then(|value| core::str::from_utf8(value).ok()).unwrap_or_default()
    }

    /// A field as a number; 0 when it is missing or not a number. A fraction is cut off.
    #[must_use]
    pub fn number(&self, name: &str) -> i64 {
        let text = self.text(name);
        text.split('.').next().and_then(|whole| whole.parse().ok()).unwrap_or_default()
    }

    /// All fields.
    pub fn iter(&self) -> impl Iterator<Item = (&'a str, &'a [u8])> + use<'a> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_slice()))
    }
}

/// An execution's record.
#[derive(Clone, Copy, Debug)]
pub struct Execution<'a> {
    /// Its id.
    pub id: &'a ExecutionId,
    /// Its fields.
    pub core: Fields<'a>,
}

impl Execution<'_> {
    /// The state vector.
    ///
    /// # Errors
    /// The first field that holds no valid text of its dimension.
    pub fn vector(&self) -> Result<StateVector, UnknownWord> {
        StateVector::read(StateVector::FIELDS.map(|name| self.core.text(name)))
    }

    /// Its partition.
    #[must_use]
    pub fn partition(&self) -> Partition {
        self.id.partition()
    }

    /// Its score in the eligible index of its lane: the lowest is claimed first.
    #[must_use]
    pub fn eligible_score(&self) -> f64 {
        let priority: f64 = self.core.text("priority").parse().unwrap_or_default();
        eligible_score(self.core.number("created_at"), priority)
    }

    /// Whether a purge has begun to delete it.
    #[must_use]
    pub fn is_being_purged(&self) -> bool {
        !self.core.text("purging_since").is_empty()
    }
}
