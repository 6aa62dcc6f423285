//! Planted bugs: what an oracle must find, or it is decoration.

/// A bug to plant into a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Plant {
    /// In the text of the library: every occurrence of `from` becomes `to`.
    Lua {
        /// What stands there; it must occur.
        from: &'static str,
        /// What is put in its place.
        to: &'static str,
    },
    /// In what an engine is told or wants.
    Engine(EngineBug),
    /// In the world itself.
    World(WorldBug),
}

/// A bug in what an engine is told or wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EngineBug {
    /// Every cancel before a drain is dropped and answered as done.
    CancelsDropped,
}

/// A bug in the world itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorldBug {
    /// A failover forgets to say what it lost.
    LossNotNamed,
}
