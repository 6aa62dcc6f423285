//! The function library on one server: there, and the right one.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use selvedge_core::call::Function;
use selvedge_core::call::library::Version;
use selvedge_core::error::{CallError, Class, ServerError};
use selvedge_core::value::Value;
use selvedge_lua::library;
use tokio::sync::{Mutex, watch};

use super::access::words;
use super::link::{Link, reply_of};

/// What a store does about the library.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LibraryUse {
    /// Loads it where it is missing or older.
    #[default]
    Ensure,
    /// Leaves it as it is.
    Leave,
}

/// What is known about the library of one server.
pub(super) struct Library {
    usage: LibraryUse,
    /// How often it was loaded. Whoever meets its absence names the count that it knew, so that
    /// one loss means one load.
    loads: AtomicU64,
    loading: Mutex<()>,
    /// Counts the loads of all servers, for whoever wants to look again after one.
    announce: Arc<watch::Sender<u64>>,
}

impl Library {
    pub(super) fn new(usage: LibraryUse, announce: Arc<watch::Sender<u64>>) -> Self {
        Self { usage, loads: AtomicU64::new(0), loading: Mutex::new(()), announce }
    }

    /// How often it was loaded so far.
    pub(super) fn loads(&self) -> u64 {
        self.loads.load(Ordering::Acquire)
    }

    /// Checks the version, and loads the library where needed.
    pub(super) async fn ensure(&self, link: &Link, within: Duration) -> Result<(), ServerError> {
        if self.usage == LibraryUse::Leave {
            return Ok(());
        }
        let _alone = self.loading.lock().await;
        match version(link, within).await {
            Ok(version) if version == library::VERSION => Ok(()),
            Ok(_) => self.load(link, within).await,
            Err(error) if error.class == Class::Library => self.load(link, within).await,
            Err(error) => Err(error),
        }
    }

    /// Loads the library again, unless somebody has done so since `loads` was read.
    pub(super) async fn reload(
        &self,
        link: &Link,
        loads: u64,
        within: Duration,
    ) -> Result<(), ServerError> {
        if self.usage == LibraryUse::Leave {
            return Err(ServerError::from_reply("ERR Function not found"));
        }
        let _alone = self.loading.lock().await;
        if self.loads() != loads {
            return Ok(());
        }
        self.load(link, within).await
    }

    async fn load(&self, link: &Link, within: Duration) -> Result<(), ServerError> {
        let command = words(&["FUNCTION", "LOAD", "REPLACE", library::SOURCE]);
        ask(link, &command, within).await?;
        self.loads.fetch_add(1, Ordering::AcqRel);
        self.announce.send_modify(|loads| *loads += 1);
        tracing::info!(version = library::VERSION, "the function library was loaded");
        Ok(())
    }
}

async fn version(link: &Link, within: Duration) -> Result<String, ServerError> {
    let reply = ask(link, &Version.command(), within).await?;
    Version::parse(reply).map_err(|error| match error {
        CallError::Server(error) => error,
        other @ (CallError::Refused(_) | CallError::Broken(_)) => {
            ServerError::from_reply(other.to_string())
        }
    })
}

async fn ask(link: &Link, command: &[Vec<u8>], within: Duration) -> Result<Value, ServerError> {
    let answer = link.send(&[command], within).await.into_iter().next();
    answer.map_or_else(|| Err(ServerError::silence("not answered")), reply_of)
}
