//! Short schedules of faults against real processes. The program `live` runs long ones.

mod faults;
mod schedules;
