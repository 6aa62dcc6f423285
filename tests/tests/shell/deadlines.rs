//! Every call has a deadline; a call without an answer by then is perhaps applied, and is repeated.

use std::process::Command as Process;
use std::time::Duration;

use selvedge::client::Task;
use selvedge::store::{Store, StoreOptions};
use selvedge_core::command::{Answer, Command};
use selvedge_core::error::Class;
use selvedge_core::partition;
use selvedge_core::value::Value;
use selvedge_tests::server::Server;
use tokio::time::{sleep, timeout};

use crate::kit::{Hands, PATIENCE as SOON, block_on, client_on, engine_on, open, until, url_of};

const CALL_WITHIN: Duration = Duration::from_millis(300);

/// Stops and continues the process of a server: what arrives meanwhile, it reads afterwards.
fn signal(server: &Server, name: &str) {
    let sent = Process::new("kill").args([name, &server.pid().to_string()]).status();
    assert!(sent.unwrap().success());
}

async fn hurried(server: &Server) -> Store {
    let options = StoreOptions::default().call_within(CALL_WITHIN);
    Store::open(&url_of(server), options).await.unwrap()
}

fn command(words: &[&str]) -> Command {
    Command {
        slot: partition::slot(words[1].as_bytes()),
        argv: words.iter().map(|word| word.as_bytes().to_vec()).collect(),
        reads: false,
    }
}

#[test]
fn an_unanswered_call_is_perhaps_applied() {
    let mut server = Server::valkey().unwrap();
    block_on(async {
        let store = hurried(&server).await;
        signal(&server, "-STOP");
        let batch = vec![command(&["INCR", "late"]), command(&["INCR", "late"])];
        // The server answers nobody until it goes on: whatever comes back, a deadline sent it.
        let answers =
            timeout(SOON, store.run(batch, CALL_WITHIN)).await.expect("it has a deadline");
        signal(&server, "-CONT");
        assert_eq!(answers.len(), 2);
        for answer in answers {
            let Answer::PerhapsApplied(error) = answer else { panic!("{answer:?}") };
            assert_eq!(error.class, Class::Silence, "{error}");
        }
        // It was applied after all; and nobody sent it a second time behind our back.
        let value = || server.connect().unwrap().call(&["GET", "late"]).unwrap();
        let both = Value::Bulk(b"2".to_vec());
        until("applied", SOON, || async { value() == both }).await;
        sleep(CALL_WITHIN).await;
        assert_eq!(value(), both);

        // What never left is surely not applied.
        server.kill_9().unwrap();
        until("noticed", SOON, || async { store.connection_error().is_some() }).await;
        let answers = store.run(vec![command(&["INCR", "late"])], CALL_WITHIN).await;
        assert!(matches!(&answers[..], [Answer::NotApplied(_)]), "{answers:?}");
    });
}

/// A function call of this name arrived so often.
fn arrived(server: &Server, of: &str) -> u64 {
    let reply = server.connect().unwrap().call(&["INFO", "commandstats"]).unwrap();
    let Value::Bulk(text) = reply else { panic!("no INFO") };
    let text = String::from_utf8_lossy(&text).into_owned();
    let line = text.lines().find(|line| line.starts_with(&format!("cmdstat_{of}:calls=")));
    let calls = line.and_then(|line| line.split(['=', ',']).nth(1));
    calls.map_or(0, |calls| calls.parse().unwrap())
}

#[test]
fn a_client_repeats_a_call_that_is_perhaps_applied() {
    let server = Server::valkey().unwrap();
    block_on(async {
        let store = hurried(&server).await;
        let client = client_on(&store).await;
        // Lanes are announced before; then the one call is that which creates.
        let lane = |task: Task| task.lane("late");
        client.start(lane(Task::new("first", "ok"))).await.unwrap();
        server.connect().unwrap().call(&["CONFIG", "RESETSTAT"]).unwrap();

        signal(&server, "-STOP");
        let starting = tokio::spawn({
            let client = client.clone();
            async move { client.start(lane(Task::new("second", "ok"))).await }
        });
        // Ten times what a call may take: even a busy machine gets round to the second.
        sleep(CALL_WITHIN * 10).await;
        signal(&server, "-CONT");
        let second = starting.await.unwrap().unwrap();
        assert!(arrived(&server, "fcall") >= 2, "it was sent again");

        // The rest is not in a hurry.
        let store = open(&url_of(&server)).await;
        let client = client_on(&store).await;
        let engine = engine_on(&store).start().await.unwrap();
        let hands = Hands::steady(&client, "late");
        let outcome = client.wait_within(&second, SOON).await.unwrap();
        assert!(outcome.is_success());
        until("both ran", SOON, || async { hands.runs() == 2 }).await;
        sleep(CALL_WITHIN).await;
        assert_eq!(hands.runs(), 2, "there is one of each, however often it was asked for");
        engine.shutdown(SOON).await.unwrap();
    });
}
