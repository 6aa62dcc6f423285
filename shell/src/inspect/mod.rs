//! Reads for operators: lanes, workers, flow graphs, explanations of what an execution waits for,
//! lists of executions by a filter, and checks of the data. Reads are bounded and pipelined. Only
//! [`scan_once`] and [`Client::change_many`](crate::client::Client::change_many) write.

mod bulk;
mod details;
mod doctor;
mod dry_run;
mod due_counts;
mod engines;
mod explain;
mod explain_flow;
mod failures;
mod flow_graph;
mod flow_progress;
mod flow_search;
pub mod fsck;
mod lane_counts;
mod listing;
mod scan_once;
mod stalled;
mod workers;

pub use bulk::{BulkAction, BulkProgress, BulkReport, BulkStep};
pub use details::{Attempt, ExecutionDetails};
pub use doctor::examine;
pub use due_counts::DueCount;
pub use engines::EngineStatus;
pub use explain_flow::FlowExplanation;
pub use failures::{FailureGroup, Failures};
pub use flow_graph::{FlowGraph, Join, Node};
pub use flow_progress::FlowProgress;
pub use flow_search::{FlowFilter, FlowListCursor, FlowPage, FoundFlow};
pub use lane_counts::LaneCounts;
pub use listing::{
    ExecutionCount, ExecutionFilter, ExecutionPage, FoundExecution, InvalidCondition,
    InvalidCursor, ListCursor, ReasonText,
};
pub use scan_once::{ScanReport, scan_once};
pub use selvedge_core::doctor::{Finding, Severity};
pub use selvedge_core::explain::{
    Cause, Causes, DueBy, Engines, Explanation, FullLimit, LostCause, Reason, UnblockedBy, Urgency,
    Wait,
};
pub use stalled::{Scope, Stalled};
pub use workers::WorkerStatus;
