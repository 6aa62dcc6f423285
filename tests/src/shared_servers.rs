//! One server of each kind for all tests of a test binary.
//!
//! Starting a server takes longer than most tests. Tests that share a server share its keyspace, so
//! they use keys of their own. A static is never dropped; the server's guard ends it with the test
//! process.

use std::sync::OnceLock;

use crate::server::{Server, ServerError};

/// The Valkey of this test binary, started at the first call.
///
/// # Panics
///
/// When there is none to start: a test that finds no server fails, and says how to get one.
pub fn shared_valkey() -> &'static Server {
    static SHARED: OnceLock<Result<Server, ServerError>> = OnceLock::new();
    demand(SHARED.get_or_init(Server::valkey))
}

/// The Redis of this test binary, started at the first call.
///
/// # Panics
///
/// When there is none to start: a test that finds no server fails, and says how to get one.
pub fn shared_redis() -> &'static Server {
    static SHARED: OnceLock<Result<Server, ServerError>> = OnceLock::new();
    demand(SHARED.get_or_init(Server::redis))
}

fn demand(started: &Result<Server, ServerError>) -> &Server {
    started.as_ref().unwrap_or_else(|error| panic!("{error}"))
}
