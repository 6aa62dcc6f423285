//! The engine against the real library, in virtual time: stories with readable traces.

mod cost;
mod due;
mod kit;
