//! Documents from outside: policies and completion messages.
#![no_main]

use libfuzzer_sys::fuzz_target;
use selvedge_core::completion::Completion;
use selvedge_core::policy::ExecutionPolicy;

fuzz_target!(|bytes: &[u8]| {
    let _ = Completion::read(bytes);
    if let Ok(policy) = ExecutionPolicy::read(bytes) {
        // What was read can be written and read again.
        let _ = ExecutionPolicy::read(policy.to_json().as_bytes()).expect("own writing");
    }
});
