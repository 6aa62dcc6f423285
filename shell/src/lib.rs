//! Durable execution on Valkey.
