//! `cargo sim sweep`: runs stories with crashes at every boundary.

use selvedge_sim::failure::Class;
use selvedge_sim::plan::Mode;
use selvedge_sim::runner::RunOptions;
use selvedge_sim::story::{STORIES, Story, sweep};

use super::out::{err, out};
use super::{CliError, plan_of, progress};

/// What to sweep.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// The name of a story, a seed or a plan file; all stories by default.
    story: Option<String>,
}

pub(crate) fn run(options: &Options) -> Result<(), CliError> {
    let names: Vec<&str> = match &options.story {
        Some(name) => vec![name],
        None => STORIES.iter().map(|story| story.name).collect(),
    };
    let mut worst: Option<Class> = None;
    for name in names {
        let story = Story::find(name);
        if let Some(story) = story {
            out!("{name}: {}", story.about());
        }
        let workers = story.is_some_and(Story::is_about_workers);
        let plan = plan_of(name, Mode::Swarm)?;
        let shown = |done, of| progress::show(&format!("{name}: {done} of {of} runs"));
        let swept = sweep(&plan, workers, &RunOptions::default(), shown)
            .map_err(|why| CliError::Cannot(format!("{name}: {why}")))?;
        progress::done();
        if swept.singles == 0 && !swept.failures.is_empty() {
            out!("  fails without crashes, so no crashes were tried");
        }
        out!(
            "  {} calls, {} single crashes, {} pairs: {} failed",
            swept.calls,
            swept.singles,
            swept.pairs,
            swept.failures.len()
        );
        for (plan, failure) in swept.failures.iter().take(FAILURES_TOLD) {
            let (oracle, subject, what) = (&failure.oracle, &failure.subject, &failure.what);
            err!("FAIL  {name}  {oracle}  {subject}: {what}\n{plan}");
        }
        worst = worst.max(swept.failures.iter().map(|(_, failure)| failure.class).max());
    }
    worst.map_or(Ok(()), |class| Err(CliError::Failed(class)))
}

/// How many failures are printed with their plan.
const FAILURES_TOLD: usize = 3;
