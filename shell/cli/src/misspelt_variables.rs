//! Environment variables that are nearly, but not quite, the name of a setting.

use std::cell::RefCell;
use std::collections::BTreeSet;

use crate::settings::Settings;

/// Settings that are read elsewhere than by [`Settings`].
const OTHERS: [&str; 2] = ["SELVEDGE_NAMESPACE", "SELVEDGE_SIGNAL_TICKET"];

/// Letters that may be wrong, missing, superfluous or swapped.
const TYPOS_MAX: usize = 2;

/// The variables that differ by a letter or two from a setting, each with that setting.
pub(crate) fn find(names: impl IntoIterator<Item = String>) -> Vec<(String, String)> {
    let known = known_names();
    let nearest = |name: &str| {
        let distance = |known: &String| strsim::osa_distance(name, known);
        known.iter().map(|known| (distance(known), known)).min()
    };
    let ours = names.into_iter().filter(|name| {
        (name.starts_with("SELVEDGE") || name.starts_with("FF_")) && !known.contains(name)
    });
    ours.filter_map(|name| match nearest(&name) {
        Some((typos, meant)) if typos <= TYPOS_MAX => Some((name, meant.clone())),
        _ => None,
    })
    .collect()
}

/// Every name that is looked up when nothing is set.
fn known_names() -> BTreeSet<String> {
    let seen = RefCell::new(BTreeSet::from(OTHERS.map(str::to_owned)));
    let read = Settings::read(|name| {
        seen.borrow_mut().insert(name.to_owned());
        None
    });
    drop(read);
    seen.into_inner()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_typo_is_found_and_other_names_are_left_alone() {
        let names = [
            "SELVEDGE_LSITEN",
            "SELVEDGE_LISTEN",
            "SELVEDGE_VALKEY_SERVER",
            "FF_FLOW_PARTITION",
            "FFMPEG_PATH",
            "PATH",
        ];
        let found = find(names.map(str::to_owned));
        let meant = |name: &str, setting: &str| (name.to_owned(), setting.to_owned());
        assert_eq!(
            found,
            [
                meant("SELVEDGE_LSITEN", "SELVEDGE_LISTEN"),
                meant("FF_FLOW_PARTITION", "FF_FLOW_PARTITIONS"),
            ]
        );
    }
}
