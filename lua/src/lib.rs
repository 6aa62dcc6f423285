//! The Selvedge function library for Valkey as text, and an in-process Valkey that runs it.
//!
//! [`library`] holds the text that `FUNCTION LOAD` takes, its revision and its digest; it has no
//! dependencies. The module `host`, behind the feature of that name, is a Lua 5.1 VM over an
//! in-memory keyspace. The feature `send`, on by default, implies `host` and lets a host move
//! between threads.

mod assemble;
#[cfg(feature = "host")]
pub mod host;
pub mod library;
