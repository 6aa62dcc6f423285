//! The Selvedge function library, and an in-process Valkey that runs it.

pub mod host;
