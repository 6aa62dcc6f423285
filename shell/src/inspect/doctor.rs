//! Reads the settings and the state of the servers, for the checks of [`selvedge_core::doctor`].

use selvedge_core::call::Function;
use selvedge_core::call::library::{LibraryRevision, Version};
use selvedge_core::command::Command;
use selvedge_core::doctor::{
    self, Access, ClockReading, ClusterFacts, ClusterNode, Facts, Finding, InstalledLibrary, Probe,
    Role, ServerFacts, excess_probes, needed_probes, read_info, read_settings,
};
use selvedge_core::error::{CallError, Class};
use selvedge_core::partition::PartitionCounts;
use selvedge_core::reply;
use selvedge_core::value::Value;
use selvedge_lua::library;
use tokio::time::Instant;

use crate::clock::wall_clock_us;
use crate::deployment;
use crate::store::Store;

/// Reads all servers of a store and judges what it finds. It changes nothing, needs no library on
/// the servers, and reports what it may not read.
///
/// `configured` are the partition counts that a configuration sets, if it does. `user` is the ACL
/// user to check; by default the one that this store connects as.
///
pub async fn examine(
    store: &Store,
    configured: Option<PartitionCounts>,
    user: Option<&str>,
) -> Vec<Finding> {
    let mut facts = Facts {
        servers: Vec::new(),
        cluster: None,
        own_library: InstalledLibrary {
            version: library::VERSION.to_owned(),
            revision: Some(library::REVISION),
            digest: library::DIGEST.to_owned(),
        },
        configured_partitions: configured,
        stored_partitions: deployment::counts(store).await.map_err(|error| error.text),
    };
    for (address, slot) in store.servers_with_slot() {
        facts.servers.push(Reader { store, slot }.server(address, user).await);
    }
    if store.is_cluster() {
        facts.cluster = cluster(store, &facts).await;
    }
    doctor::examine(&facts)
}

/// Reads from the server that owns a slot.
struct Reader<'a> {
    store: &'a Store,
    slot: u16,
}

