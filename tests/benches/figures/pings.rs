//! How long others wait for the server while a large flow is submitted.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use selvedge::client::{Flow, Task};
use selvedge_tests::connection::Connection;
use tokio::time::Instant;

use super::{Fault, Figure, Stage, ms, quantiles};

const TASKS: usize = 10_000;
const LAYER: usize = 10;
const PROMISED: Duration = Duration::from_millis(25);

pub(super) async fn measure(stage: &Stage) -> Result<Figure, Fault> {
    let ended = Arc::new(AtomicBool::new(false));
    let (connection, until) = (stage.server.connect()?, Arc::clone(&ended));
    let pings = tokio::task::spawn_blocking(move || ping(connection, &until));
    // Half of them in layers of ten, each of which waits for the whole layer before.
    let tasks = (0..TASKS).map(|n| {
        let task = Task::new(format!("t{n}"), "none").lane("pings");
        match (n / LAYER).checked_sub(1).filter(|_| n < TASKS / 2) {
            Some(before) => task.after((0..LAYER).map(|x| format!("t{}", before * LAYER + x))),
            None => task,
        }
    });
    stage.client.submit(Flow::new("large").tasks(tasks)).await?;
    ended.store(true, Ordering::Relaxed);
    let samples = pings.await??;
    let longest = samples.iter().max().copied().unwrap_or_default();
    let (_, p99) = quantiles(samples);
    Ok(Figure {
        what: format!("PING while {TASKS} tasks are submitted"),
        found: format!("p99 {}, longest {}", ms(p99), ms(longest)),
        promised: format!("longest < {}", ms(PROMISED)),
        holds: longest < PROMISED,
    })
}

/// Pings until told to stop; answers how long each took.
#[expect(clippy::disallowed_methods, reason = "pings without a pause would measure themselves")]
fn ping(mut connection: Connection, until: &AtomicBool) -> io::Result<Vec<Duration>> {
    let mut samples = Vec::new();
    while !until.load(Ordering::Relaxed) {
        let began = Instant::now();
        connection.call(&["PING"])?;
        samples.push(began.elapsed());
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(samples)
}
