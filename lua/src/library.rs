//! The function library as text.

pub use crate::assemble::assemble;

/// Name under which servers hold the library.
pub const NAME: &str = "flowfabric";

/// The answer of `ff_version`. It is part of the wire contract and does not change when functions
/// are added.
pub const VERSION: &str = "34";

/// The revision of the library in this crate. Every release that changes the library raises it: a
/// program replaces an older revision on a server and leaves a newer one alone.
pub const REVISION: u32 = crate::assemble::REVISION;

/// Distinguishes texts of the same revision.
pub const DIGEST: &str = include_str!(concat!(env!("OUT_DIR"), "/flowfabric.digest"));

/// The library as `FUNCTION LOAD` takes it.
pub const SOURCE: &str = include_str!(concat!(env!("OUT_DIR"), "/flowfabric.lua"));

#[cfg(test)]
mod tests {
    use super::*;

    const REVISIONS: &str = include_str!("../revisions.txt");

    #[test]
    fn a_text_that_changed_is_a_new_revision() {
        let revisions: Vec<(u32, &str)> = REVISIONS
            .lines()
            .filter(|line| !line.starts_with('#'))
            .filter_map(|line| line.split_once(' '))
            .map(|(revision, digest)| (revision.parse().unwrap(), digest))
            .collect();
        assert!(revisions.is_sorted_by(|one, next| one.0 < next.0), "revisions grow: {REVISIONS}");
        assert_eq!(
            revisions.last(),
            Some(&(REVISION, DIGEST)),
            "the library text is not the last revision of lua/revisions.txt: programs with different \
             texts of one revision would keep replacing each other's. Raise REVISION in \
             lua/src/assemble.rs to a number that was never released, and end lua/revisions.txt with \
             that number and the digest {DIGEST}",
        );
    }

    #[cfg(feature = "host")]
    #[test]
    fn the_largest_summary_is_patched_within_the_budget_of_a_host() {
        use crate::host::{Host, HostConfig};
        use selvedge_core::value::Value;

        let mut host = Host::new(HostConfig::default());
        host.call(&["FUNCTION", "LOAD", SOURCE]);
        let holder = "lifecycle_phase active ownership_state owned current_attempt_index 0 \
                      current_lease_id lease current_lease_epoch 1 lease_expires_at 9000000000000";
        host.call(
            &["HSET", "core{t}"].into_iter().chain(holder.split_whitespace()).collect::<Vec<_>>(),
        );
        // Half a million numbers: as much to read as a document of a mebibyte can hold.
        let numbers = vec!["1"; 520_000].join(",");
        for patch in [format!("{{\"numbers\":[{numbers}]}}"), String::from("{\"more\":2}")] {
            let reply = host.call(&[
                "FCALL",
                "ff_append_frame",
                "4",
                "core{t}",
                "stream{t}",
                "meta{t}",
                "summary{t}",
                "run",
                "0",
                "lease",
                "1",
                "stdout",
                "",
                &patch,
                "utf8",
                "",
                "worker",
                "0",
                "attempt",
                "2000000",
                "summary",
                "json-merge-patch",
                "0",
            ]);
            assert!(
                matches!(reply, Value::Array(ref told) if told[0] == Value::Int(1)),
                "{reply:?}"
            );
        }
    }
}
