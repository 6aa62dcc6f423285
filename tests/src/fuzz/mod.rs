//! The bodies of the fuzz targets: functions of any bytes, which panic on a finding.
//!
//! They are ordinary functions, so that stable Rust can replay every corpus; `fuzz/` hands them to
//! libFuzzer.

pub mod accepted_input;
pub mod completion_payload;
pub mod engine_inputs;
pub mod feedback;
pub mod flow_file;
pub mod host_vs_model;
pub mod ids_and_keys;
pub mod lua_call;
mod machine_run;
pub mod plan_file;
pub mod policy_json;
pub mod reply_notation;
pub mod reply_parse;
pub mod resp_value;
mod responses;
pub mod store_url;
pub mod waitpoint_token;
pub mod worker_inputs;

/// A fuzz target: it takes any bytes, and panics when a promise is broken.
pub type Target = fn(&[u8]);

/// All targets, by the names of their corpora and of their files in `fuzz/fuzz_targets/`.
pub const TARGETS: &[(&str, Target)] = &[
    ("completion_payload", completion_payload::run),
    ("engine_inputs", engine_inputs::run),
    ("flow_file", flow_file::run),
    ("host_vs_model", host_vs_model::run),
    ("ids_and_keys", ids_and_keys::run),
    ("lua_call", lua_call::run),
    ("plan_file", plan_file::run),
    ("policy_json", policy_json::run),
    ("reply_parse", reply_parse::run),
    ("resp_value", resp_value::run),
    ("store_url", store_url::run),
    ("waitpoint_token", waitpoint_token::run),
    ("worker_inputs", worker_inputs::run),
];
