//! The in-process host answers as Valkey does; Redis differs only where it is known to.

use selvedge_tests::conformance::Family;
use selvedge_tests::conformance::run::{ConformanceRun, run};

#[test]
fn random_commands_do_the_same_on_the_host_and_on_real_servers() {
    compare(Family::Commands, 2000);
}

#[test]
fn random_scripts_do_the_same_on_the_host_and_on_real_servers() {
    compare(Family::Scripts, 1000);
}

fn compare(family: Family, sequences: u64) {
    let options = ConformanceRun { families: vec![family], seed: 1, sequences, steps: 50, jobs: 1 };
    if let Err(failure) = run(&options) {
        panic!("{failure}");
    }
}
