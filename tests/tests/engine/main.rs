//! The engine on the real library, under virtual time. The expectations of `stories` are traces in
//! `stories/`.

#![expect(
    clippy::unwrap_used,
    clippy::wildcard_enum_match_arm,
    reason = "a test that meets anything unexpected has failed and says so"
)]

mod budgets_and_quotas;
mod cascade;
mod command_counts;
mod dependency_reconciler;
mod dispatch;
mod failure_tracker;
mod fixtures;
mod flow_builder;
mod flow_cancellation;
mod flow_projector;
mod flow_scanner_cases;
mod index_repair;
mod large_flows;
mod lease_expiry;
mod lost_upstream;
mod machine;
mod manual_engine;
mod quota_release;
mod retention;
mod scan_runner;
mod scanner_cases;
mod sibling_cancel_crashes;
mod sibling_cancellation;
mod sleep;
mod snapshot;
mod store_failures;
mod stories;
mod timeouts;
mod unblock;
