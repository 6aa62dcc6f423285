//! Short schedules of faults against real processes. The program `live` runs long ones.

mod fault_injection;
mod schedules;
