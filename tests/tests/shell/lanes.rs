//! Lanes are paused, resumed, drained and forgotten, on every kind of store.

use std::time::Duration;

use selvedge::client::{Client, ClientError, PublicState, Task};
use selvedge::store::Store;
use selvedge_core::client::LaneForgotten;
use selvedge_core::id::{ExecutionId, LaneId};
use selvedge_core::lane_state::{LaneState, LaneStates};
use selvedge_tests::cluster::Cluster;
use selvedge_tests::server::Server;

use crate::kit::{
    Hands, PATIENCE, block_on, brisk, client_on, engine_on, open, until, url_of, url_of_cluster,
};

fn lane() -> LaneId {
    "mail".parse().unwrap()
}

async fn start(client: &Client) -> ExecutionId {
    client.start(Task::new("task", "ok").lane("mail")).await.unwrap()
}

async fn is_waiting(client: &Client, id: &ExecutionId) -> bool {
    client.execution(id).await.unwrap().state == Some(PublicState::Waiting)
}

/// Workers stop claiming at once if the push arrives, and after [`LaneStates::FRESH_FOR`] else.
async fn a_paused_lane_stands_still(store: Store) {
    let client = client_on(&store).await;
    let engine = engine_on(&store).start().await.unwrap();
    let hands = Hands::steady(&client, "mail");
    client.wait_within(&start(&client).await, PATIENCE).await.unwrap();

    assert_eq!(client.pause_lane(&lane()).await.unwrap(), LaneState::Active);
    assert_eq!(client.pause_lane(&lane()).await.unwrap(), LaneState::Paused, "again");
    tokio::time::sleep(LaneStates::FRESH_FOR + Duration::from_secs(1)).await;
    let (runs, held) = (hands.runs(), start(&client).await);
    // A worker that starts now reads it first.
    let more = Hands::steady(&client, "mail");
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert!(is_waiting(&client, &held).await);
    assert_eq!((hands.runs(), more.runs()), (runs, 0));
    let why = client.explain(&held, &brisk()).await.unwrap();
    assert!(why.headline.contains("lane mail is paused"), "{}", why.headline);

    assert_eq!(client.resume_lane(&lane()).await.unwrap(), LaneState::Paused);
    client.wait_within(&held, PATIENCE).await.unwrap();
    engine.shutdown(PATIENCE).await.unwrap();
}

/// A client reads the state again after [`LaneStates::FRESH_FOR`].
async fn a_draining_lane_accepts_nothing_and_is_forgotten(store: Store) {
    let client = client_on(&store).await;
    let waits = start(&client).await;
    client.drain_lane(&lane()).await.unwrap();
    tokio::time::sleep(LaneStates::FRESH_FOR).await;
    let refused = client.start(Task::new("late", "ok").lane("mail")).await;
    assert!(matches!(refused, Err(ClientError::LaneDraining { lane: of }) if of == lane()));
    assert!(matches!(client.forget_lane(&lane()).await.unwrap(), LaneForgotten::InUse(1..)));

    // What is there goes on. Its retention is over at once.
    client.cancel(&waits, "not needed").await.unwrap();
    let config = brisk().with_retention(Duration::from_millis(1));
    let engine = engine_on(&store).config(config).start().await.unwrap();
    until("the lane is empty", PATIENCE, || async {
        client.forget_lane(&lane()).await.unwrap() == LaneForgotten::Forgotten
    })
    .await;
    assert!(!client.lanes().await.unwrap().contains(&lane()));
    assert_eq!(client.lane_states().await.unwrap(), LaneStates::default());

    // A later use brings it back, also that of a client that has used it before.
    let hands = Hands::steady(&client, "other");
    let id = start(&client).await;
    assert!(client.lanes().await.unwrap().contains(&lane()));
    assert!(is_waiting(&client, &id).await);
    assert_eq!(hands.runs(), 0);
    engine.shutdown(PATIENCE).await.unwrap();
}

async fn both(store: Store) {
    a_paused_lane_stands_still(store.clone()).await;
    a_draining_lane_accepts_nothing_and_is_forgotten(store).await;
}

#[test]
fn lanes_in_memory() {
    block_on(async { both(open(&"memory://".parse().unwrap()).await).await });
}

#[test]
fn lanes_on_a_server() {
    let server = Server::valkey().unwrap();
    block_on(async { both(open(&url_of(&server)).await).await });
}

#[test]
fn lanes_on_a_cluster() {
    let cluster = Cluster::start(3).unwrap();
    block_on(async { both(open(&url_of_cluster(&cluster)).await).await });
}
