//! Durable execution on Valkey.
//!
//! What is here so far is the smallest whole: [`embedded::Embedded`] runs the engine on the
//! in-process store, in real time, and [`demo`] shows it at work.

pub mod demo;
pub mod embedded;
