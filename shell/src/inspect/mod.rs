//! Looking at what is there: lanes, workers, the graph of a flow, why something waits, and whether
//! the data is sound. All reads are bounded and pipelined; none of them changes anything.

mod due;
pub mod fsck;
mod graph;
mod lanes;
mod rehearsal;
mod round;
mod why;
mod workers;

pub use due::DueCount;
pub use graph::{FlowGraph, Join, Node};
pub use lanes::LaneCounts;
pub use round::{Round, one_round};
pub use workers::WorkerSeen;
