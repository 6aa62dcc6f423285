//! What stands in for the in-process store when the feature `memory` is off: opening it is an
//! error.

use selvedge_core::command::{Answer, Command};

use super::StoreError;
use super::subscription::Push;

/// An in-process store that cannot exist.
pub(super) enum Memory {}

impl Memory {
    pub(super) fn open(_: i64) -> Result<Self, StoreError> {
        Err(StoreError::FeatureDisabled { url: "memory://", feature: "memory" })
    }

    pub(super) fn run(&self, _: &[Command]) -> Vec<Answer> {
        match *self {}
    }

    pub(super) fn subscribe(&self, _: Vec<Vec<u8>>) -> MemorySubscription {
        match *self {}
    }
}

/// A subscription to a store that cannot exist.
pub(super) struct MemorySubscription;

impl MemorySubscription {
    pub(super) async fn next(&mut self) -> Push {
        std::future::pending().await
    }
}
