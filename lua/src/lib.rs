//! The Selvedge function library, and an in-process Valkey that runs it.

mod assemble;
pub mod host;
pub mod library;