impl Reader<'_> {
    async fn server(&self, address: String, user: Option<&str>) -> ServerFacts {
        match self.store.command(self.read(&["PING"])).await {
            Err(error) if error.is_transient() => return silent(address, error.text),
            // A user without the right to PING is judged with the other rights.
            Ok(_) | Err(_) => {}
        }
        let settings = self.send(&["CONFIG", "GET", "*"]).await.map(|reply| read_settings(&reply));
        let info = self.text(&["INFO"]).await.map(|text| read_info(&text));
        ServerFacts {
            address,
            silent: None,
            settings,
            info,
            clock: self.clock().await,
            library: self.library().await,
            access: self.access(user).await,
        }
    }

    /// The server's clock against this machine's, in the middle of the fastest of some readings.
    async fn clock(&self) -> Option<ClockReading> {
        let mut best: Option<ClockReading> = None;
        for _ in 0..CLOCK_READINGS {
            let began = Instant::now();
            let before_ms = i64::try_from(wall_clock_us() / 1_000).ok()?;
            let reply = self.send(&["TIME"]).await.ok()?;
            let took_ms = i64::try_from(began.elapsed().as_millis()).ok()?;
            let here = before_ms.saturating_add(took_ms / 2);
            let reading = ClockReading {
                ahead_ms: reply::time(&reply).ok()?.0.saturating_sub(here),
                uncertainty_ms: took_ms.unsigned_abs() / 2 + 1,
            };
            if best.is_none_or(|best| reading.uncertainty_ms < best.uncertainty_ms) {
                best = Some(reading);
            }
        }
        best
    }

    async fn library(&self) -> Result<Option<InstalledLibrary>, String> {
        let Some(version) = self.call(&Version).await? else { return Ok(None) };
        let ours = self.call(&LibraryRevision).await?;
        let revision = ours.as_ref().map(|ours| ours.revision);
        let digest = ours.map(|ours| ours.digest).unwrap_or_default();
        Ok(Some(InstalledLibrary { version, revision, digest }))
    }

    /// Checks the rights of a user by dry runs of commands that need them.
    async fn access(&self, user: Option<&str>) -> Access {
        let user = match user {
            Some(user) => user.to_owned(),
            None => match self.text(&["ACL", "WHOAMI"]).await {
                Ok(user) => user,
                Err(_) => self.store.url().user().unwrap_or("default").to_owned(),
            },
        };
        let mut access = Access { user, ..Access::default() };
        // A worker's rights are those that every role needs.
        let needed = needed_probes(Role::Worker, library::SOURCE);
        for (probe, allowed) in self.dry_runs(&access.user, needed).await {
            match allowed {
                Ok(true) => {}
                Ok(false) => access.missing.push(probe.right),
                Err(why) => {
                    access.unknown = Some(why);
                    return access;
                }
            }
        }
        for (probe, allowed) in self.dry_runs(&access.user, excess_probes()).await {
            if allowed == Ok(true) {
                access.excess.push(probe.right);
            }
        }
        access
    }

    /// Whether a user may run the command of each probe: one round trip.
    async fn dry_runs(&self, user: &str, probes: Vec<Probe>) -> Vec<(Probe, Result<bool, String>)> {
        let dry_run = |probe: &Probe| {
            let words = probe.argv.iter().flat_map(|word| word.split(' '));
            self.read(&["ACL", "DRYRUN", user].into_iter().chain(words).collect::<Vec<_>>())
        };
        let batch = probes.iter().map(dry_run).collect();
        let answers = self.store.run(batch, self.store.options().call_within).await;
        let allowed = answers.into_iter().map(|answer| {
            let reply = answer.into_result().map_err(|error| error.text)?;
            Ok(matches!(reply, Value::Status(text) if text == "OK"))
        });
        probes.into_iter().zip(allowed).collect()
    }

    /// Calls a function; none when the library does not have it.
    async fn call<F: Function>(&self, call: &F) -> Result<Option<F::Reply>, String> {
        let command = Command { slot: self.slot, argv: call.command(), reads: true };
        let reply = match self.store.command(command).await {
            Ok(reply) => reply,
            Err(error) if error.class == Class::Library => return Ok(None),
            Err(error) => return Err(error.text),
        };
        match F::parse(reply) {
            Ok(reply) => Ok(Some(reply)),
            Err(CallError::Server(error)) if error.class == Class::Library => Ok(None),
            Err(error) => Err(error.to_string()),
        }
    }

    async fn text(&self, words: &[&str]) -> Result<String, String> {
        match self.send(words).await? {
            Value::Bulk(bytes) => Ok(String::from_utf8_lossy(&bytes).into_owned()),
            Value::Status(text) => Ok(text),
            other @ (Value::Nil | Value::Int(_) | Value::Error(_) | Value::Array(_)) => {
                Err(format!("unexpected reply to {}: {other}", words.join(" ")))
            }
        }
    }

    async fn send(&self, words: &[&str]) -> Result<Value, String> {
        self.store.command(self.read(words)).await.map_err(|error| error.text)
    }

    fn read(&self, words: &[&str]) -> Command {
        let argv = words.iter().map(|word| word.as_bytes().to_vec()).collect();
        Command { slot: self.slot, argv, reads: true }
    }
}

/// What is known of a server that does not answer.
fn silent(address: String, why: String) -> ServerFacts {
    ServerFacts {
        address,
        settings: Err(why.clone()),
        info: Err(why.clone()),
        clock: None,
        library: Err(why.clone()),
        access: Access::default(),
        silent: Some(why),
    }
}

/// The cluster, as the first server that answers describes it.
async fn cluster(store: &Store, facts: &Facts) -> Option<ClusterFacts> {
    let settings = facts.servers.iter().find_map(|server| server.settings.as_ref().ok());
    let coverage = settings.and_then(|all| all.get("cluster-require-full-coverage"));
    let requires_full_coverage = coverage.map(|value| value == "yes");
    let silent = |address: &String| {
        facts.servers.iter().any(|server| server.address == *address && server.silent.is_some())
    };
    for (_, slot) in store.servers_with_slot().into_iter().filter(|(at, _)| !silent(at)) {
        let reader = Reader { store, slot };
        let info = reader.text(&["CLUSTER", "INFO"]).await;
        let nodes = reader.text(&["CLUSTER", "NODES"]).await;
        if let (Ok(info), Ok(nodes)) = (info, nodes) {
            let (info, nodes) = (read_info(&info), ClusterNode::read_all(&nodes));
            return Some(ClusterFacts { info, nodes, requires_full_coverage });
        }
    }
    None
}

/// The fastest of so many readings of a clock counts.
const CLOCK_READINGS: usize = 3;
