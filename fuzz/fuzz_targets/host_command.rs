//! The in-process host takes any command: never a panic, and reading never changes anything.
#![no_main]

use libfuzzer_sys::fuzz_target;
use selvedge_lua::host::{Host, HostConfig};

fuzz_target!(|commands: Vec<Vec<Vec<u8>>>| {
    let mut host = Host::new(HostConfig::default());
    for command in commands.iter().take(32) {
        host.call(command);
    }
    let digest = host.digest();
    for command in [&["DBSIZE"][..], &["SCAN", "0"], &["KEYS", "*"]] {
        host.call(command);
    }
    assert_eq!(host.digest(), digest);
});
