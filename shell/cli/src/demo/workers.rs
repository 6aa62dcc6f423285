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
type Lines = mpsc::Sender<String>;

/// The running workers.
pub(super) struct Workers {
    stop: CancellationToken,
    workers: Vec<JoinHandle<Result<(), ClientError>>>,
    _replacement: AbortOnDropHandle<()>,
}

impl Workers {
    /// Starts two workers for most of the work, and a third one that claims one task and is killed
    /// while it runs it.
    pub(super) fn start(client: &Client, lanes: &Lanes, lines: &Lines) -> Self {
        let stop = CancellationToken::new();
        let worker = |name: &str| {
            let worker = Worker::builder(client.clone()).name(name).lease(LEASE);
            worker.drain_within(Duration::from_millis(500))
        };
        let mut workers = Vec::new();
        for name in [FIRST, SECOND] {
            let worker = everything(worker(name).lane(&lanes.all), name, lines);
            workers.push(tokio::spawn(worker.run_until(stop.clone().cancelled_owned())));
        }
        let started = Arc::new(Notify::new());
        let (begun, printed) = (started.clone(), lines.clone());
        let killed = worker(KILLED).lane(&lanes.recover).handler("recover", move |_: Context| {
            let (begun, lines) = (begun.clone(), printed.clone());
            async move {
                print(&lines, KILLED, "starts `recover`, and is killed in the middle of it").await;
                begun.notify_one();
                std::future::pending::<Result<(), Failed>>().await
            }
        });
        let killed = tokio::spawn(killed.run_until(stop.clone().cancelled_owned()));
        let successor = recover(worker(SECOND).lane(&lanes.recover), SECOND, lines);
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

/// A worker with all handlers but that of `recover`.
fn everything(worker: WorkerBuilder, name: &'static str, lines: &Lines) -> WorkerBuilder {
    let [one, two, three, four] = [lines.clone(), lines.clone(), lines.clone(), lines.clone()];
    ["fetch", "render", "publish", "agree"]
        .into_iter()
        .fold(worker, |worker, kind| {
            let lines = one.clone();
            worker.handler(kind, move |context: Context| simple(context, name, lines.clone()))
        })
        .handler("mirror", move |context: Context| mirror(context, name, two.clone()))
        .handler("flaky", move |context: Context| flaky(context, name, three.clone()))
        .handler("approve", move |context: Context| approve(context, name, four.clone()))
}

async fn simple(context: Context, name: &str, lines: Lines) -> Result<Done, Failed> {
    print(&lines, name, &format!("does `{}`", context.kind())).await;
    sleep(Duration::from_millis(50)).await;
    Ok("done".into())
}

async fn mirror(context: Context, name: &str, lines: Lines) -> Result<Done, Failed> {
    if context.payload() == b"slow" {
        context.cancelled().await;
        print(&lines, name, "stops a mirror: the quorum is reached").await;
    } else {
        sleep(Duration::from_millis(300)).await;
        print(&lines, name, "has an answer from a mirror").await;
    }
    Ok(().into())
}

async fn flaky(context: Context, name: &str, lines: Lines) -> Result<Done, Failed> {
    let attempt = context.attempt().0 + 1;
    if attempt < FLAKY_TRIES {
        print(&lines, name, &format!("fails `flaky`, attempt {attempt}")).await;
        return Err(Failed::transient("not yet"));
    }
    print(&lines, name, &format!("succeeds with `flaky`, attempt {attempt}")).await;
    Ok(().into())
}

/// Suspends for an approval, which another task of this process sends half a second later.
async fn approve(context: Context, name: &str, lines: Lines) -> Result<Done, Failed> {
    if context.is_resumed() {
        let comment =
            context.signals().await?.pop().map(|signal| signal.payload).unwrap_or_default();
        let comment = String::from_utf8_lossy(&comment).into_owned();
        print(&lines, name, &format!("goes on with `approve`: \"{comment}\"")).await;
        return Ok(().into());
    }
    let suspend = Suspend::for_signal("approved")
        .because(SuspensionReason::WaitingForApproval)
        .timeout(Duration::from_secs(20));
    let ticket = context.suspend(suspend).await?;
    print(&lines, name, "suspends `approve` until a signal with the token approves it").await;
    let client = context.client().clone();
    tokio::spawn(async move {
        sleep(Duration::from_millis(500)).await;
        let signal = Signal::new("approved").payload("fine with me").source("person", APPROVER);
        match client.signal(&ticket, signal).await {
            Ok(_) => print(&lines, APPROVER, "approves; the token is genuine").await,
            Err(error) => print(&lines, APPROVER, &format!("cannot approve: {error}")).await,
        }
    });
    Ok(Done::Suspended)
}

/// A worker for the task of the killed one.
fn recover(worker: WorkerBuilder, name: &'static str, lines: &Lines) -> WorkerBuilder {
    let lines = lines.clone();
    worker.handler("recover", move |context: Context| {
        let lines = lines.clone();
        async move {
            let attempt = context.attempt().0 + 1;
            print(&lines, name, &format!("finishes `recover`, attempt {attempt}")).await;
            Ok::<_, Failed>(())
        }
    })
}

async fn print(lines: &Lines, who: &str, what: &str) {
    // The receiver is gone once the demo has ended.
    let _ = lines.send(format!("{who:<8} {what}")).await;
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
