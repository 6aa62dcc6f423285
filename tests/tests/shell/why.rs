//! What `why` says on every store: the same questions by the library.

use selvedge::client::{Flow, Task};
use selvedge::inspect::{DueBy, Engines, Reason, Scope, UnblockedBy, Urgency};
use selvedge::store::StoreUrl;
use selvedge_tests::server::Server;
use std::time::Duration;

use crate::kit::{Hands, PATIENCE, block_on, brisk, client_on, engine_on, open, until, url_of};

#[test]
fn it_knows_who_runs_and_what_stands_still() {
    let server = Server::valkey().unwrap();
    block_on(async {
        for url in [StoreUrl::memory(), url_of(&server)] {
            let store = open(&url).await;
            let client = client_on(&store).await;
            let flow = Flow::new("f")
                .task(Task::new("a", "ok").needs(["cuda"]))
                .task(Task::new("b", "ok").after(["a"]))
                .task(Task::new("c", "ok").delay(Duration::from_secs(3_600)));
            let flow = client.submit(flow).await.unwrap();
            let [a, b, c] = ["a", "b", "c"].map(|name| flow[name].clone());
            let why = client.explain(&a, &brisk()).await.unwrap();
            assert_eq!((why.engines, why.waits[0].reason), (Engines::Never, Reason::NoWorker));
            assert_eq!(why.namespace, "default");
            let why = client.explain(&b, &brisk()).await.unwrap();
            assert_eq!(why.waits[0].unblocked_by, UnblockedBy::Upstream(a.clone()));
            assert_eq!(why.urgency(), Urgency::Upstream);
            let many = client.explain_many(&[a.clone(), b, c], &brisk()).await.unwrap();
            assert!(matches!(many[2].waits[0].by, DueBy::Time(_)), "{many:?}");

            let causes = client.explain_flow(flow.id, &brisk()).await.unwrap().causes;
            let found: Vec<Reason> = causes.causes.iter().map(|cause| cause.reason).collect();
            assert_eq!((found, causes.dependent), (vec![Reason::NoWorker, Reason::Delay], 1));
            let scope = Scope { older_than: Duration::ZERO, all_namespaces: false, limit: 1 };
            let stalled = client.stalled(scope, &brisk()).await.unwrap();
            assert_eq!((&stalled.explanations[0].execution_id, stalled.more), (&a, 1));

            let engine = engine_on(&store).start().await.unwrap();
            let _hands = Hands::on(&client, "default");
            let told = || async {
                let why = client.explain(&a, &brisk()).await.unwrap();
                let now = &why.waits[0].now;
                why.engines == Engines::Alive(1)
                    && now.starts_with("no worker has `cuda`; 1 worker")
            };
            until("it knows the engine and the worker", PATIENCE, told).await;
            engine.shutdown(PATIENCE).await.unwrap();
            let why = client.explain(&a, &brisk()).await.unwrap();
            assert!(matches!(why.engines, Engines::GoneSince(_)), "{why:?}");
        }
    });
}
