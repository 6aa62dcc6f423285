//! The `selvedge` command, and the daemon behind `selvedge serve`.
//!
//! Services embed the crate `selvedge` instead; this one is a library only for its tests.
//!
//! | module | what is in it |
//! | --- | --- |
//! | [`settings`] | the environment variables |
//! | [`serve`] | an engine as a daemon, with metrics and health over HTTP |
//! | [`logging`] | log lines on standard error |
//! | [`demo`] | sample flows and workers |

mod commands;
pub mod demo;
pub mod logging;
mod misspelt_variables;
pub mod serve;
pub mod settings;

pub use commands::run;
