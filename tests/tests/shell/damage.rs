//! A few seeds of the damage campaign; `damage` runs more of them.

use selvedge_tests::damage::{Place, run};

use crate::kit::block_on;

#[test]
fn damaged_work_ends_or_is_named() {
    for place in [Place::Memory, Place::Valkey] {
        let report = block_on(run(place, (0..12).collect(), 4)).unwrap();
        assert!(report.failures.is_empty(), "{place:?}:\n{report}");
    }
}
