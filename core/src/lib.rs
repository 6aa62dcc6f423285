//! The pure heart of Selvedge.
//!
//! Nothing here does I/O, reads a clock, draws a random number or logs. The crate is `no_std`, so
//! that none of those can even be named.
#![no_std]

extern crate alloc;

pub mod value;
