//! An in-process Valkey: a Lua 5.1 VM over an in-memory keyspace.
