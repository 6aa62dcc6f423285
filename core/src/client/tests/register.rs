use core::time::Duration;

use super::*;
use crate::capability::Capabilities;
use crate::client::{DeregisterWorker, RegisterWorker, WorkerEntry};
use crate::id::{LaneId, Namespace, WorkerId, WorkerInstanceId};
use crate::time::ServerTime;

fn entry() -> WorkerEntry {
    WorkerEntry {
        namespace: Namespace::new("ns"),
        instance: WorkerInstanceId::new("w-1"),
        worker: WorkerId::new("w"),
        lanes: alloc::vec![LaneId::default_lane()],
        kinds: Some(["a", "b"].map(String::from).into()),
        capabilities: Capabilities::default(),
        lease_ttl: Duration::from_secs(40),
    }
}

/// The words of the commands in flight, without the values of the entry.
fn sent<P: Procedure>(run: &Run<P>) -> Vec<String> {
    let commands = run.open.iter().flat_map(|(_, batch)| batch);
    let text = |word: &Vec<u8>| String::from_utf8_lossy(word).into_owned();
    commands.map(|one| one.argv.iter().take(2).map(text).collect::<Vec<_>>().join(" ")).collect()
}

/// A registration up to the sample of the index; batches are by slot, so replies are found by
/// command.
fn sampled(since: Option<ServerTime>, others: &[&str]) -> Run<RegisterWorker> {
    let mut run = Run::begin(RegisterWorker::new(entry(), since));
    assert_eq!(run.asks(), ["TIME"]);
    run.reply([fields(&["1700000000", "123456"])]);
    let written = sent(&run);
    for command in [
        "SET ff:worker:ns:w-1:alive",
        "HSET ff:worker:ns:w-1:caps",
        "PEXPIRE ff:worker:ns:w-1:caps",
        "SADD ff:idx:ns:workers",
        "SRANDMEMBER ff:idx:ns:workers",
    ] {
        assert!(written.iter().any(|one| one == command), "{command}: {written:?}");
    }
    answer(&mut run, |command| match command.argv[0].as_slice() {
        b"SRANDMEMBER" => fields(others),
        _ => Value::Int(1),
    });
    run
}

/// Answers all that is in flight.
fn answer<P: Procedure>(run: &mut Run<P>, reply: impl Fn(&Command) -> Value) {
    for (ticket, batch) in core::mem::take(&mut run.open) {
        let answers = batch.iter().map(|one| Answer::Applied(reply(one))).collect();
        run.feed(Input::Settled { ticket, answers });
    }
}

#[test]
fn expired_entries_of_other_instances_are_removed_from_the_index() {
    let mut run = sampled(None, &["w-1", "dead", "halfway", "alive"]);
    let probed = sent(&run);
    assert_eq!(probed.len(), 6, "not its own: {probed:?}");
    answer(&mut run, |command| {
        let key = String::from_utf8_lossy(&command.argv[1]).into_owned();
        Value::Int(i64::from(key.contains(":alive:") || key == "ff:worker:ns:halfway:caps"))
    });
    assert_eq!(sent(&run), ["SREM ff:idx:ns:workers"]);
    assert_eq!(run.open[0].1[0].argv[2..], [b"dead".to_vec()]);
    run.reply([Value::Int(1)]);
    assert_eq!(run.result(), Some(Ok(ServerTime(1_700_000_000_123))));
}

#[test]
fn a_registration_without_others_writes_its_entry_alone() {
    let mut run = sampled(Some(ServerTime(7)), &["w-1"]);
    assert_eq!(run.result(), Some(Ok(ServerTime(7))), "the time of the first one stays");
    let mut run = sampled(None, &["other"]);
    answer(&mut run, |_| Value::Int(1));
    assert!(matches!(run.result(), Some(Ok(_))));
}

#[test]
fn an_entry_outlives_two_registrations_that_failed() {
    let short = WorkerEntry { lease_ttl: Duration::from_secs(1), ..entry() };
    for (entry, ttl) in [(entry(), 80), (short, 60)] {
        assert_eq!(entry.ttl(), Duration::from_secs(ttl));
        assert!(entry.interval() * 3 <= entry.ttl() && entry.interval() * 4 > entry.ttl());
    }
}

#[test]
fn a_deregistration_removes_all_keys_of_the_instance() {
    let mut run = Run::begin(DeregisterWorker::new(entry()));
    let mut removed = sent(&run);
    removed.sort();
    let alive_and_capabilities = ["DEL ff:worker:ns:w-1:alive", "DEL ff:worker:ns:w-1:caps"];
    assert_eq!(removed[..2], alive_and_capabilities);
    assert_eq!(removed[2..], ["SREM ff:idx:ns:workers"]);
    answer(&mut run, |_| Value::Int(1));
    assert_eq!(run.result(), Some(Ok(())));
}
