//! The live harness: short schedules of faults against real processes, and what the harness says of
//! itself. The binary `live` plays long ones.

mod faults;
mod program;
mod schedules;
