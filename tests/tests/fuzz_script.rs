//! `fuzz/run` with tools that only pretend: what it asks of them, and what it makes of their answers.

#![expect(clippy::unwrap_used, reason = "a file that cannot be written is a failure")]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use selvedge_tests::patience::Patience;
use tempfile::TempDir;

#[test]
fn a_target_goes_on_until_it_had_its_time() {
    // Less than a second in each round, as on a machine where others have the rest of it.
    let stage = Stage::set(&format!("{BURN}; {ROUND}"));
    let told = stage.run("1 some_target");
    assert!(told.good, "{}", told.text);
    let row = told.row("some_target");
    let [_, cpu_s, executions, cov, ft, _, outcome] = row[..] else { panic!("{row:?}") };
    let rounds = stage.asked("fuzz run").len();
    assert!(rounds > 1, "it had its time in one round: that shows nothing");
    assert_eq!((cpu_s, executions), ("1", (7 * rounds).to_string().as_str()), "{row:?}");
    assert_eq!((cov, ft, outcome), ("11", "22", "clean"));
    assert!(stage.asked("fuzz run").iter().all(|words| words.contains("-max_total_time=1 ")));
}

/// On a machine that is busy enough, rounds have hardly any time; elsewhere numbers have commas.
#[test]
fn rounds_that_had_next_to_nothing_count_too() {
    let stage = Stage::set(&format!("echo \"in $LC_ALL\" >>\"$ASKED\"; {ROUND}"));
    let told = stage.run("1 some_target");
    assert!(told.good, "{}", told.text);
    let rounds = stage.asked("fuzz run").len();
    assert!(rounds <= 100, "{rounds} rounds for a second");
    assert_eq!(stage.asked("in C").len(), rounds, "the numbers are spelled otherwise");
}

#[test]
fn a_finding_ends_a_target_and_not_the_others() {
    let fails = "case \"$*\" in *some_target*) echo boom; exit 77 ;; esac";
    let stage = Stage::set(&format!("{fails}; {BURN}; {ROUND}"));
    let told = stage.run("1");
    assert!(!told.good, "{}", told.text);
    assert_eq!(
        told.row("some_target")[6..],
        ["FAILED,", "see", "fuzz/target/logs/some_target.log"]
    );
    assert_eq!(told.row("other_target")[6], "clean");
    let rounds = stage.asked("fuzz run");
    assert_eq!(rounds.iter().filter(|words| words.contains("some_target")).count(), 1);
    assert_eq!(stage.read("fuzz/target/logs/some_target.log"), "boom\n");
}

#[test]
fn a_target_that_does_not_build_is_told_of() {
    let stage = Stage::set(ROUND);
    stage.tool("cargo", "case \"$*\" in *build*) echo no such thing; exit 1 ;; esac");
    let told = stage.run("1 some_target");
    assert!(!told.good);
    assert!(told.text.contains("some_target          does not build, see fuzz/target/logs/"));
    assert!(stage.asked("fuzz run").is_empty());
}

#[test]
fn wrong_words_are_told_before_anything_is_run() {
    let stage = Stage::set(ROUND);
    for (words, reason) in [
        ("0", "usage: fuzz/run [seconds]"),
        ("-5", "usage: fuzz/run [seconds]"),
        ("1h", "usage: fuzz/run [seconds]"),
        ("10000000", "usage: fuzz/run [seconds]"),
        ("1 third_target", "no target third_target; there are: other_target some_target"),
        ("coverage third_target", "no target third_target"),
        ("keep third_target", "no target third_target"),
    ] {
        let told = stage.run(words);
        assert!(!told.good && told.text.contains(reason), "{words}: {}", told.text);
    }
    assert_eq!(stage.asked(""), Vec::<String>::new());
}

/// Among all that cargo names, and whatever it names last, only one replays the corpora.
#[test]
fn coverage_is_of_the_test_that_replays_the_corpora() {
    let stage = Stage::with_coverage();
    let told = stage.run("coverage waitpoint_token");
    assert!(told.good, "{}", told.text);
    let row = told.row("waitpoint_token");
    assert_eq!(row, ["waitpoint_token", "core/src/token.rs", "40", "30", "75.00%"]);
    let replay = stage.path("deps/corpus-2f").display().to_string();
    let replayed = format!("{replay} --exact waitpoint_token");
    assert_eq!(stage.asked("deps/")[0], replayed);
    assert!(stage.asked("llvm-cov report")[0].contains(&format!(" {replay} ")));
}

#[test]
fn coverage_that_was_not_counted_is_told_of() {
    for (tool, does) in [
        ("llvm-profdata", "echo no counts >&2; exit 1"),
        ("llvm-cov", "echo no map >&2; exit 1"),
        ("llvm-cov", "echo Filename Regions Missed Cover"),
    ] {
        let stage = Stage::with_coverage();
        stage.tool(tool, does);
        let told = stage.run("coverage waitpoint_token");
        assert!(!told.good, "{tool} that does {does}: {}", told.text);
    }
}

