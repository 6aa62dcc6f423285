//! The function library on one server: there, and the right edition.
//!
//! | found | done |
//! | --- | --- |
//! | the edition that this program carries | nothing |
//! | none, an older one, FlowFabric's own, or another text of the same revision | ours is loaded |
//! | a newer one that declares all that we call | left alone, and used |
//! | a newer one that does not | refused: this program is too old for the deployment |

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use selvedge_core::call::library::{
    DeclaredSignature, Edition, LibraryRevision, LibrarySignatures, Version,
};
use selvedge_core::call::{Function, Signature, signatures};
use selvedge_core::error::{Applied, CallError, Class, ServerError};
use selvedge_core::value::Value;
use selvedge_lua::library;
use tokio::sync::{Mutex, watch};

use super::access::words;
use super::link::Link;
use super::reply_of;

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

    /// Finds out what the server has, and loads the library where needed.
    pub(super) async fn ensure(&self, link: &Link, within: Duration) -> Result<(), ServerError> {
        if self.usage == LibraryUse::Leave {
            return Ok(());
        }
        let _alone = self.loading.lock().await;
        self.settle(link, within).await
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
        // Not blindly: another program may have loaded a newer one in the meantime.
        self.settle(link, within).await
    }

    async fn settle(&self, link: &Link, within: Duration) -> Result<(), ServerError> {
        match judge(&found(link, within).await?) {
            Judgement::Same => Ok(()),
            Judgement::Replace => self.load(link, within).await,
            Judgement::Newer => {
                let declared = unless_missing(ask(link, &LibrarySignatures, within).await)?;
                match what_is_missing(&declared.unwrap_or_default(), &signatures()) {
                    None => Ok(()),
                    Some(missing) => Err(too_old(&missing)),
                }
            }
        }
    }

    async fn load(&self, link: &Link, within: Duration) -> Result<(), ServerError> {
        let command = words(&["FUNCTION", "LOAD", "REPLACE", library::SOURCE]);
        exchange(link, &command, within).await?;
        self.loads.fetch_add(1, Ordering::AcqRel);
        self.announce.send_modify(|loads| *loads += 1);
        tracing::info!(
            version = library::VERSION,
            revision = library::REVISION,
            "the function library was loaded"
        );
        Ok(())
    }
}

/// What a server says about its library; nothing where it has none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Found {
    version: Option<String>,
    edition: Option<Edition>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Judgement {
    Same,
    Replace,
    Newer,
}

fn judge(found: &Found) -> Judgement {
    let number = |version: &str| version.parse::<u32>().ok();
    let version = found.version.as_deref().and_then(number);
    match (version.cmp(&number(library::VERSION)), &found.edition) {
        (std::cmp::Ordering::Greater, _) => Judgement::Newer,
        (std::cmp::Ordering::Equal, Some(edition)) if edition.revision > library::REVISION => {
            Judgement::Newer
        }
        (std::cmp::Ordering::Equal, Some(edition))
            if edition.revision == library::REVISION && edition.digest == library::DIGEST =>
        {
            Judgement::Same
        }
        (std::cmp::Ordering::Equal | std::cmp::Ordering::Less, _) => Judgement::Replace,
    }
}

/// The first function that we call and the other library does not offer in the same shape. It may
/// take more arguments at the end than we send.
fn what_is_missing(declared: &[DeclaredSignature], needed: &[Signature]) -> Option<String> {
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

fn too_old(missing: &str) -> ServerError {
    let text = format!(
        "the server has a newer function library than revision {} of this program, and it does \
         not offer {missing} as this program calls it: upgrade this program",
        library::REVISION
    );
    ServerError { class: Class::Denied, applied: Applied::No, text }
}

async fn found(link: &Link, within: Duration) -> Result<Found, ServerError> {
    let (version, edition) = (Version.command(), LibraryRevision.command());
    let mut answers = link.send(&[&version, &edition], within).await.into_iter();
    let mut next = || reply_of(answers.next());
    Ok(Found {
        version: unless_missing(next().and_then(parse::<Version>))?,
        edition: unless_missing(next().and_then(parse::<LibraryRevision>))?,
    })
}

fn unless_missing<T>(asked: Result<T, ServerError>) -> Result<Option<T>, ServerError> {
    match asked {
        Ok(told) => Ok(Some(told)),
        Err(error) if error.class == Class::Library => Ok(None),
        Err(error) => Err(error),
    }
}

async fn ask<F: Function>(
    link: &Link,
    call: &F,
    within: Duration,
) -> Result<F::Reply, ServerError> {
    exchange(link, &call.command(), within).await.and_then(parse::<F>)
}

fn parse<F: Function>(reply: Value) -> Result<F::Reply, ServerError> {
    F::parse(reply).map_err(|error| match error {
        CallError::Server(error) => error,
        other @ (CallError::Refused(_) | CallError::Broken(_)) => {
            ServerError::from_reply(other.to_string())
        }
    })
}

async fn exchange(
    link: &Link,
    command: &[Vec<u8>],
    within: Duration,
) -> Result<Value, ServerError> {
    reply_of(link.send(&[command], within).await.into_iter().next())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(version: &str, revision: Option<u32>, digest: &str) -> Found {
        Found {
            version: Some(version.to_owned()),
            edition: revision.map(|revision| Edition { revision, digest: digest.to_owned() }),
        }
    }

    #[test]
    fn only_what_is_older_or_foreign_is_replaced() {
        let ours = Some(library::REVISION);
        assert_eq!(judge(&Found::default()), Judgement::Replace);
        assert_eq!(judge(&found("33", Some(99), "x")), Judgement::Replace);
        assert_eq!(judge(&found("34", None, "")), Judgement::Replace, "FlowFabric's own");
        assert_eq!(judge(&found("34", Some(0), "x")), Judgement::Replace);
        assert_eq!(judge(&found("34", ours, "x")), Judgement::Replace);
        assert_eq!(judge(&found("34", ours, library::DIGEST)), Judgement::Same);
        assert_eq!(judge(&found("34", Some(library::REVISION + 1), "x")), Judgement::Newer);
        assert_eq!(judge(&found("35", None, "")), Judgement::Newer);
        assert_eq!(judge(&found("no number", None, "")), Judgement::Replace);
    }

    #[test]
    fn a_newer_library_may_add_but_not_take_away() {
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
        assert_eq!(what_is_missing(&theirs, &ours), None);
        let gone = theirs.pop().unwrap().name;
        assert_eq!(what_is_missing(&theirs, &ours), Some(gone));
    }
}
