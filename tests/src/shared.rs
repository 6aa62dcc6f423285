//! One server of each kind for all tests of a test binary.
//!
//! A start costs more than most tests. Who shares a server shares its keyspace: use keys of your
//! own, or a [`Server`] of your own. A static is never dropped; the
//! server's keeper ends it together with the test process.

use std::sync::OnceLock;

use crate::server::{Server, ServerError};

/// The Valkey of this test binary, started by whoever asks first.
///
/// # Panics
///
/// When there is none to start: a test that finds no server fails, and says how to get one.
pub fn shared_valkey() -> &'static Server {
    static SHARED: OnceLock<Result<Server, ServerError>> = OnceLock::new();
    demand(SHARED.get_or_init(Server::valkey))
}

/// The Redis of this test binary, started by whoever asks first.
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
