//! The in-process host answers as Valkey does, and Redis but for what is known.

use selvedge_tests::conformance::Family;
use selvedge_tests::conformance::campaign::{Campaign, run};

#[test]
fn random_commands_do_the_same_on_the_host_and_on_real_servers() {
    compare(Family::Commands, 2000);
}

#[test]
fn random_scripts_do_the_same_on_the_host_and_on_real_servers() {
    compare(Family::Scripts, 1000);
}

fn compare(family: Family, sequences: u64) {
    let campaign = Campaign { families: vec![family], seed: 1, sequences, steps: 50 };
    if let Err(failure) = run(&campaign) {
        panic!("{failure}");
    }
}
