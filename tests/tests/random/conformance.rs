//! The in-process host answers as Valkey does; Redis differs only where it is known to.

use selvedge_sim::search::Draws;
use selvedge_tests::conformance::Family;
use selvedge_tests::conformance::run::{ConformanceRun, run};
use selvedge_tests::conformance::slot_moves::MovingSlot;
use selvedge_tests::server::Kind;

#[test]
fn random_commands_do_the_same_on_the_host_and_on_real_servers() {
    compare(Family::Commands, 2000);
}

#[test]
fn random_scripts_do_the_same_on_the_host_and_on_real_servers() {
    compare(Family::Scripts, 1000);
}

#[test]
fn a_moving_slot_is_served_as_by_two_nodes_of_a_cluster() {
    for kind in [Kind::Valkey, Kind::Redis] {
        let mut slot = MovingSlot::start(kind).unwrap();
        for seed in 0..200 {
            let steps = slot.draw(&mut Draws::seeded(seed, 0), 40);
            if let Err(failure) = slot.run(&steps) {
                panic!("{kind}, seed {seed}: {failure}");
            }
        }
    }
}

fn compare(family: Family, sequences: u64) {
    let options = ConformanceRun { families: vec![family], seed: 1, sequences, steps: 50, jobs: 1 };
    if let Err(failure) = run(&options) {
        panic!("{failure}");
    }
}
