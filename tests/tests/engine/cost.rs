//! Counted cost: commands and round trips, which are stable where times are not.

use selvedge_core::engine::EngineConfig;
use selvedge_tests::rig::Rig;

#[test]
fn an_idle_engine_costs_at_most_300_commands_a_second() {
    let mut rig = Rig::new();
    rig.start(EngineConfig::default());
    rig.run_for(60_000);
    let before = rig.commands;
    rig.run_for(60_000);
    let per_second = (rig.commands - before) / 60;
    println!("idle, 256 partitions, one lane, default intervals: {per_second} commands/s");
    assert!(per_second <= 300, "{per_second} commands a second");
}
