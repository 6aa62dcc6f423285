//! `cargo sim shrink`, `list` and `promote`: work with failures.

use std::path::PathBuf;

use selvedge_sim::failure::Failure;
use selvedge_sim::failure_store::is_folder_name;
use selvedge_sim::plan::{Mode, Plan};
use selvedge_sim::runner::{RunOptions, run as simulate};
use selvedge_sim::shrink_plan::shrink_plan;

use super::out::{self, err, out};
use super::{CliError, Failures, at, plan_of};

/// What to shrink.
#[derive(clap::Args)]
pub(crate) struct Shrink {
    /// A seed or a plan file that fails.
    plan: String,
    /// The most runs to use.
    #[arg(long, default_value_t = 1_000)]
    runs: usize,
}

/// Which failures.
#[derive(clap::Args)]
pub(crate) struct List {
    #[command(flatten)]
    failures: Failures,
}

/// Which failure becomes a story.
#[derive(clap::Args)]
pub(crate) struct Promote {
    /// The seed of a saved failure, followed by `-lite` for a lite seed.
    seed: String,
    /// The name of the story.
    name: String,
    /// What the story is about, in one sentence.
    #[arg(long)]
    about: String,
    /// The folder of stories.
    #[arg(long, default_value = "sim/stories")]
    stories: PathBuf,
    #[command(flatten)]
    failures: Failures,
}

pub(crate) fn shrink(options: &Shrink) -> Result<(), CliError> {
    let plan = plan_of(&options.plan, Mode::Swarm)?;
    let outcome = simulate(&plan, &RunOptions::default()).map_err(CliError::Usage)?;
    let Some(failure) = Failure::of(&outcome) else {
        return Err(CliError::Usage(format!("{} does not fail", options.plan)));
    };
    let shrunk = shrink_plan(&plan, &failure, &RunOptions::default(), options.runs);
    err!(
        "{}: {} -> {} lines in {} runs",
        failure.oracle,
        plan.lines(),
        shrunk.plan.lines(),
        shrunk.runs
    );
    out::text(&shrunk.plan.to_string());
    Ok(())
}

pub(crate) fn list(options: &List) -> Result<(), CliError> {
    let store = options.failures.store();
    let groups = store.groups().map_err(at(&options.failures.failures))?;
    if groups.is_empty() {
        out!("no failures are saved");
    }
    for group in groups {
        out!(
            "{:>4} x {:<22} {:<40} {} lines: cargo sim replay {}",
            group.seeds.len(),
            group.oracle,
            group.shape,
            group.lines,
            // The plan and not the seed, which gives another plan after a change of the code.
            store.shrunk_path(group.seeds.first().map_or("", String::as_str)).display()
        );
    }
    Ok(())
}

pub(crate) fn promote(options: &Promote) -> Result<(), CliError> {
    let is_name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if options.name.is_empty() || !options.name.chars().all(is_name) {
        return Err(CliError::Usage(
            "a story name has lower-case letters, digits and dashes only".to_owned(),
        ));
    }
    if options.about.trim().is_empty() || options.about.contains(char::is_control) {
        return Err(CliError::Usage("--about must be one line, and not empty".to_owned()));
    }
    if !is_folder_name(&options.seed) {
        let seed = &options.seed;
        return Err(CliError::Usage(format!(
            "`{seed}` is not a seed: expected one like 7 or 7-lite"
        )));
    }
    let plan = options.failures.store().shrunk(&options.seed).map_err(|error| {
        CliError::Usage(format!("no failure of seed {} is saved: {error}", options.seed))
    })?;
    if let Err(error) = Plan::parse(&plan) {
        let seed = &options.seed;
        return Err(CliError::Usage(format!(
            "the saved plan of seed {seed} cannot be parsed: {error}"
        )));
    }
    let path = options.stories.join(format!("{}.plan", options.name));
    if path.exists() {
        return Err(CliError::Usage(format!("{} already exists", path.display())));
    }
    std::fs::write(&path, format!("# {}\n{plan}", options.about)).map_err(at(&path))?;
    out!("wrote {}; add \"{}\" to the list in sim/src/story.rs", path.display(), options.name);
    Ok(())
}
