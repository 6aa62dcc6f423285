//! The `selvedge` command, run as a process: by a newcomer, by an operator, as a daemon, and as the
//! README has it.

mod demo_and_library;
mod doctor;
mod drawing;
mod dry_run;
mod fsck;
mod input;
mod kit;
mod many;
mod namespaces;
mod operate;
mod readme;
mod refusals;
mod see;
mod serve;
mod settings;
mod signals;
mod tour;
mod why;
