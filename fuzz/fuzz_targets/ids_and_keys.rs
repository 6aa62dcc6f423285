//! Ids and keys: whatever parses is written back as something that parses to the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use selvedge_core::id::{ExecutionId, FlowId, LaneId};
use selvedge_core::key::Key;
use selvedge_core::partition::Partition;
use selvedge_core::token::WaitpointToken;

fuzz_target!(|text: &str| {
    if let Ok(key) = text.parse::<Key>() {
        assert_eq!(key.to_string(), text);
        assert_eq!(key.to_string().parse::<Key>(), Ok(key));
    }
    if let Ok(id) = text.parse::<ExecutionId>() {
        assert_eq!(id.to_string().parse::<ExecutionId>(), Ok(id));
    }
    if let Ok(id) = text.parse::<FlowId>() {
        assert_eq!(id.to_string().parse::<FlowId>(), Ok(id));
    }
    if let Ok(partition) = text.parse::<Partition>() {
        assert_eq!(partition.to_string().parse::<Partition>(), Ok(partition));
    }
    let _ = text.parse::<LaneId>();
    let _ = text.parse::<WaitpointToken>();
});
