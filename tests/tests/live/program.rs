//! The program `live`, as the person in front of it meets it.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use selvedge_tests::live::process::{Signal, signal};
use selvedge_tests::patience::Patience;
use tempfile::TempDir;

#[test]
fn whoever_interrupts_it_finds_nothing_left_behind() {
    // As soon as there is anything, while servers start, and when all is under way.
    for (sign, how) in [("", Signal::End), ("", Signal::Interrupt), ("runs.txt", Signal::Interrupt)]
    {
        let folder = tempfile::tempdir().expect("a folder");
        let options = ["--schedules", "4", "--at-once", "2", "--shape", "pair"];
        let live = live(&options, &folder).spawn().expect("live");
        let begun = || begun(folder.path(), sign).then_some(());
        assert!(Patience::of(WITHIN).until(begun).is_some(), "nothing begins");
        // To the whole group, as a terminal does.
        signal(how, format!("-{}", live.id())).expect("a signal");
        let Output { status, stdout, stderr } = ended(live);
        let (stdout, stderr) = (String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
        assert_eq!(status.code(), Some(1), "{stdout}{stderr}");
        assert!(stderr.ends_with("interrupted\n"), "{stderr}");
        assert!(stdout.contains("0 schedules of 30 s, 0 failed"), "{stdout}");
        let left: Vec<_> = fs::read_dir(folder.path()).expect("it is there").collect();
        assert!(left.is_empty(), "left behind: {left:?}");
    }
}

#[test]
fn without_a_server_it_says_so_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut live = live(&["--schedules", "3"], &folder);
    let live = live.env("SELVEDGE_VALKEY_SERVER", folder.path().join("nothing"));
    let Output { status, stdout, stderr } = ended(live.spawn().expect("live"));
    let stderr = String::from_utf8_lossy(&stderr);
    assert_eq!(status.code(), Some(1), "{stderr}");
    assert_eq!(stderr.matches("run ./test").count(), 1, "{stderr}");
    assert_eq!(String::from_utf8_lossy(&stdout), "");
    let left: Vec<_> = fs::read_dir(folder.path()).expect("it is there").collect();
    assert!(left.is_empty(), "left behind: {left:?}");
}

fn live(options: &[&str], temporary: &TempDir) -> Command {
    let mut live = Command::new(env!("CARGO_BIN_EXE_live"));
    live.args(options).env("TMPDIR", temporary.path()).stdin(Stdio::null());
    live.stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
    live
}

/// Whether the folder of some schedule has a file of this name.
fn begun(temporary: &Path, name: &str) -> bool {
    let folders = fs::read_dir(temporary).into_iter().flatten().filter_map(Result::ok);
    folders
        .filter(|folder| folder.file_name().to_string_lossy().starts_with("selvedge-live-"))
        .any(|folder| folder.path().join(name).exists())
}

/// What it said when it had ended, which must not take long.
fn ended(mut live: Child) -> Output {
    let ended = Patience::of(WITHIN).until(|| live.try_wait().ok().flatten());
    if ended.is_none() {
        live.kill().expect("it still runs");
    }
    assert!(ended.is_some(), "it does not end");
    live.wait_with_output().expect("it has ended")
}

/// A machine may be busy.
const WITHIN: Duration = Duration::from_secs(120);
