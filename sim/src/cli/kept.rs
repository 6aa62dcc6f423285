//! `cargo sim shrink`, `list` and `promote`: what to do with failures.

use std::path::PathBuf;

use selvedge_sim::campaign::Mode;
use selvedge_sim::failure::Failure;
use selvedge_sim::plan::Plan;
use selvedge_sim::runner::{RunOptions, run as simulate};
use selvedge_sim::shelf::is_folder_name;
use selvedge_sim::shrink::shrink as make_smaller;

use super::out::{self, err, out};
use super::{End, Failures, at, plan_of};

/// What to shrink.
#[derive(clap::Args)]
pub(crate) struct Shrink {
    /// A seed or a plan file that fails.
    plan: String,
    /// Runs that it may cost.
    #[arg(long, default_value_t = 1_000)]
    runs: usize,
}

/// Where to look.
#[derive(clap::Args)]
pub(crate) struct List {
    #[command(flatten)]
    failures: Failures,
}

/// What becomes a story.
#[derive(clap::Args)]
pub(crate) struct Promote {
    /// The seed of a kept failure, with `-lite` for a small world.
    seed: String,
    /// The name of the story.
    name: String,
    /// What it is about, in a sentence.
    #[arg(long)]
    about: String,
    /// The folder of stories.
    #[arg(long, default_value = "sim/stories")]
    stories: PathBuf,
    #[command(flatten)]
    failures: Failures,
}

pub(crate) fn shrink(options: &Shrink) -> Result<(), End> {
    let plan = plan_of(&options.plan, Mode::Swarm)?;
    let outcome = simulate(&plan, &RunOptions::default()).map_err(End::Usage)?;
    let Some(failure) = Failure::of(&outcome) else {
        return Err(End::Usage(format!("{} does not fail", options.plan)));
    };
    let shrunk = make_smaller(&plan, &failure, &RunOptions::default(), options.runs);
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

pub(crate) fn list(options: &List) -> Result<(), End> {
    let shelf = options.failures.shelf();
    let groups = shelf.groups().map_err(at(&options.failures.failures))?;
    if groups.is_empty() {
        out!("no failures are kept");
    }
    for group in groups {
        out!(
            "{:>4} x {:<22} {:<40} {} lines: cargo sim replay {}",
            group.seeds.len(),
            group.oracle,
            group.shape,
            group.lines,
            // The plan, not the seed: that deals another one after any edit, or with --lite.
            shelf.shrunk_path(group.seeds.first().map_or("", String::as_str)).display()
        );
    }
    Ok(())
}

pub(crate) fn promote(options: &Promote) -> Result<(), End> {
    let is_name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if options.name.is_empty() || !options.name.chars().all(is_name) {
        return Err(End::Usage("a story's name has small letters, digits and dashes".to_owned()));
    }
    if options.about.trim().is_empty() || options.about.contains(char::is_control) {
        return Err(End::Usage("what a story is about is said in one line".to_owned()));
    }
    if !is_folder_name(&options.seed) {
        let seed = &options.seed;
        return Err(End::Usage(format!("`{seed}` is no seed: expected one like 7 or 7-lite")));
    }
    let plan = options.failures.shelf().shrunk(&options.seed).map_err(|error| {
        End::Usage(format!("no failure of seed {} is kept: {error}", options.seed))
    })?;
    if let Err(error) = Plan::parse(&plan) {
        let seed = &options.seed;
        return Err(End::Usage(format!("the kept plan of seed {seed} cannot be read: {error}")));
    }
    let path = options.stories.join(format!("{}.plan", options.name));
    if path.exists() {
        return Err(End::Usage(format!("{} is there already", path.display())));
    }
    std::fs::write(&path, format!("# {}\n{plan}", options.about)).map_err(at(&path))?;
    out!("wrote {}; add \"{}\" to the list in sim/src/story.rs", path.display(), options.name);
    Ok(())
}