/// A copy of the script, with two targets and tools of its own.
struct Stage {
    root: TempDir,
}

struct Told {
    good: bool,
    text: String,
}

impl Stage {
    /// The body of a round of fuzzing is for `sh`.
    fn set(round: &str) -> Self {
        let stage = Self { root: tempfile::tempdir().unwrap() };
        let targets = stage.path("fuzz/fuzz_targets");
        fs::create_dir_all(&targets).unwrap();
        for folder in ["tools/bin", "tools/lib"] {
            fs::create_dir_all(stage.path(folder)).unwrap();
        }
        for target in ["other_target", "some_target", "waitpoint_token"] {
            fs::write(targets.join(target).with_extension("rs"), "").unwrap();
        }
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).with_file_name("fuzz").join("run");
        fs::copy(script, stage.path("fuzz/run")).unwrap();
        stage.tool("cargo", &format!("case \"$*\" in *'fuzz run'*) {round} ;; esac"));
        stage
    }

    /// With tools that build four executables and count the regions of one file.
    fn with_coverage() -> Self {
        let stage = Self::set(ROUND);
        fs::create_dir(stage.path("deps")).unwrap();
        let mut built = "mkdir -p target/coverage; echo '{\"executable\":null}'; ".to_owned();
        for name in ["conformance-1f", "corpus-2f", "corpus", "spec-3f"] {
            let path = stage.path("deps").join(name);
            // Tells by which name it was called, and writes what a build that counts writes.
            executable(&path, "echo \"$0 $*\" >>\"$ASKED\"; : >\"$LLVM_PROFILE_FILE\"");
            built += &format!("echo '{{\"executable\":\"{}\"}}'; ", path.display());
        }
        stage.tool("cargo", &built);
        let asked =
            "case \"$*\" in *libdir*) echo \"$TOOLS/lib\" ;; *) echo host: some-machine ;; esac";
        stage.tool("rustc", asked);
        stage.tool("llvm-profdata", "");
        let report = "echo Filename Regions Missed Cover; echo core/src/token.rs 40 10 75.00%";
        stage.tool("llvm-cov", report);
        stage
    }

    /// A tool that notes what it is asked for, and then does this.
    fn tool(&self, name: &str, does: &str) {
        let path = self.path("tools/bin").join(name);
        executable(&path, &format!("echo \"{name} $*\" >>\"$ASKED\"\n{does}"));
    }

    fn run(&self, words: &str) -> Told {
        let path = std::env::var("PATH").unwrap_or_default();
        let said = fs::File::create(self.path("said")).unwrap();
        let mut script = Command::new("bash")
            .arg(self.path("fuzz/run"))
            .args(words.split(' '))
            .env("PATH", format!("{}:{path}", self.path("tools/bin").display()))
            .env("TOOLS", self.path("tools"))
            .env("ASKED", self.path("asked"))
            .stdin(Stdio::null())
            .stdout(said.try_clone().unwrap())
            .stderr(said)
            .spawn()
            .unwrap();
        let ended = Patience::of(WITHIN).until(|| script.try_wait().unwrap());
        if ended.is_none() {
            script.kill().unwrap();
        }
        let text = self.read("said");
        let status = ended.unwrap_or_else(|| panic!("fuzz/run {words} does not end: {text}"));
        Told { good: status.success(), text }
    }

    /// The calls of tools with these words in them, but those that only look whether they are there.
    fn asked(&self, words: &str) -> Vec<String> {
        let asked = self.read("asked");
        let asked = asked.lines().filter(|line| !line.ends_with("--version"));
        asked.filter(|line| line.contains(words)).map(str::to_owned).collect()
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    fn path(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }
}

impl Told {
    /// The words of the row of a target.
    fn row(&self, target: &str) -> Vec<&str> {
        let row = self.text.lines().find(|line| line.starts_with(target));
        row.unwrap_or_else(|| panic!("{target} has no row: {}", self.text))
            .split_whitespace()
            .collect()
    }
}

fn executable(path: &Path, body: &str) {
    fs::write(path, format!("#!/bin/sh\n{body}\n")).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

/// Some tenth of a second of a core, or three with a slower shell.
const BURN: &str = "i=0; while [ $i -lt 60000 ]; do i=$((i + 1)); done";

/// What libFuzzer says at the end of a round.
const ROUND: &str =
    "echo '#9 DONE cov: 11 ft: 22 corp: 3/4b'; echo 'stat::number_of_executed_units: 7'";

/// It takes a second or two; a busy machine may take far longer.
const WITHIN: Duration = Duration::from_secs(120);
