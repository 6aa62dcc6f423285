//! What must hold. State oracles live in [`selvedge_core::audit`]; history oracles live here, one
//! file each, and see nothing but the event stream and the keyspace.

use selvedge_core::audit;
use selvedge_core::partition::Partition;

use crate::event::{Event, Phase};
use crate::plan::Config;
use crate::world::ledger::Ledger;

/// What an oracle may look at besides the event.
pub struct View<'a> {
    /// Virtual time.
    pub now_ms: u64,
    /// The part of the run.
    pub phase: Phase,
    /// The settings of the world.
    pub config: &'a Config,
    /// What each shard's primary holds.
    pub shards: &'a [audit::Snapshot],
    /// Keys that the event may have changed; empty for events that change none.
    pub touched: &'a [Vec<u8>],
    /// Everything that was ever written, and what of it was lost.
    pub ledger: &'a Ledger,
    /// Which shard serves a slot.
    pub owners: &'a dyn Fn(u16) -> usize,
}

impl View<'_> {
    /// The keyspace in which a partition lives.
    #[must_use]
    pub fn of(&self, partition: Partition) -> &audit::Snapshot {
        let shard = (self.owners)(partition.slot());
        &self.shards[shard.min(self.shards.len() - 1)]
    }
}

/// Something that should not be so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The oracle that found it.
    pub oracle: &'static str,
    /// The record, key or call that it is about.
    pub subject: String,
    /// What is wrong with it.
    pub what: String,
    /// Why it may be so all the same, naming a lost commit or a damaged key.
    pub excuse: Option<String>,
}

/// Which end of the last phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rest {
    /// Everything has come to rest.
    Begins,
    /// Two more cycles have passed.
    Ends,
}

/// A history oracle.
pub trait Oracle {
    /// Its name, by which code, planted bugs and reports refer to it.
    fn name(&self) -> &'static str;

    /// What it says, in a sentence.
    fn statement(&self) -> &'static str;

    /// Looks at one event.
    fn see(&mut self, event: &Event, view: &View<'_>);

    /// Looks at the end.
    fn rest(&mut self, _end: Rest, _view: &View<'_>) {}

    /// What it found since it was last asked.
    fn take(&mut self) -> Vec<Violation>;
}

/// Fresh oracles for one run.
#[must_use]
pub fn oracles() -> Vec<Box<dyn Oracle>> {
    Vec::new()
}

/// The state oracles' findings on one keyspace, as violations.
#[must_use]
pub fn audit(snapshot: &audit::Snapshot) -> Vec<Violation> {
    audit::judge(snapshot)
        .into_iter()
        .map(|found| Violation {
            oracle: found.oracle,
            subject: found.subject,
            what: found.what,
            excuse: None,
        })
        .collect()
}
