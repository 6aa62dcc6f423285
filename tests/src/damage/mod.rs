//! A campaign of single damages: one key or member of a busy deployment is deleted, retyped, edited
//! or truncated. After a repair, and more scans than an engine makes in a minute, every execution
//! that still has a record has ended, or `fsck` or `why` names it.

mod busy_deployment;
mod draw;
mod judge;
mod report;

use std::sync::Arc;
use std::time::Duration;

use selvedge::inspect::fsck;
use selvedge::store::{Store, StoreOptions, StoreUrl};
use selvedge_sim::search::Draws;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

pub use draw::{Kind, Wound};
pub use report::{Case, Fate, Report};

use crate::server::Server;
use busy_deployment::BusyDeployment;

/// Where the deployments live.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// The in-process host.
    Memory,
    /// A Valkey server each.
    Valkey,
}

/// How long a repaired deployment may take to end what can end. Scans are ten to a hundred times as
/// frequent as by default, so that this is more than a minute of engine time.
const SETTLES_WITHIN: Duration = Duration::from_secs(8);

/// Runs the damages of these seeds, `at_once` at a time.
///
/// # Errors
/// When a deployment cannot be made.
pub async fn run(place: Place, seeds: Vec<u64>, at_once: usize) -> Result<Report, String> {
    let permits = Arc::new(Semaphore::new(at_once));
    let mut cases = JoinSet::new();
    for seed in seeds {
        let permits = permits.clone();
        cases.spawn(async move {
            let _permit = permits.acquire_owned().await;
            case(place, seed).await.map_err(|error| format!("seed {seed}: {error}"))
        });
    }
    let mut report = Report::default();
    while let Some(done) = cases.join_next().await {
        report.add(done.map_err(|error| error.to_string())??);
    }
    Ok(report)
}

async fn case(place: Place, seed: u64) -> Result<Case, String> {
    let server = match place {
        Place::Memory => None,
        Place::Valkey => Some(Server::valkey().map_err(|error| error.to_string())?),
    };
    let url = match &server {
        None => "memory://".to_owned(),
        Some(server) => format!("valkey://127.0.0.1:{}", server.port()),
    };
    let url: StoreUrl = url.parse().map_err(|error| format!("{error}"))?;
    let store = Store::open(&url, StoreOptions::default()).await.map_err(text)?;
    let deployment = BusyDeployment::build(&store, seed).await?;
    let mut draws = Draws::seeded(seed, 1);
    let wound = Wound::draw(&store, &mut draws).await?;
    wound.inflict(&store).await?;
    let repaired = fsck::repair(deployment.client(), |_, _| {}).await.map_err(text)?;
    let fates = deployment.settle(&repaired, SETTLES_WITHIN).await?;
    Ok(Case { seed, wound, fates })
}

fn text(error: impl ToString) -> String {
    error.to_string()
}
