//! Seeded simulations of Selvedge: the same core and the same Lua under virtual time.
//!
//! A seed writes a [`plan`], the plan is run ([`runner`]), every event is judged ([`oracle`]), and
//! the run ends in a verdict and a hash ([`trace`]) that is the same every time.
//!
//! When a seed fails, [`report`] says how, [`shrink`] makes its plan small and [`shelf`] keeps it;
//! [`story`] holds plans written by hand and sweeps them with crashes; [`campaign`] runs very many.
//!
//! [`rig`] is smaller: engines on the in-process host and a clock that a test moves.

pub mod actor;
pub mod campaign;
pub mod canary;
pub mod event;
pub mod failure;
pub mod fault;
pub mod mark;
pub mod meter;
pub mod model;
pub mod oracle;
pub mod page;
pub mod plan;
pub mod report;
pub mod rig;
pub mod runner;
pub mod say;
pub mod shelf;
pub mod shrink;
pub mod story;
pub mod trace;
pub mod world;
