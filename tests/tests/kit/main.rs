//! Tests of the test kit: the servers that it starts, the spec runner, and its programs.

mod programs;
mod servers;
mod spec_runner;
