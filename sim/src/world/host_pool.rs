//! Lua hosts of earlier runs. Compiling the library takes as long as a hundred calls, so the next
//! run of the thread reuses a host, with its data cleared.

use std::cell::RefCell;
use std::ops::{Deref, DerefMut};

use selvedge_core::value::Value;
use selvedge_lua::host::{Host, HostConfig, Snapshot};

/// How many hosts a thread keeps.
const POOL_MAX: usize = 4;

thread_local! {
    static POOL: RefCell<Vec<LoadedHost>> = const { RefCell::new(Vec::new()) };
}

/// A host with a library, and its state when it holds nothing else.
pub(super) struct LoadedHost {
    host: Host,
    pub(super) fresh: Snapshot,
    library: String,
    config: HostConfig,
}

impl LoadedHost {
    /// A host that holds this library and nothing else.
    ///
    /// # Errors
    /// When the library does not load.
    pub(super) fn new(library: &str, config: HostConfig) -> Result<Self, String> {
        if let Some(mut spare) = take(library, &config) {
            spare.host.reset_to(&spare.fresh, config.seed);
            return Ok(spare);
        }
        let mut host = Host::new(config.clone());
        if let Value::Error(text) = host.call(&["FUNCTION", "LOAD", library]) {
            return Err(format!("the library does not load: {text}"));
        }
        Ok(Self { fresh: host.snapshot(), host, library: library.to_owned(), config })
    }

    /// Makes the host available to the next run.
    pub(super) fn return_to_pool(self) {
        POOL.with_borrow_mut(|spares| {
            if spares.len() == POOL_MAX {
                spares.remove(0);
            }
            spares.push(self);
        });
    }
}

impl Deref for LoadedHost {
    type Target = Host;

    fn deref(&self) -> &Host {
        &self.host
    }
}

impl DerefMut for LoadedHost {
    fn deref_mut(&mut self) -> &mut Host {
        &mut self.host
    }
}

/// A host with the same library and configuration, apart from its seed.
fn take(library: &str, config: &HostConfig) -> Option<LoadedHost> {
    POOL.with_borrow_mut(|spares| {
        let fits = |spare: &LoadedHost| {
            let same_but_seed = HostConfig { seed: config.seed, ..spare.config.clone() };
            same_but_seed == *config && spare.library == library
        };
        spares.iter().position(fits).map(|at| spares.remove(at))
    })
}

#[cfg(test)]
mod tests {
    use crate::plan::{Seed, plan_from_seed};
    use crate::runner::{RunOptions, run};

    /// The trace hash and the final digest of a seed.
    fn run_seed(number: u64) -> Result<(u64, u64), String> {
        let outcome = run(&plan_from_seed(Seed::from(number)), &RunOptions::default())?;
        Ok((outcome.trace.hash(), outcome.digest))
    }

    #[test]
    fn a_run_on_a_reused_host_equals_one_on_a_new_host() {
        for number in [4, 5, 8] {
            // The first run of a thread has no host to reuse.
            let new = std::thread::spawn(move || run_seed(number)).join();
            assert_eq!(run_seed(number), new.expect("the thread ends well"), "seed {number}");
        }
    }
}
