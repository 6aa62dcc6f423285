#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| selvedge_tests::fuzz::waitpoint_token::run(data));
