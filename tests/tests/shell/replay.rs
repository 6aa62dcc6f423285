//! Replays of executions whose upstreams have failed, and of flows.

use selvedge::client::{ClientError, Flow, Task};

use crate::kit::{Hands, PATIENCE, block_on, client_on, engine_on, open, until};

#[test]
fn a_skipped_task_is_replayed_with_what_it_needs() {
    block_on(async {
        let store = open(&"memory://".parse().unwrap()).await;
        let client = client_on(&store).await;
        let engine = engine_on(&store).start().await.unwrap();
        let hands = Hands::on(&client, "default");
        let flow = Flow::new("chain")
            .task(Task::new("a", "fail"))
            .task(Task::new("b", "ok").after(["a"]))
            .task(Task::new("c", "ok").after(["b"]));
        let flow = client.submit(flow).await.unwrap();
        let [a, b, c] = ["a", "b", "c"].map(|name| flow[name].clone());
        let has_ended = |count: usize| {
            let (hands, client, c) = (&hands, &client, &c);
            async move {
                let last = client.execution(c).await.unwrap();
                hands.runs() == count && last.outcome.is_some()
            }
        };
        until("the chain has ended", PATIENCE, || has_ended(1)).await;

        let refused = client.replay(&c).await.unwrap_err();
        let ClientError::NeedsUpstreams { needs, .. } = &refused else { panic!("{refused}") };
        assert_eq!((needs[0].upstream.clone(), needs[0].outcome.as_str()), (b.clone(), "skipped"));
        assert!(refused.to_string().contains(b.as_str()), "{refused}");
        assert_eq!(client.replay_needs(&a).await.unwrap(), [], "it needs nothing");

        let all = [a.clone(), b.clone(), c.clone()];
        assert_eq!(client.replay_with_upstreams(&c).await.unwrap(), all);
        until("it has ended again", PATIENCE, || has_ended(2)).await;

        assert_eq!(client.replay_flow(flow.id).await.unwrap(), all);
        until("it has ended a third time", PATIENCE, || has_ended(3)).await;
        engine.shutdown(PATIENCE).await.unwrap();
    });
}
