//! The workers of the demo, and what they do.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Notify, mpsc};
use tokio::task::JoinHandle;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use super::Lanes;
use crate::client::{Client, ClientError, Signal};
use crate::worker::{Context, Done, Failed, Suspend, SuspensionReason, Worker, WorkerBuilder};

/// Where everybody tells what they do.
type Tell = mpsc::Sender<String>;

/// Everybody at work.
pub(super) struct Staff {
    stop: CancellationToken,
    workers: Vec<JoinHandle<Result<(), ClientError>>>,
    _fate: AbortOnDropHandle<()>,
}

impl Staff {
    /// Two workers do the work; a third one takes one task, and is killed as soon as it has it.
    pub(super) fn hire(client: &Client, lanes: &Lanes, tell: &Tell) -> Self {
        let stop = CancellationToken::new();
        let worker = |name: &str| {
            let worker = Worker::builder(client.clone()).name(name).lease(LEASE);
            worker.drain_within(Duration::from_millis(500))
        };
        let mut workers = Vec::new();
        for name in [FIRST, SECOND] {
            let worker = everything(worker(name).lane(&lanes.all), name, tell);
            workers.push(tokio::spawn(worker.run_until(stop.clone())));
        }
        let started = Arc::new(Notify::new());
        let (begun, said) = (started.clone(), tell.clone());
        let doomed = worker(DOOMED).lane(&lanes.mortal).handler("mortal", move |_: Context| {
            let (begun, said) = (begun.clone(), said.clone());
            async move {
                say(&said, DOOMED, "starts `mortal`, and is killed in the middle of it").await;
                begun.notify_one();
                std::future::pending::<Result<(), Failed>>().await
            }
        });
        let doomed = tokio::spawn(doomed.run_until(stop.clone()));
        let heir = mortal(worker(SECOND).lane(&lanes.mortal), SECOND, tell);
        let heir_stop = stop.clone();
        let fate = tokio::spawn(async move {
            started.notified().await;
            doomed.abort();
            // Errors are no surprise here: without a store there is no demo.
            let _ = heir.run_until(heir_stop).await;
        });
        Self { stop, workers, _fate: AbortOnDropHandle::new(fate) }
    }

    /// Lets everybody finish.
    pub(super) async fn dismiss(self) {
        self.stop.cancel();
        for worker in self.workers {
            let _ = worker.await;
        }
    }
}

/// One who can do everything but be killed.
fn everything(worker: WorkerBuilder, name: &'static str, tell: &Tell) -> WorkerBuilder {
    let [one, two, three, four] = [tell.clone(), tell.clone(), tell.clone(), tell.clone()];
    ["fetch", "render", "publish", "agree"]
        .into_iter()
        .fold(worker, |worker, kind| {
            let tell = one.clone();
            worker.handler(kind, move |context: Context| simple(context, name, tell.clone()))
        })
        .handler("mirror", move |context: Context| mirror(context, name, two.clone()))
        .handler("flaky", move |context: Context| flaky(context, name, three.clone()))
        .handler("approve", move |context: Context| approve(context, name, four.clone()))
}

async fn simple(context: Context, name: &str, tell: Tell) -> Result<Done, Failed> {
    say(&tell, name, &format!("does `{}`", context.kind())).await;
    sleep(Duration::from_millis(50)).await;
    Ok("done".into())
}

async fn mirror(context: Context, name: &str, tell: Tell) -> Result<Done, Failed> {
    if context.payload() == b"slow" {
        context.cancelled().cancelled().await;
        say(&tell, name, "stops a mirror: the quorum is reached").await;
    } else {
        sleep(Duration::from_millis(300)).await;
        say(&tell, name, "has an answer from a mirror").await;
    }
    Ok(().into())
}

async fn flaky(context: Context, name: &str, tell: Tell) -> Result<Done, Failed> {
    let attempt = context.attempt().0 + 1;
    if attempt < FLAKY_TRIES {
        say(&tell, name, &format!("fails `flaky`, attempt {attempt}")).await;
        return Err(Failed::transient("not yet"));
    }
    say(&tell, name, &format!("succeeds with `flaky`, attempt {attempt}")).await;
    Ok(().into())
}

/// Asks, and is answered: who approves is a moment later in the same house.
async fn approve(context: Context, name: &str, tell: Tell) -> Result<Done, Failed> {
    if context.is_resumed() {
        let said = context.signals().await?.pop().map(|signal| signal.payload).unwrap_or_default();
        let said = String::from_utf8_lossy(&said).into_owned();
        say(&tell, name, &format!("goes on with `approve`: \"{said}\"")).await;
        return Ok(().into());
    }
    let suspend = Suspend::for_signal("approved")
        .because(SuspensionReason::WaitingForApproval)
        .timeout(Duration::from_secs(20));
    let ticket = context.suspend(suspend).await?;
    say(&tell, name, "suspends `approve` until somebody with the token approves").await;
    let client = context.client().clone();
    tokio::spawn(async move {
        sleep(Duration::from_millis(500)).await;
        let signal = Signal::new("approved").payload("fine with me").from("person", APPROVER);
        match client.signal(&ticket, signal).await {
            Ok(_) => say(&tell, APPROVER, "approves; the token is genuine").await,
            Err(error) => say(&tell, APPROVER, &format!("cannot approve: {error}")).await,
        }
    });
    Ok(Done::Suspended)
}

/// The one who finishes what the dead one began.
fn mortal(worker: WorkerBuilder, name: &'static str, tell: &Tell) -> WorkerBuilder {
    let tell = tell.clone();
    worker.handler("mortal", move |context: Context| {
        let tell = tell.clone();
        async move {
            let attempt = context.attempt().0 + 1;
            say(&tell, name, &format!("finishes `mortal`, attempt {attempt}")).await;
            Ok::<_, Failed>(())
        }
    })
}

async fn say(tell: &Tell, who: &str, what: &str) {
    // When nobody prints any more, nobody needs to hear it.
    let _ = tell.send(format!("{who:<8} {what}")).await;
}

/// Who works, who dies at it, and who approves.
const FIRST: &str = "worker-1";
const SECOND: &str = "worker-2";
const DOOMED: &str = "worker-3";
const APPROVER: &str = "approver";
/// How long a lease lasts; a dead worker's task is back this much later.
const LEASE: Duration = Duration::from_millis(1_500);
/// Tries that the flaky task needs.
const FLAKY_TRIES: u32 = 3;
