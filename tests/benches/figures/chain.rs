//! A chain of ten tasks that do nothing, from submission to the last end.

use std::time::Duration;

use selvedge::client::{Flow, Task};
use selvedge::worker::{Context, Failed, Worker};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{Fault, Figure, Stage, ms, quantiles};

const LINKS: usize = 10;
const ROUNDS: usize = 60;
const PROMISED: Duration = Duration::from_millis(60);

pub(super) async fn measure(stage: &Stage) -> Result<Figure, Fault> {
    let stop = CancellationToken::new();
    let worker = Worker::builder(stage.client.clone())
        .lane("chain")
        .handler("noop", |_: Context| async { Ok::<_, Failed>(()) });
    let worker = tokio::spawn(worker.run_until(stop.clone().cancelled_owned()));
    let mut samples = Vec::new();
    for round in 0..ROUNDS + 10 {
        let links = (0..LINKS).map(|n| {
            let task = Task::new(format!("t{n}"), "noop").lane("chain");
            if n == 0 { task } else { task.after([format!("t{}", n - 1)]) }
        });
        let began = Instant::now();
        let flow = stage.client.submit(Flow::new("chain").tasks(links)).await?;
        stage.client.wait(&flow[&format!("t{}", LINKS - 1)]).await?;
        if round >= 10 {
            samples.push(began.elapsed());
        }
    }
    stop.cancel();
    worker.await??;
    let (p50, p99) = quantiles(samples);
    Ok(Figure {
        what: format!("chain of {LINKS} no-op tasks, submit → last end"),
        found: format!("p50 {}, p99 {}", ms(p50), ms(p99)),
        promised: format!("p50 < {}", ms(PROMISED)),
        holds: p50 < PROMISED,
    })
}
