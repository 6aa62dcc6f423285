//! Measures where the time of a run goes, if the caller provides a clock. The simulator itself has
//! none.

use std::collections::BTreeMap;

/// What a run spends time on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Setting up the world, and taking it apart.
    Setup,
    /// The event queue, links, workers and callers.
    World,
    /// Lua functions and the keyspace.
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
    /// All parts, with their names.
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

/// The time a run took, by part and by call.
#[derive(Clone, Debug, Default)]
pub struct TimeSpent {
    /// Nanoseconds per part, in the order of [`Part`].
    pub parts: [u64; Part::ALL.len()],
    /// For each function or command: the number of calls, and nanoseconds.
    pub calls: BTreeMap<String, (u64, u64)>,
}

/// Measures the time of each part.
#[derive(Debug)]
pub(crate) struct Profiler {
    clock: Option<Clock>,
    part: Part,
    since: u64,
    spent: TimeSpent,
}

impl Profiler {
    /// Starts in the setup part.
    pub(crate) fn start(clock: Option<Clock>) -> Self {
        let since = clock.map_or(0, |clock| clock());
        Self { clock, part: Part::Setup, since, spent: TimeSpent::default() }
    }

    /// Enters another part; returns the previous one.
    pub(crate) fn enter(&mut self, part: Part) -> Part {
        if let Some(clock) = self.clock {
            let now = clock();
            self.spent.parts[self.part as usize] += now.saturating_sub(self.since);
            self.since = now;
        }
        std::mem::replace(&mut self.part, part)
    }

    /// Leaves the store, which applied this command, for another part.
    pub(crate) fn leave_store(&mut self, part: Part, argv: &[Vec<u8>]) {
        let before = self.spent.parts[Part::Store as usize];
        self.enter(part);
        if self.clock.is_some() {
            let is_function = argv.first().is_some_and(|name| name.eq_ignore_ascii_case(b"FCALL"));
            let name = argv.get(usize::from(is_function)).map_or(&[][..], Vec::as_slice);
            let name = String::from_utf8_lossy(name).into_owned();
            let (calls, ns) = self.spent.calls.entry(name).or_default();
            *calls += 1;
            *ns += self.spent.parts[Part::Store as usize] - before;
        }
    }

    /// The time spent so far.
    pub(crate) fn spent(&mut self) -> TimeSpent {
        self.enter(self.part);
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
        let mut profiler = Profiler::start(Some(|| NOW.fetch_add(10, Ordering::Relaxed)));
        let before = profiler.enter(Part::Store);
        assert_eq!(before, Part::Setup);
        profiler.enter(before);
        let spent = profiler.spent().parts;
        assert_eq!((spent[Part::Setup as usize], spent[Part::Store as usize]), (20, 10));
        assert_eq!(spent.iter().sum::<u64>(), 30);
    }
}
