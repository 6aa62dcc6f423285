//! `selvedge lane`: pause, resume, drain and forget lanes.

use clap::{Args, Subcommand};
use selvedge::client::Client;
use selvedge_core::client::LaneForgotten;
use selvedge_core::id::LaneId;
use selvedge_core::key::LaneIndex;
use selvedge_core::lane_state::LaneState;
use serde_json::json;

use super::context::Context;
use super::failure::{Exit, Failure};

/// The subcommands.
#[derive(Subcommand)]
pub(crate) enum Options {
    /// Let workers claim nothing from a lane, within 5 s; work is still accepted, and what runs
    /// goes on.
    Pause(Change),
    /// End the pause or the drain of a lane.
    Resume(Change),
    /// Let clients submit nothing new to a lane, within 5 s; what was accepted runs to its end.
    Drain(Change),
    /// Remove a lane without executions from the registry: engines scan it no longer. Its next use
    /// brings it back.
    Forget(Change),
}

/// The lane to change.
#[derive(Args)]
pub(crate) struct Change {
    /// The name of the lane.
    lane: LaneId,
    /// Print what would be done, and change nothing.
    #[arg(long)]
    dry_run: bool,
}

pub(crate) async fn run(context: &Context, options: Options) -> Result<(), Failure> {
    match options {
        Options::Pause(change) => set(context, "pause", LaneState::Paused, &change).await,
        Options::Resume(change) => set(context, "resume", LaneState::Active, &change).await,
        Options::Drain(change) => set(context, "drain", LaneState::Draining, &change).await,
        Options::Forget(change) => forget(context, &change).await,
    }
}

async fn set(
    context: &Context,
    verb: &str,
    state: LaneState,
    change: &Change,
) -> Result<(), Failure> {
    let lane = &change.lane;
    let client = context.client_unless(change.dry_run).await?;
    let before = client.lane_states().await?.of(lane).0;
    if before == LaneState::Active {
        must_be_listed(&client, lane).await?;
    }
    if !change.dry_run {
        match state {
            LaneState::Paused => client.pause_lane(lane).await?,
            LaneState::Draining => client.drain_lane(lane).await?,
            LaneState::Active => client.resume_lane(lane).await?,
        };
    }
    let counts = client.lane_counts(lane).await?;
    let (ready, running) =
        (counts.total(&[LaneIndex::Eligible]), counts.total(&[LaneIndex::Active]));
    let object = json!({
        "lane": lane.as_str(), "state": state.as_str(), "before": before.as_str(),
        "ready": ready, "running": running, "dry_run": change.dry_run,
    });
    let sentence = match (before == state, change.dry_run) {
        (true, _) => format!("lane {lane} is {state} already"),
        (false, true) => format!("would {verb} lane {lane}, which is {before}"),
        (false, false) => format!("lane {lane} is {state} now, it was {before}"),
    };
    let sentence = format!("{sentence}: {ready} ready, {running} running");
    Ok(context.output.message(&sentence, object)?)
}

async fn forget(context: &Context, change: &Change) -> Result<(), Failure> {
    let lane = &change.lane;
    let client = context.client_unless(change.dry_run).await?;
    must_be_listed(&client, lane).await?;
    let found = client.lane_counts(lane).await?;
    let left = found.total(LaneIndex::ALL);
    if left > 0 {
        let ended = found.total(&[LaneIndex::Terminal]);
        return Err(in_use(lane, left, ended));
    }
    if change.dry_run {
        let object = json!({ "would": "forget", "lane": lane.as_str() });
        return Ok(context.output.message(&format!("would forget lane {lane}"), object)?);
    }
    match client.forget_lane(lane).await? {
        LaneForgotten::Forgotten => {
            let object = json!({ "done": "forgotten", "lane": lane.as_str() });
            Ok(context.output.message(&format!("forgot lane {lane}"), object)?)
        }
        LaneForgotten::InUse(left) => Err(in_use(lane, left, 0)),
        LaneForgotten::Returned => {
            let what = format!("lane {lane} was registered again at once");
            Err(Failure::new(Exit::Refused, what).hint(
                "an engine is configured with it (FF_LANES, of which `default` is the default), \
                 or something uses it",
            ))
        }
    }
}

fn in_use(lane: &LaneId, left: u64, ended: u64) -> Failure {
    let what = format!("{left} executions are in lane {lane}, {ended} of them ended");
    Failure::new(Exit::Refused, what).hint(
        "`selvedge lane drain` lets it run empty; ended executions leave it when their retention \
         is over",
    )
}

/// A name that is misspelt pauses nothing.
async fn must_be_listed(client: &Client, lane: &LaneId) -> Result<(), Failure> {
    let lanes = client.lanes().await?;
    if lanes.contains(lane) {
        return Ok(());
    }
    let known: Vec<&str> = lanes.iter().map(LaneId::as_str).take(NAMES_MAX).collect();
    let hint = match known.is_empty() {
        true => "no lane was used yet".to_owned(),
        false => format!("known are {}", known.join(", ")),
    };
    Err(Failure::new(Exit::NotFound, format!("there is no lane {lane}")).hint(hint))
}

/// Most lanes that a hint names.
const NAMES_MAX: usize = 16;
