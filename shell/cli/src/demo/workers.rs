//! The workers of the demo, and what they do.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Notify, mpsc};
use tokio::task::JoinHandle;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use super::Lanes;
use selvedge::client::{Client, ClientError, Signal};
use selvedge::worker::{Context, Done, Failed, Suspend, SuspensionReason, Worker, WorkerBuilder};

/// Sends lines to print.
type Tell = mpsc::Sender<String>;

/// The running workers.
pub(super) struct Workers {
    stop: CancellationToken,
    workers: Vec<JoinHandle<Result<(), ClientError>>>,
    _replacement: AbortOnDropHandle<()>,
}

impl Workers {
    /// Starts two workers for most of the work, and a third one that claims one task and is killed
    /// while it runs it.
    pub(super) fn start(client: &Client, lanes: &Lanes, tell: &Tell) -> Self {
        let stop = CancellationToken::new();
        let worker = |name: &str| {
            let worker = Worker::builder(client.clone()).name(name).lease(LEASE);
            worker.drain_within(Duration::from_millis(500))
        };
        let mut workers = Vec::new();
        for name in [FIRST, SECOND] {
            let worker = everything(worker(name).lane(&lanes.all), name, tell);
            workers.push(tokio::spawn(worker.run_until(stop.clone().cancelled_owned())));
        }
        let started = Arc::new(Notify::new());
        let (begun, said) = (started.clone(), tell.clone());
        let killed = worker(KILLED).lane(&lanes.mortal).handler("mortal", move |_: Context| {
            let (begun, said) = (begun.clone(), said.clone());
            async move {
                say(&said, KILLED, "starts `mortal`, and is killed in the middle of it").await;
                begun.notify_one();
                std::future::pending::<Result<(), Failed>>().await
            }
        });
        let killed = tokio::spawn(killed.run_until(stop.clone().cancelled_owned()));
        let successor = mortal(worker(SECOND).lane(&lanes.mortal), SECOND, tell);
        let successor_stop = stop.clone();
        let replacement = tokio::spawn(async move {
            started.notified().await;
            killed.abort();
            // An error of the store ends the demo elsewhere.
            let _ = successor.run_until(successor_stop.cancelled_owned()).await;
        });
        Self { stop, workers, _replacement: AbortOnDropHandle::new(replacement) }
    }

    /// Stops all workers, and waits for them.
    pub(super) async fn stop(self) {
        self.stop.cancel();
        for worker in self.workers {
            let _ = worker.await;
        }
    }
}

/// A worker with all handlers but that of `mortal`.
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
        context.cancelled().await;
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

/// Suspends for an approval, which another task of this process sends half a second later.
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
    say(&tell, name, "suspends `approve` until a signal with the token approves it").await;
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

/// A worker for the task of the killed one.
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
    // The receiver is gone once the demo has ended.
    let _ = tell.send(format!("{who:<8} {what}")).await;
}

/// Names of the workers and of the approver.
const FIRST: &str = "worker-1";
const SECOND: &str = "worker-2";
const KILLED: &str = "worker-3";
const APPROVER: &str = "approver";
/// Lease duration: the task of a killed worker is reclaimed this much later.
const LEASE: Duration = Duration::from_millis(1_500);
/// Attempts that the flaky task needs.
const FLAKY_TRIES: u32 = 3;
