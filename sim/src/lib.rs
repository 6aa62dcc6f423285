//! Seeded simulations of Selvedge: the same core and the same Lua under virtual time.
//!
//! A seed writes a [`plan`], the plan is run ([`runner`]), every event is judged ([`oracle`]), and
//! the run ends in a verdict and a hash ([`trace`]) that is the same every time.
//!
//! [`rig`] is smaller: engines on the in-process host and a clock that a test moves.

pub mod actor;
pub mod canary;
pub mod event;
pub mod fault;
pub mod mark;
pub mod model;
pub mod oracle;
pub mod plan;
pub mod rig;
pub mod runner;
pub mod trace;
pub mod world;
