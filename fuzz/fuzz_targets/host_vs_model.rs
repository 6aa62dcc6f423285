#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| selvedge_tests::fuzz::host_vs_model::run(data));
