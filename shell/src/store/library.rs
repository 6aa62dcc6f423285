//! Checks and loads the function library of one server.
//!
//! | installed library | action |
//! | --- | --- |
//! | the revision built into this program | none |
//! | none, an older one, FlowFabric's own, or another text of the same revision | replaced |
//! | a newer one that declares every function this program calls | kept and used |
//! | a newer one that does not | error: this program is too old for the deployment |

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use selvedge_core::call::library::{
    DeclaredSignature, Edition, LibraryRevision, LibrarySignatures, Version,
};
use selvedge_core::call::{Function, Signature, signatures};
use selvedge_core::error::{CallError, Class, ServerError};
use selvedge_core::value::Value;
use selvedge_lua::library;
use tokio::sync::{Mutex, watch};

use super::connection::Connection;
use super::connector::argv;
use super::reply_of;

/// Whether a store loads the function library.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum LibraryUse {
    /// Load it where it is missing or older.
    #[default]
    Ensure,
    /// Never load it.
    Leave,
}

/// The state of the library on one server.
pub(super) struct Library {
    usage: LibraryUse,
    /// How often it was loaded. A caller that finds it missing passes the count it knew, so that
    /// one loss causes one load.
    loads: AtomicU64,
    loading: Mutex<()>,
    /// Counts the loads on all servers; watched by the engine.
    loads_of_all_servers: Arc<watch::Sender<u64>>,
}

impl Library {
    pub(super) fn new(usage: LibraryUse, loads_of_all_servers: Arc<watch::Sender<u64>>) -> Self {
        Self { usage, loads: AtomicU64::new(0), loading: Mutex::new(()), loads_of_all_servers }
    }

    /// How often it was loaded so far.
    pub(super) fn loads(&self) -> u64 {
        self.loads.load(Ordering::Acquire)
    }

    /// Checks the installed library, and loads ours where needed.
    pub(super) async fn ensure(
        &self,
        connection: &Connection,
        within: Duration,
    ) -> Result<(), ServerError> {
        if self.usage == LibraryUse::Leave {
            return Ok(());
        }
        let _guard = self.loading.lock().await;
        self.check_and_load(connection, within).await
    }

    /// Loads the library again, unless it was loaded since `loads` was read.
    pub(super) async fn reload(
        &self,
        connection: &Connection,
        loads: u64,
        within: Duration,
    ) -> Result<(), ServerError> {
        if self.usage == LibraryUse::Leave {
            return Err(ServerError::from_reply("ERR Function not found"));
        }
        let _guard = self.loading.lock().await;
        if self.loads() != loads {
            return Ok(());
        }
        // Check first: another program may have loaded a newer one meanwhile.
        self.check_and_load(connection, within).await
    }

    async fn check_and_load(
        &self,
        connection: &Connection,
        within: Duration,
    ) -> Result<(), ServerError> {
        match compare(&installed(connection, within).await?) {
            Comparison::Same => Ok(()),
            Comparison::Replace => self.load(connection, within).await,
            Comparison::Newer => {
                let declared = none_if_missing(call(connection, &LibrarySignatures, within).await)?;
                match first_missing_function(&declared.unwrap_or_default(), &signatures()) {
                    None => Ok(()),
                    Some(missing) => Err(program_too_old(&missing)),
                }
            }
        }
    }

    async fn load(&self, connection: &Connection, within: Duration) -> Result<(), ServerError> {
        let command = argv(&["FUNCTION", "LOAD", "REPLACE", library::SOURCE]);
        send_one(connection, &command, within).await?;
        self.loads.fetch_add(1, Ordering::AcqRel);
        self.loads_of_all_servers.send_modify(|loads| *loads += 1);
        tracing::info!(
            version = library::VERSION,
            revision = library::REVISION,
            "function library loaded"
        );
        Ok(())
    }
}

/// The library installed on a server; empty if there is none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Installed {
    version: Option<String>,
    edition: Option<Edition>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Comparison {
    Same,
    Replace,
    Newer,
}

fn compare(installed: &Installed) -> Comparison {
    let number = |version: &str| version.parse::<u32>().ok();
    let version = installed.version.as_deref().and_then(number);
    match (version.cmp(&number(library::VERSION)), &installed.edition) {
        (std::cmp::Ordering::Greater, _) => Comparison::Newer,
        (std::cmp::Ordering::Equal, Some(edition)) if edition.revision > library::REVISION => {
            Comparison::Newer
        }
        (std::cmp::Ordering::Equal, Some(edition))
            if edition.revision == library::REVISION && edition.digest == library::DIGEST =>
        {
            Comparison::Same
        }
        (std::cmp::Ordering::Equal | std::cmp::Ordering::Less, _) => Comparison::Replace,
    }
}

