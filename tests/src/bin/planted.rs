//! Plants every bug of `weak-spots/planted.txt` and demands that its stories turn red: those of the
//! engine, and the replays of the corpora.
//!
//! `cargo run -p selvedge-tests --bin planted [-- WORD…]` takes all bugs, or those whose name has
//! one of the words. The bugs go into a copy of the workspace under the target folder, each behind
//! a switch, so one build serves all of them. The copy has a target folder of its own: nothing with
//! a bug in it may be taken for the real thing.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::{env, fs};

use selvedge_tests::planted::{Bug, IN_CORPUS, folder, parse};
use selvedge_tests::{complain, say};

fn main() -> ExitCode {
    match run(&env::args().skip(1).collect::<Vec<_>>()) {
        Ok(0) => ExitCode::SUCCESS,
        Ok(missed) => {
            complain!("{missed} stories stayed green with their bug");
            ExitCode::FAILURE
        }
        Err(error) => {
            complain!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// Answers how many stories did not notice.
fn run(words: &[String]) -> Result<usize, String> {
    let list = folder().join("planted.txt");
    let text = fs::read_to_string(&list).map_err(|error| format!("{}: {error}", list.display()))?;
    let bugs = parse(&text).map_err(|error| error.to_string())?;
    let root = folder().parent().and_then(Path::parent).ok_or("the workspace has no root")?;
    let chosen: Vec<(usize, &Bug)> = bugs
        .iter()
        .enumerate()
        .filter(|(_, bug)| words.is_empty() || words.iter().any(|word| bug.name.contains(word)))
        .collect();
    if chosen.is_empty() {
        return Err(format!("no bug of {} has any of these words", list.display()));
    }
    let copy = target(root).join("planted");
    mirror(root, &copy, &plant(root, &bugs)?)?;
    let suites = build(&copy)?;
    let stories: BTreeSet<&String> = chosen.iter().flat_map(|(_, bug)| &bug.reds).collect();
    let told = run_suites(&suites, None, stories);
    if told.contains("FAILED") || !told.contains("test result: ok") {
        return Err(format!("red without any bug:\n{told}"));
    }
    let mut missed = 0;
    for (number, bug) in chosen {
        let told = run_suites(&suites, Some(number), &bug.reds);
        say!("{}", bug.name);
        for red in &bug.reds {
            let noticed = told.contains(&format!("test {} ... FAILED", place(red).1));
            say!("  {} {red}", if noticed { "red  " } else { "GREEN" });
            missed += usize::from(!noticed);
        }
    }
    Ok(missed)
}

fn target(root: &Path) -> PathBuf {
    env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from)
}

/// The files that differ from their originals, by their path.
fn plant(root: &Path, bugs: &[Bug]) -> Result<BTreeMap<PathBuf, String>, String> {
    let mut files: BTreeMap<PathBuf, String> = BTreeMap::new();
    let mut library = String::new();
    // Several bugs may begin with the same words: their switches stand one inside the other.
    for (number, bug) in bugs.iter().enumerate() {
        for edit in &bug.edits {
            let Some(file) = &edit.file else {
                writeln!(
                    library,
                    "    if planted({number}) {{ text = text.replace(r####\"{}\"####, \
                     r####\"{}\"####); }}",
                    edit.sound, edit.broken
                )
                .map_err(|error| error.to_string())?;
                continue;
            };
            let path = PathBuf::from(file);
            let text = match files.remove(&path) {
                Some(text) => text,
                None => edit.text(root).map_err(|error| format!("{file}: {error}"))?,
            };
            if text.matches(&edit.sound).count() != 1 {
                return Err(format!("{}: {file} has other words for\n{}", bug.name, edit.sound));
            }
            files.insert(path, text.replace(&edit.sound, &edit.switched(number)));
        }
    }
    let mut add = |file: &str, change: &dyn Fn(String) -> String| {
        let path = PathBuf::from(file);
        let text = match files.remove(&path) {
            Some(text) => text,
            None => fs::read_to_string(root.join(file)).map_err(|e| format!("{file}: {e}"))?,
        };
        files.insert(path, change(text));
        Ok::<(), String>(())
    };
    for package in ["lua", "shell", "sim"] {
        add(&format!("{package}/src/lib.rs"), &|text| format!("{text}\n{SWITCH}"))?;
    }
    add("core/src/lib.rs", &|text| format!("{text}\nextern crate std;\n{SWITCH}"))?;
    add("sim/src/rig.rs", &|text| {
        let text = text.replace("library::SOURCE", "&planted_library()");
        format!(
            "{text}\nuse crate::planted;\n/// With the bugs in it.\npub fn planted_library() -> String \
             {{\n    let mut text = library::SOURCE.to_owned();\n{library}    text\n}}\n"
        )
    })?;
    add("tests/src/fuzz/lua_call.rs", &|text| {
        text.replace("(SOURCE,", "(&selvedge_sim::rig::planted_library(),")
    })?;
    Ok(files)
}

/// Whether the bug with this number is wanted.
const SWITCH: &str = "/// Whether the bug with this number is wanted.
pub fn planted(number: usize) -> bool {
    static WANTED: std::sync::OnceLock<Option<usize>> = std::sync::OnceLock::new();
    let wanted = || std::env::var(\"SELVEDGE_PLANTED\").ok().and_then(|text| text.parse().ok());
    *WANTED.get_or_init(wanted) == Some(number)
}
";

/// Brings the copy up to date; what has not changed keeps its time, so that it is not built again.
fn mirror(root: &Path, copy: &Path, planted: &BTreeMap<PathBuf, String>) -> Result<(), String> {
    let listed = Command::new("git")
        .args(["ls-files", "--cached", "--others", "--exclude-standard", "-z"])
        .current_dir(root)
        .output()
        .map_err(|error| format!("git: {error}"))?;
    let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
    let mut mirrored = BTreeSet::new();
    for file in listed.split('\0').filter(|file| !file.is_empty()) {
        let path = Path::new(file);
        let text = match planted.get(path) {
            Some(text) => text.clone().into_bytes(),
            // Deleted, and git has not been told yet.
            None => match fs::read(root.join(path)) {
                Ok(text) => text,
                Err(_) => continue,
            },
        };
        let to = copy.join(path);
        mirrored.insert(to.clone());
        if fs::read(&to).is_ok_and(|known| known == text) {
            continue;
        }
        let made = to.parent().map_or(Ok(()), fs::create_dir_all);
        made.and_then(|()| fs::write(&to, text)).map_err(|e| format!("{}: {e}", to.display()))?;
    }
    forget(copy, &mirrored).map_err(|error| format!("{}: {error}", copy.display()))
}

/// Removes what was taken away meanwhile: an input that is gone must not notice anything any more.
fn forget(folder: &Path, mirrored: &BTreeSet<PathBuf>) -> std::io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            if path.file_name() != Some("target".as_ref()) {
                forget(&path, mirrored)?;
            }
        } else if !mirrored.contains(&path) {
            fs::remove_file(path)?;
        }
    }
    Ok(())
}

