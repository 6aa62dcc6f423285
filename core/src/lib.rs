//! The pure part of Selvedge: the wire protocol and all decisions, without any I/O.
//!
//! | module | what is in it |
//! | --- | --- |
//! | [`id`] | identifiers and their parse rules |
//! | [`partition`] | partition families, CRC16, hash slots |
//! | [`key`] | every key of the keyspace, built and parsed |
//! | [`state`] | the execution state vector and its table of legal transitions |
//! | [`strict_json`] | values that are read from JSON objects only, never from arrays |
//! | [`policy`] | policies stored with an execution |
//! | [`completion`] | the message that announces the end of a flow member |
//! | [`token`] | signed waitpoint tokens |
//! | [`value`] | a reply of a store |
//! | [`error`] | the contract's error codes and the classes of failures |
//! | [`admission`] | whether a budget has room and a quota admits |
//! | [`retry`] | whether a failed call may be repeated, and after which delay |
//! | [`call`] | one type per store function: name, keys, arguments, reply |
//! | [`client`] | the client's procedures: submit, wait, signal, cancel, limits |
//! | [`eligible_score`] | the order in which a lane's executions are claimed |
//! | [`command`] | a command for a store, and what became of it |
//! | [`reply`] | reads replies of plain commands |
//! | [`requests`] | commands in flight, for every machine: batches, tickets, deadlines |
//! | [`engine`] | the engine: cadence, scanners, dispatch, recovery |
//! | [`worker`] | the worker: claims, leases, admission, reports, drain |
//! | [`doctor`] | what the settings of servers mean for durable work |
//! | [`audit`] | invariants of a keyspace |
//! | [`explain`] | why an execution is in its state |
//!
//! Nothing here does I/O, reads a clock, draws a random number or logs. The crate is `no_std`, so
//! that none of those can even be named. Parsing is total: any input gives a typed result or a
//! typed error.
#![no_std]

extern crate alloc;

#[macro_use]
mod wire_enum;

pub mod admission;
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "there are many kinds of keys; an oracle names those that it is about"
)]
pub mod audit;
pub mod call;
pub mod capability;
pub mod client;
pub mod command;
pub mod completion;
pub mod doctor;
pub mod eligible_score;
pub mod engine;
pub mod error;
pub mod explain;
pub mod id;
pub mod key;
pub mod lane_state;
pub mod partition;
pub mod policy;
pub mod push;
pub mod repair;
pub mod reply;
pub mod requests;
pub mod retry;
pub mod state;
pub mod strict_json;
pub mod time;
pub mod token;
pub mod value;
pub mod work_filter;
pub mod worker;
