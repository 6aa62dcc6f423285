//! The failure store: one folder per failing seed, with the plan, the shrunk plan, the report, the
//! end of the trace, and where it came from. Plans are what to keep: seeds age with every edit.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::campaign::Mode;
use crate::failure::Failure;
use crate::plan::{Plan, Seed};

/// Where failures are kept.
#[derive(Clone, Debug)]
pub struct Shelf(PathBuf);

/// Everything that is kept of one failure.
#[derive(Clone, Debug)]
pub struct Record<'a> {
    /// Its seed.
    pub seed: Seed,
    /// Which worlds the seed was drawn from.
    pub mode: Mode,
    /// The commit that was run, where somebody knows.
    pub commit: Option<&'a str>,
    /// What failed.
    pub failure: &'a Failure,
    /// The plan that failed.
    pub plan: &'a Plan,
    /// The smallest plan that fails in the same way.
    pub shrunk: &'a Plan,
    /// What was told about it.
    pub report: &'a str,
    /// The last events.
    pub trace: &'a str,
}

/// Failures of one oracle and one shape: most likely one bug.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// The oracle.
    pub oracle: String,
    /// The kinds of lines that the shrunk plan needs.
    pub shape: String,
    /// The seeds, smallest shrunk plan first.
    pub seeds: Vec<String>,
    /// How many lines the smallest shrunk plan has.
    pub lines: usize,
}

impl Shelf {
    /// A store in this folder, which need not exist yet.
    #[must_use]
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self(folder.into())
    }

    /// Keeps a failure; one of the same seed and mode is replaced. Answers where the shrunk plan is.
    ///
    /// # Errors
    /// When the folder cannot be written.
    pub fn keep(&self, record: &Record<'_>) -> io::Result<PathBuf> {
        let folder = self.0.join(folder_name(record.seed, record.mode));
        fs::create_dir_all(&folder)?;
        let shrunk = folder.join(SHRUNK);
        fs::write(folder.join("plan.txt"), record.plan.to_string())?;
        fs::write(&shrunk, record.shrunk.to_string())?;
        fs::write(folder.join("report.txt"), record.report)?;
        fs::write(folder.join("trace.txt"), record.trace)?;
        let (commit, replay) =
            (record.commit.unwrap_or("unknown"), record.mode.replay(record.seed));
        fs::write(folder.join("origin.txt"), format!("commit {commit}\n{replay}\n"))?;
        let verdict = format!("{}\n{}\n", record.failure.oracle, record.failure.class);
        fs::write(folder.join(VERDICT), verdict)?;
        Ok(shrunk)
    }

    /// The shrunk plan of a seed.
    ///
    /// # Errors
    /// When there is none.
    pub fn shrunk(&self, seed: &str) -> io::Result<String> {
        fs::read_to_string(self.shrunk_path(seed))
    }

    /// Where the shrunk plan of a seed is, or would be.
    #[must_use]
    pub fn shrunk_path(&self, seed: &str) -> PathBuf {
        self.0.join(seed).join(SHRUNK)
    }

    /// What was told about a seed.
    ///
    /// # Errors
    /// When there is none.
    pub fn report(&self, seed: &str) -> io::Result<String> {
        fs::read_to_string(self.0.join(seed).join("report.txt"))
    }

    /// All failures, grouped by oracle and shape, the largest group first.
    ///
    /// # Errors
    /// When the folder cannot be read; one that does not exist is empty.
    pub fn groups(&self) -> io::Result<Vec<Group>> {
        let mut groups: BTreeMap<(String, String), Vec<(usize, String)>> = BTreeMap::new();
        for folder in folders(&self.0)? {
            let verdict = fs::read_to_string(folder.join(VERDICT)).unwrap_or_default();
            let Some(oracle) = verdict.lines().next() else { continue };
            let plan = fs::read_to_string(folder.join(SHRUNK)).unwrap_or_default();
            let seed = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let key = (oracle.to_owned(), shape(&plan));
            groups.entry(key).or_default().push((plan.lines().count(), seed));
        }
        let mut groups: Vec<Group> = groups
            .into_iter()
            .map(|((oracle, shape), mut seeds)| {
                seeds.sort();
                let lines = seeds.first().map_or(0, |(lines, _)| *lines);
                let seeds = seeds.into_iter().map(|(_, seed)| seed).collect();
                Group { oracle, shape, seeds, lines }
            })
            .collect();
        groups.sort_by_key(|group| std::cmp::Reverse(group.seeds.len()));
        Ok(groups)
    }
}

/// One seed deals another world in each mode.
fn folder_name(seed: Seed, mode: Mode) -> String {
    match mode {
        Mode::Swarm => seed.to_string(),
        Mode::Lite => format!("{seed}{LITE}"),
    }
}

/// Whether a failure may be kept under this name: no other one leads into a folder of the store.
#[must_use]
pub fn is_folder_name(name: &str) -> bool {
    name.strip_suffix(LITE).unwrap_or(name).parse::<Seed>().is_ok()
}

fn folders(path: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = match fs::read_dir(path) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut folders: Vec<PathBuf> =
        entries.filter_map(Result::ok).map(|entry| entry.path()).filter(|at| at.is_dir()).collect();
    folders.sort();
    Ok(folders)
}

/// The faults and deeds of a plan, each once: what a bug needs, whatever the times.
#[must_use]
pub fn shape(plan: &str) -> String {
    let mut kinds: Vec<&str> = plan
        .lines()
        .filter_map(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            match words.as_slice() {
                ["fault", name, ..] => Some(*name),
                ["at", _, _, deed, ..] => Some(*deed),
                _ => None,
            }
        })
        .collect();
    kinds.sort_unstable();
    kinds.dedup();
    kinds.join("+")
}

const LITE: &str = "-lite";
const SHRUNK: &str = "shrunk.txt";
const VERDICT: &str = "verdict.txt";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_has_a_place_of_its_own_in_each_mode() {
        let [swarm, lite] = [Mode::Swarm, Mode::Lite].map(|mode| folder_name(7.into(), mode));
        assert_eq!((swarm.as_str(), lite.as_str()), ("7", "7-lite"));
        assert!(is_folder_name(&swarm) && is_folder_name(&lite));
        for name in ["", "-lite", "../7", "7/../8", "/7", "seven"] {
            assert!(!is_folder_name(name), "{name}");
        }
    }

    #[test]
    fn a_shape_forgets_times_and_numbers() {
        let one = "engines 2\nat 1s caller-1 submit F1 chain 3\nfault ReplyLost on 3rd drain";
        let two = "at 9s caller-2 submit F7 chain 2\nfault ReplyLost on 1st drain by engine-1";
        assert_eq!(shape(one), "ReplyLost+submit");
        assert_eq!(shape(one), shape(two));
        assert_eq!(shape(""), "");
    }
}