/// The suite that a story is in, and its name there.
fn place(story: &str) -> (&str, &str) {
    match story.strip_prefix(IN_CORPUS) {
        Some(target) => ("corpus", target),
        None => ("engine", story),
    }
}

/// Builds the suites of the copy; answers their programs.
fn build(copy: &Path) -> Result<BTreeMap<String, PathBuf>, String> {
    say!("building the planted copy ...");
    let built = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .args(["test", "-p", "selvedge-tests", "--test", "engine", "--test", "corpus", "--no-run"])
        .args(["--message-format", "json-render-diagnostics", "--quiet", "--target-dir"])
        .arg(copy.join("target"))
        .current_dir(copy)
        .output()
        .map_err(|error| format!("cargo: {error}"))?;
    if !built.status.success() {
        return Err(String::from_utf8_lossy(&built.stderr).into_owned());
    }
    let suites: BTreeMap<_, _> = String::from_utf8_lossy(&built.stdout)
        .lines()
        .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok())
        // There is a program of that name as well.
        .filter(|message| message["target"]["kind"][0] == "test")
        .filter_map(|message| {
            let name = message["target"]["name"].as_str()?.to_owned();
            Some((name, PathBuf::from(message["executable"].as_str()?)))
        })
        .collect();
    if suites.len() < 2 { Err("cargo did not build both suites".to_owned()) } else { Ok(suites) }
}

/// Runs stories, with a bug or without any; answers what was told.
fn run_suites<'a>(
    suites: &BTreeMap<String, PathBuf>,
    bug: Option<usize>,
    stories: impl IntoIterator<Item = &'a String>,
) -> String {
    let mut by_suite = BTreeMap::<&str, Vec<&str>>::new();
    for (suite, story) in stories.into_iter().map(|story| place(story)) {
        by_suite.entry(suite).or_default().push(story);
    }
    by_suite
        .into_iter()
        .map(|(suite, stories)| {
            let mut command = Command::new(&suites[suite]);
            if let Some(number) = bug {
                command.env("SELVEDGE_PLANTED", number.to_string());
            }
            match command.arg("--exact").args(stories).stderr(Stdio::null()).output() {
                Ok(told) => String::from_utf8_lossy(&told.stdout).into_owned(),
                Err(error) => error.to_string(),
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_copy_has_what_the_original_has_and_no_more() {
        let (root, copy) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let git = Command::new("git").args(["init", "-q"]).current_dir(root.path()).status();
        assert!(git.unwrap().success());
        let put = |folder: &Path, file: &str, text: &str| {
            let path = folder.join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        put(root.path(), "a/moved.rs", "sound");
        put(root.path(), "kept.rs", "sound");
        let mirrored = |bug: &str| {
            let planted = BTreeMap::from([(PathBuf::from("kept.rs"), bug.to_owned())]);
            mirror(root.path(), copy.path(), &planted).unwrap();
            let read = |file: &str| fs::read_to_string(copy.path().join(file)).ok();
            [read("kept.rs"), read("a/moved.rs"), read("b/moved.rs")].map(Option::unwrap_or_default)
        };
        assert_eq!(mirrored("broken"), ["broken", "sound", ""]);
        put(copy.path(), "target/built", "for the next time");
        fs::remove_file(root.path().join("a/moved.rs")).unwrap();
        put(root.path(), "b/moved.rs", "sound");
        assert_eq!(mirrored("broken otherwise"), ["broken otherwise", "", "sound"]);
        assert!(copy.path().join("target/built").exists(), "what was built is built again");
    }
}
