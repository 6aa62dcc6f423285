//! Seeded simulations of Selvedge: the same core and the same Lua under virtual time.
//!
//! [`rig`] puts engines on the in-process host and moves the clock; [`run`] draws a small world
//! from a seed, lets workers and engines die in it, and says whether every task ended all the same.

pub mod rig;
pub mod run;
