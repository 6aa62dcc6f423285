//! The pure heart of Selvedge: what the wire says, and nothing that touches a wire.
//!
//! | room | what is in it |
//! | --- | --- |
//! | [`id`] | identifiers and their parse rules |
//! | [`partition`] | partition families, CRC16, hash slots |
//! | [`key`] | every key of the keyspace, written and read |
//! | [`state`] | the execution state vector and its table of legal transitions |
//! | [`object`] | values that are written as objects, and in no other way |
//! | [`policy`] | policies stored with an execution |
//! | [`completion`] | the message that announces the end of a flow member |
//! | [`token`] | signed waitpoint tokens |
//! | [`value`] | a reply, whatever carried it |
//! | [`error`] | the contract's codes and the classes of failure |
//! | [`call`] | one type per store function: name, keys, arguments, reply |
//! | [`engine`] | the engine: cadence, scanners, dispatch, recovery |
//! | [`audit`] | what must be true of a keyspace at any moment |
//! | [`why`] | why an execution is where it is |
//!
//! Nothing here does I/O, reads a clock, draws a random number or logs. The crate is `no_std`, so
//! that none of those can even be named. Parsing is total: any input gives a typed result or a
//! typed error.
#![no_std]

extern crate alloc;

#[macro_use]
mod words;

#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "there are many kinds of keys; an oracle names those that it is about"
)]
pub mod audit;
pub mod call;
pub mod capability;
pub mod completion;
pub mod engine;
pub mod error;
pub mod id;
pub mod key;
pub mod object;
pub mod partition;
pub mod policy;
pub mod push;
pub mod state;
pub mod time;
pub mod token;
pub mod value;
pub mod why;
