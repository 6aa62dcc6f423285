//! What a client's connection remembers between two calls: its open transaction, and that it has
//! said ASKING.

/// One client of a host. Several may take turns on the same host.
#[derive(Clone, Debug, Default)]
pub struct Session {
    pub(crate) transaction: Option<Transaction>,
    /// The next command, or the open transaction, may use a slot that this node is importing.
    pub(crate) asking: bool,
}

/// Commands queued since MULTI.
#[derive(Clone, Debug, Default)]
pub(crate) struct Transaction {
    pub(crate) queue: Vec<Vec<Vec<u8>>>,
    /// A command was refused while queueing: EXEC will run none.
    pub(crate) broken: bool,
}

impl Session {
    /// A fresh connection.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether MULTI was called, and neither EXEC nor DISCARD since.
    #[must_use]
    pub fn in_transaction(&self) -> bool {
        self.transaction.is_some()
    }
}
