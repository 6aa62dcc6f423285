//! Saves failing seeds: one folder for each, with the plan, the shrunk plan, the report, the end of
//! the trace, and the commit. Keep plans rather than seeds: after a change of the code a seed gives
//! another plan.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::failure::Failure;
use crate::plan::{Mode, Plan, Seed};

/// The folder of saved failures.
#[derive(Clone, Debug)]
pub struct FailureStore(PathBuf);

/// A failure to save.
#[derive(Clone, Debug)]
pub struct Record<'a> {
    /// Its seed.
    pub seed: Seed,
    /// The mode that its plan was generated in.
    pub mode: Mode,
    /// The commit that was run, if it is known.
    pub commit: Option<&'a str>,
    /// What failed.
    pub failure: &'a Failure,
    /// The plan that failed.
    pub plan: &'a Plan,
    /// The smallest plan that fails in the same way.
    pub shrunk: &'a Plan,
    /// The report that was printed.
    pub report: &'a str,
    /// The last events.
    pub trace: &'a str,
}

/// Failures of one oracle whose shrunk plans have the same shape: probably one bug.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// The oracle.
    pub oracle: String,
    /// The kinds of lines in the shrunk plan.
    pub shape: String,
    /// The seeds, smallest shrunk plan first.
    pub seeds: Vec<String>,
    /// How many lines the smallest shrunk plan has.
    pub lines: usize,
}

impl FailureStore {
    /// A store in this folder. The folder need not exist yet.
    #[must_use]
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self(folder.into())
    }

    /// Saves a failure and returns the path of the shrunk plan. A failure of the same seed and mode
    /// is replaced.
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
        let failure = format!("{}\n{}\n", record.failure.oracle, record.failure.class);
        fs::write(folder.join(FAILURE), failure)?;
        Ok(shrunk)
    }

    /// The shrunk plan of a seed.
    ///
    /// # Errors
    /// When there is none.
    pub fn shrunk(&self, seed: &str) -> io::Result<String> {
        fs::read_to_string(self.shrunk_path(seed))
    }

    /// The path of the shrunk plan of a seed, whether or not it exists.
    #[must_use]
    pub fn shrunk_path(&self, seed: &str) -> PathBuf {
        self.0.join(seed).join(SHRUNK)
    }

    /// The report of a seed.
    ///
    /// # Errors
    /// When there is none.
    pub fn report(&self, seed: &str) -> io::Result<String> {
        fs::read_to_string(self.0.join(seed).join("report.txt"))
    }

    /// All failures, grouped by oracle and shape, largest group first.
    ///
    /// # Errors
    /// When the folder cannot be read. A folder that does not exist has no failures.
    pub fn groups(&self) -> io::Result<Vec<Group>> {
        let mut groups: BTreeMap<(String, String), Vec<(usize, String)>> = BTreeMap::new();
        for folder in folders(&self.0)? {
            let failure = fs::read_to_string(folder.join(FAILURE)).unwrap_or_default();
            let Some(oracle) = failure.lines().next() else { continue };
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

/// The folder of a seed: a seed gives different plans in the two modes.
fn folder_name(seed: Seed, mode: Mode) -> String {
    match mode {
        Mode::Swarm => seed.to_string(),
        Mode::Lite => format!("{seed}{LITE}"),
    }
}

/// Whether a name can be the folder of a seed. No other name may be used as a path.
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

/// The fault kinds and actions of a plan, each once, without times and numbers.
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
const FAILURE: &str = "failure.txt";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_has_a_separate_folder_in_each_mode() {
        let [swarm, lite] = [Mode::Swarm, Mode::Lite].map(|mode| folder_name(7.into(), mode));
        assert_eq!((swarm.as_str(), lite.as_str()), ("7", "7-lite"));
        assert!(is_folder_name(&swarm) && is_folder_name(&lite));
        for name in ["", "-lite", "../7", "7/../8", "/7", "seven"] {
            assert!(!is_folder_name(name), "{name}");
        }
    }

    #[test]
    fn a_shape_leaves_out_times_and_numbers() {
        let one = "engines 2\nat 1s caller-1 submit F1 chain 3\nfault ReplyLost on 3rd drain";
        let two = "at 9s caller-2 submit F7 chain 2\nfault ReplyLost on 1st drain by engine-1";
        assert_eq!(shape(one), "ReplyLost+submit");
        assert_eq!(shape(one), shape(two));
        assert_eq!(shape(""), "");
    }
}
