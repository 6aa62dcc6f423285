//! A thousand children made eligible by one completion.

use std::time::Duration;

use selvedge::client::{Flow, Task};
use selvedge::worker::{Context, Failed, Worker};
use selvedge_core::command::Command;
use selvedge_core::key::{Key, LaneIndex};
use selvedge_core::value::Value;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{Fault, Figure, Stage, ms, quantiles};

const CHILDREN: usize = 1_000;
const ROUNDS: usize = 5;
const PROMISED: Duration = Duration::from_millis(150);

pub(super) async fn measure(stage: &Stage) -> Result<Figure, Fault> {
    let (tell, mut told) = mpsc::unbounded_channel();
    let stop = CancellationToken::new();
    let worker =
        Worker::builder(stage.client.clone()).lane("root").handler("root", move |_: Context| {
            let _ = tell.send(Instant::now());
            async { Ok::<_, Failed>(()) }
        });
    let worker = tokio::spawn(worker.run_until(stop.clone().cancelled_owned()));
    let mut samples = Vec::new();
    for round in 0..ROUNDS {
        let lane = format!("children-{round}");
        let children =
            (0..CHILDREN).map(|n| Task::new(format!("c{n}"), "child").lane(&lane).after(["root"]));
        let root = Task::new("root", "root").lane("root");
        let flow = stage.client.submit(Flow::new("fan").task(root).tasks(children)).await?;
        let ended = told.recv().await.ok_or("the worker is gone")?;
        let partition = stage.client.partitions().of_flow(flow.id);
        let index = Key::index(partition).lane(&lane.parse()?, LaneIndex::Eligible);
        let all = Value::Int(i64::try_from(CHILDREN)?);
        while stage.client.store().command(Command::read("ZCARD", &index, &[])).await? != all {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        samples.push(ended.elapsed());
    }
    stop.cancel();
    worker.await??;
    let (p50, worst) = quantiles(samples);
    Ok(Figure {
        what: format!("{CHILDREN} children made eligible by one completion"),
        found: format!("p50 {}, worst {}", ms(p50), ms(worst)),
        promised: format!("p50 < {}", ms(PROMISED)),
        holds: p50 < PROMISED,
    })
}