/// The first needed function that the other library does not declare with the same keys and
/// arguments. It may take more of either at the end.
fn first_missing_function(declared: &[DeclaredSignature], needed: &[Signature]) -> Option<String> {
    let declared: BTreeMap<&str, &DeclaredSignature> =
        declared.iter().map(|signature| (signature.name.as_str(), signature)).collect();
    let offers = |need: &Signature| {
        declared.get(need.name).is_some_and(|offer| {
            starts_with(&offer.keys, need.keys) && starts_with(&offer.args, need.args)
        })
    };
    needed.iter().find(|need| !offers(need)).map(|need| need.name.to_owned())
}

fn starts_with(offer: &[String], need: &[&str]) -> bool {
    offer.len() >= need.len() && offer.iter().zip(need).all(|(offer, need)| offer == need)
}

fn program_too_old(missing: &str) -> ServerError {
    let text = format!(
        "the server has a newer function library than revision {} of this program, and it does \
         not offer {missing} as this program calls it: upgrade this program",
        library::REVISION
    );
    ServerError::program_too_old(text)
}

async fn installed(connection: &Connection, within: Duration) -> Result<Installed, ServerError> {
    let (version, edition) = (Version.command(), LibraryRevision.command());
    let mut answers = connection.send(&[&version, &edition], within).await.into_iter();
    let mut next = || reply_of(answers.next());
    Ok(Installed {
        version: none_if_missing(next().and_then(parse::<Version>))?,
        edition: none_if_missing(next().and_then(parse::<LibraryRevision>))?,
    })
}

fn none_if_missing<T>(reply: Result<T, ServerError>) -> Result<Option<T>, ServerError> {
    match reply {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.class == Class::Library => Ok(None),
        Err(error) => Err(error),
    }
}

async fn call<F: Function>(
    connection: &Connection,
    call: &F,
    within: Duration,
) -> Result<F::Reply, ServerError> {
    send_one(connection, &call.command(), within).await.and_then(parse::<F>)
}

fn parse<F: Function>(reply: Value) -> Result<F::Reply, ServerError> {
    F::parse(reply).map_err(|error| match error {
        CallError::Server(error) => error,
        other @ (CallError::Refused(_) | CallError::Broken(_)) => {
            ServerError::from_reply(other.to_string())
        }
    })
}

async fn send_one(
    connection: &Connection,
    command: &[Vec<u8>],
    within: Duration,
) -> Result<Value, ServerError> {
    reply_of(connection.send(&[command], within).await.into_iter().next())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn installed(version: &str, revision: Option<u32>, digest: &str) -> Installed {
        Installed {
            version: Some(version.to_owned()),
            edition: revision.map(|revision| Edition { revision, digest: digest.to_owned() }),
        }
    }

    #[test]
    fn only_older_and_foreign_libraries_are_replaced() {
        let ours = Some(library::REVISION);
        assert_eq!(compare(&Installed::default()), Comparison::Replace);
        assert_eq!(compare(&installed("33", Some(99), "x")), Comparison::Replace);
        assert_eq!(compare(&installed("34", None, "")), Comparison::Replace, "FlowFabric's own");
        assert_eq!(compare(&installed("34", Some(0), "x")), Comparison::Replace);
        assert_eq!(compare(&installed("34", ours, "x")), Comparison::Replace);
        assert_eq!(compare(&installed("34", ours, library::DIGEST)), Comparison::Same);
        assert_eq!(compare(&installed("34", Some(library::REVISION + 1), "x")), Comparison::Newer);
        assert_eq!(compare(&installed("35", None, "")), Comparison::Newer);
        assert_eq!(compare(&installed("no number", None, "")), Comparison::Replace);
    }

    #[test]
    fn a_newer_library_may_add_but_not_remove() {
        let ours = signatures();
        let mut theirs: Vec<DeclaredSignature> = ours
            .iter()
            .map(|ours| DeclaredSignature {
                name: ours.name.to_owned(),
                keys: ours.keys.iter().map(|&name| name.to_owned()).collect(),
                args: ours.args.iter().map(|&name| name.to_owned()).collect(),
                reads_only: ours.reads_only,
            })
            .collect();
        theirs[0].args.push("something_new".to_owned());
        assert_eq!(first_missing_function(&theirs, &ours), None);
        let gone = theirs.pop().unwrap().name;
        assert_eq!(first_missing_function(&theirs, &ours), Some(gone));
    }
}
