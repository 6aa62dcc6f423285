//! An in-process Valkey: a Lua 5.1 VM over an in-memory keyspace.

#[allow(dead_code, unused_imports, reason = "the virtual machine is about to stand on it")]
mod command;
#[allow(dead_code, unused_imports, reason = "the virtual machine is about to stand on it")]
mod keyspace;
#[allow(dead_code, reason = "the virtual machine is about to stand on it")]
mod number;
