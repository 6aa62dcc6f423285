//! The `selvedge` command, and the daemon behind `selvedge serve`.
//!
//! Services embed the crate `selvedge` instead; this one is a library only for its tests.
//!
//! | module | what is in it |
//! | --- | --- |
//! | [`settings`] | the environment variables |
//! | [`daemon`] | an engine as a daemon |
//! | `http` | its metrics and health over HTTP |
//! | [`logging`] | log lines on standard error |
//! | [`demo`] | sample flows and workers |

mod commands;
pub mod daemon;
pub mod demo;
mod http;
pub mod logging;
mod misspelt_variables;
pub mod settings;

pub use commands::run;
