//! Deterministic simulation of Selvedge: the same engine and the same Lua functions as in
//! production, on virtual time.
//!
//! A seed generates a [`plan`], the [`runner`] runs it, [`oracle`]s check every event, and the run
//! ends with a result and a hash over all events ([`trace`]) that is the same on every machine.
//!
//! When a seed fails, [`report`] describes the failure, [`shrink_plan`] makes the plan small and
//! [`failure_store`] saves it. [`story`] holds plans written by hand and repeats them with crashes;
//! [`soak`] runs many seeds. [`search`] has the parts of random testing that other test programs
//! use too.
//!
//! [`harness`] is smaller: engines on the in-process host, with a clock that a test moves.

pub mod actor;
pub mod canary;
pub mod event;
pub mod failure;
pub mod failure_store;
pub mod fault;
pub mod format;
pub mod harness;
pub mod html;
pub mod mark;
pub mod model;
pub mod oracle;
pub mod plan;
pub mod profile;
pub mod report;
pub mod runner;
pub mod search;
pub mod shrink_plan;
pub mod soak;
pub mod story;
pub mod trace;
pub mod world;
