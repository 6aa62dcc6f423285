//! The in-process host answers as Valkey does, and Redis but for what is known.

use selvedge_tests::conformance::Family;
use selvedge_tests::conformance::campaign::{Campaign, run};

#[test]
fn random_scripts_do_the_same_on_the_host_and_on_real_servers() {
    let campaign =
        Campaign { families: vec![Family::Scripts], seed: 1, sequences: 1000, steps: 50 };
    if let Err(failure) = run(&campaign) {
        panic!("{failure}");
    }
}
