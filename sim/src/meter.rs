//! Where the time of a run goes. Nothing is measured unless somebody brings a clock: the simulator
//! itself knows none.

use std::collections::BTreeMap;

/// What a run spends time on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Making the world, and taking it apart.
    Setup,
    /// The heap, the links, workers and callers.
    World,
    /// The library and the keyspace.
    Store,
    /// The engines.
    Engines,
    /// Oracles over the keyspace.
    StateOracles,
    /// Oracles over the events, the model, and marks.
    HistoryOracles,
    /// The trace and its hash.
    Trace,
}

impl Part {
    /// All of them, with what they are called.
    pub const ALL: [(Self, &'static str); 7] = [
        (Self::Store, "Lua and the keyspace"),
        (Self::Engines, "engines"),
        (Self::World, "links, workers, callers"),
        (Self::HistoryOracles, "history oracles, the model, marks"),
        (Self::StateOracles, "state oracles"),
        (Self::Trace, "trace"),
        (Self::Setup, "making worlds"),
    ];
}

/// A clock in nanoseconds.
pub type Clock = fn() -> u64;

/// What a run spent.
#[derive(Clone, Debug, Default)]
pub struct Spent {
    /// Nanoseconds per part, in the order of [`Part`].
    pub parts: [u64; Part::ALL.len()],
    /// Calls of each function of the store, or command, and nanoseconds spent on them.
    pub calls: BTreeMap<String, (u64, u64)>,
}

/// Tells the parts of a run apart in time.
#[derive(Debug)]
pub(crate) struct Meter {
    clock: Option<Clock>,
    part: Part,
    since: u64,
    spent: Spent,
}

impl Meter {
    /// Begins with the setup.
    pub(crate) fn start(clock: Option<Clock>) -> Self {
        let since = clock.map_or(0, |clock| clock());
        Self { clock, part: Part::Setup, since, spent: Spent::default() }
    }

    /// What comes next is another part; answers which it was so far, to turn back to.
    pub(crate) fn turn_to(&mut self, part: Part) -> Part {
        if let Some(clock) = self.clock {
            let now = clock();
            self.spent.parts[self.part as usize] += now.saturating_sub(self.since);
            self.since = now;
        }
        std::mem::replace(&mut self.part, part)
    }

    /// Turns back from the store, which carried out this command.
    pub(crate) fn turn_back(&mut self, part: Part, argv: &[Vec<u8>]) {
        let before = self.spent.parts[Part::Store as usize];
        self.turn_to(part);
        if self.clock.is_some() {
            let is_function = argv.first().is_some_and(|name| name.eq_ignore_ascii_case(b"FCALL"));
            let name = argv.get(usize::from(is_function)).map_or(&[][..], Vec::as_slice);
            let name = String::from_utf8_lossy(name).into_owned();
            let (calls, ns) = self.spent.calls.entry(name).or_default();
            *calls += 1;
            *ns += self.spent.parts[Part::Store as usize] - before;
        }
    }

    /// What was spent so far.
    pub(crate) fn spent(&mut self) -> Spent {
        self.turn_to(self.part);
        self.spent.clone()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    #[test]
    fn every_nanosecond_belongs_to_one_part() {
        static NOW: AtomicU64 = AtomicU64::new(0);
        let mut meter = Meter::start(Some(|| NOW.fetch_add(10, Ordering::Relaxed)));
        let before = meter.turn_to(Part::Store);
        assert_eq!(before, Part::Setup);
        meter.turn_to(before);
        let spent = meter.spent().parts;
        assert_eq!((spent[Part::Setup as usize], spent[Part::Store as usize]), (20, 10));
        assert_eq!(spent.iter().sum::<u64>(), 30);
    }
}
