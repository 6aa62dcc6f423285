//! From the completion of an upstream to the start of its downstream handler.

use std::time::Duration;

use selvedge::client::{Flow, Task};
use selvedge::worker::{Context, Failed, Worker};
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{Fault, Figure, Stage, ms, quantiles};

const ROUNDS: usize = 300;
const PROMISED: Duration = Duration::from_millis(5);

pub(super) async fn measure(stage: &Stage) -> Result<Figure, Fault> {
    let (tell, mut told) = mpsc::unbounded_channel::<(bool, Instant)>();
    let stop = CancellationToken::new();
    let worker = Worker::builder(stage.client.clone()).lane("wake").handler(
        "note",
        move |context: Context| {
            // The upstream counts from its end, the downstream from its start.
            let _ = tell.send((context.payload() == b"up", Instant::now()));
            async { Ok::<_, Failed>(()) }
        },
    );
    let worker = tokio::spawn(worker.run_until(stop.clone().cancelled_owned()));
    let mut samples = Vec::new();
    for round in 0..ROUNDS + 20 {
        let flow = Flow::new("wake")
            .task(Task::new("up", "note").lane("wake").payload("up"))
            .task(Task::new("down", "note").lane("wake").after(["up"]));
        let flow = stage.client.submit(flow).await?;
        let (mut ended, mut began) = (None, None);
        while ended.is_none() || began.is_none() {
            match told.recv().await {
                Some((true, at)) => ended = Some(at),
                Some((false, at)) => began = Some(at),
                None => return Err("the worker is gone".into()),
            }
        }
        stage.client.wait(&flow["down"]).await?;
        if let (Some(ended), Some(began)) = (ended, began)
            && round >= 20
        {
            samples.push(began.duration_since(ended));
        }
    }
    stop.cancel();
    worker.await??;
    let (p50, p99) = quantiles(samples);
    Ok(Figure {
        what: "wake: upstream ends → downstream handler starts".to_owned(),
        found: format!("p50 {}, p99 {}", ms(p50), ms(p99)),
        promised: format!("p50 < {}", ms(PROMISED)),
        holds: p50 < PROMISED,
    })
}
