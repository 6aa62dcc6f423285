//! What the command says and how it ends, for people and for scripts.

use std::io::Read;
use std::path::PathBuf;
use std::process::{Command, Stdio};

const SIM: &str = env!("CARGO_BIN_EXE_selvedge-sim");

fn sim(arguments: &[&str]) -> (i32, String) {
    let ran = Command::new(SIM).args(arguments).output().expect("the binary is built");
    let told = [ran.stdout, ran.stderr].concat();
    (ran.status.code().unwrap_or(-1), String::from_utf8_lossy(&told).into_owned())
}

/// A folder of one test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("selvedge-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a folder");
        Self(path)
    }

    fn path(&self, name: &str) -> String {
        self.0.join(name).to_string_lossy().into_owned()
    }

    fn replay(&self, plan: &str) -> (i32, String) {
        let path = self.path("a.plan");
        std::fs::write(&path, plan).expect("a file");
        sim(&["replay", &path])
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(&self.0));
    }
}

#[test]
fn steps_after_the_length_are_refused_and_late_ones_have_their_time() {
    let folder = Folder::new("steps");
    for late in ["157s", "250s"] {
        let plan = format!("workers 2\nat {late} caller-1 submit F1 chain 50\n");
        let (code, told) = folder.replay(&plan);
        assert_eq!(code, 2, "{told}");
        assert!(told.contains("line 2") && told.contains("raise `length`"), "{told}");
    }
    let (code, told) = folder.replay("at 120s caller-1 create E2 delay 60s\n");
    assert!(code == 2 && told.contains("raise `length`"), "{told}");
    for fine in [
        "length 120s\nat 120s caller-1 create E2 delay 60s\n",
        // It is due when the bound would be over, were it counted from the length.
        "length 10s\nbound 20s\nat 10s caller-1 create E2 delay 20s\n",
    ] {
        let (code, told) = folder.replay(fine);
        assert_eq!(code, 0, "{fine}{told}");
    }
}

#[test]
fn who_waits_for_a_signal_that_nobody_sends_is_told_with_the_verdict() {
    let folder = Folder::new("signals");
    let plan = "signals no\nworkers 2\nlength 5s\ntask E1 does suspend\nat 0s caller-1 create E1\n\
                at 0s caller-1 create E2\n";
    let (code, told) = folder.replay(plan);
    assert_eq!(code, 0, "{told}");
    assert!(told.contains("Passed"), "{told}");
    assert!(told.contains("1 still waits for a signal that nobody sends: E1\n"), "{told}");
    let many = "signals no\nworkers 2\nlength 5s\nhabits suspend:1\n\
                at 0s caller-1 submit F1 fan_out 5\ntask F1.0 does complete\n";
    let (code, told) = folder.replay(many);
    assert_eq!(code, 0, "{told}");
    assert!(told.contains("5 still wait for signals that nobody sends: F1."), "{told}");
    assert!(told.contains(" and others"), "{told}");
}

#[test]
fn who_waits_for_a_worker_where_there_is_none_is_told_with_the_verdict() {
    let folder = Folder::new("workers");
    let (code, told) = folder.replay("workers 0\nlength 5s\nat 0s caller-1 create E1\n");
    assert_eq!(code, 0, "{told}");
    assert!(told.contains("1 still waits for a worker, and there is none: E1\n"), "{told}");
}

#[test]
fn a_world_that_still_gets_on_when_its_time_is_over_is_told_to_have_more() {
    let folder = Folder::new("slow");
    let slow = "length 5s\nbound 60s\nworkers 1\nidle 9s..10s\nat 0s caller-1 submit F1 chain 25\n";
    let (code, told) = folder.replay(slow);
    assert_eq!(code, 12, "{told}");
    assert!(told.contains("raise `bound`?"), "{told}");
    let (code, told) = folder.replay(&slow.replace("bound 60s", "bound 600s"));
    assert_eq!(code, 0, "{told}");
    let stuck = "task E1 does die die die die die die die die die\nlength 2s\nbound 20s\n\
                 at 1s caller-1 create E1\nat 1s caller-1 create E2\n";
    let (code, told) = folder.replay(stuck);
    assert_eq!(code, 12, "{told}");
    assert!(told.contains("and stays so"), "{told}");
}

#[test]
fn a_fault_that_never_struck_is_told_by_its_line() {
    let folder = Folder::new("struck");
    let plan = "length 5s\nat 0s caller-1 create E1\nfault ReplyLost on 1st claim_next\n\
                # Nobody does.\nfault ReplyLost on 1st cancel_flow\n";
    let (code, told) = folder.replay(plan);
    assert_eq!(code, 0, "{told}");
    assert!(told.contains("fault on line 5 never struck: fault ReplyLost"), "{told}");
    assert!(!told.contains("on line 3"), "{told}");
    // Nor does one that is about a key which is not there.
    let key = "ff:exec:{fp:0}:{fp:0}:00000000-0000-4000-8000-000000000001";
    for (fault, part) in [("Eviction", "core"), ("OperatorEdit", "core"), ("WrongType", "payload")]
    {
        let plan = format!("length 5s\nfault {fault} at 1s about {key}:{part}\n");
        let (code, told) = folder.replay(&plan);
        assert_eq!(code, 0, "{told}");
        assert!(told.contains("fault on line 2 never struck"), "{told}");
    }
}

#[test]
fn a_name_that_is_given_twice_is_told_by_its_line() {
    let folder = Folder::new("twice");
    let again = "length 5s\nat 0s caller-1 submit F1 chain 2\nat 1s caller-1 submit F1 chain 2\n";
    let (code, told) = folder.replay(again);
    assert!(code == 0 && !told.contains("makes another"), "{told}");
    let (code, told) = folder.replay(&format!("{again}at 2s caller-1 submit F1 chain 3\n"));
    assert_eq!(code, 0, "{told}");
    assert!(
        told.contains("line 4 makes another `F1` than line 2: one of them comes about"),
        "{told}"
    );
}

#[test]
fn who_stops_reading_ends_the_command_quietly() {
    for (arguments, wanted) in
        [(&["show", "lease-lost", "--all"][..], 1), (&["list", "--failures", "/nonexistent"], 0)]
    {
        let mut child = Command::new(SIM)
            .args(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary is built");
        let mut out = child.stdout.take().expect("a pipe");
        let mut first = vec![0; wanted];
        out.read_exact(&mut first).unwrap();
        drop(out);
        let ran = child.wait_with_output().unwrap();
        let told = String::from_utf8_lossy(&ran.stderr).into_owned();
        assert_eq!((ran.status.code(), told), (Some(0), String::new()), "{arguments:?}");
    }
}

#[test]
fn a_verdict_is_the_same_when_nobody_reads_it() {
    let folder = Folder::new("unread");
    let path = folder.path("a.plan");
    std::fs::write(
        &path,
        "task E1 does die die die\nlength 2s\nbound 5s\nat 1s caller-1 create E1\n",
    )
    .unwrap();
    for (arguments, verdict) in [
        (&["replay", &path, "--all"][..], 12),
        (&["replay", "lease-lost", "--all"], 0),
        (&["run", "--lite", "--seeds", "3"], 0),
    ] {
        let mut child = Command::new(SIM)
            .args(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary is built");
        drop((child.stdout.take(), child.stderr.take()));
        assert_eq!(child.wait().unwrap().code(), Some(verdict), "{arguments:?}");
    }
}

#[test]
fn a_plan_that_fails_by_itself_fails_alike_when_it_is_swept() {
    let folder = Folder::new("swept");
    let path = folder.path("a.plan");
    std::fs::write(
        &path,
        "task E1 does die die die\nlength 2s\nbound 5s\nat 1s caller-1 create E1\n",
    )
    .unwrap();
    assert_eq!(sim(&["replay", &path]).0, 12);
    let (code, told) = sim(&["sweep", &path]);
    assert_eq!(code, 12, "{told}");
    assert!(told.contains("it fails by itself"), "{told}");
}

#[test]
fn what_makes_no_story_is_refused_before_anything_is_written() {
    let folder = Folder::new("no-story");
    for name in ["store/7", "x"] {
        std::fs::create_dir_all(folder.0.join(name)).unwrap();
        let plan = folder.0.join(name).join("shrunk.txt");
        std::fs::write(plan, "at 0s caller-1 create E1\n").unwrap();
    }
    let (store, stories) = (folder.path("store"), folder.path(""));
    for (seed, about, says) in [
        ("7", "one line\nlength 1s", "in one line"),
        ("7", " ", "in one line"),
        ("../x", "a story", "is no seed"),
    ] {
        let promote = ["promote", seed, "a-story", "--about", about];
        let places = ["--stories", &stories, "--failures", &store];
        let (code, told) = sim(&[&promote[..], &places].concat());
        assert_eq!(code, 2, "{told}");
        assert!(told.contains(says) && !folder.0.join("a-story.plan").exists(), "{told}");
    }
}

#[test]
fn events_are_asked_for_and_told_by_the_names_of_the_plan() {
    let folder = Folder::new("named");
    let (plan, page) = (folder.path("a.plan"), folder.path("a.html"));
    std::fs::write(&plan, "length 5s\nat 0s caller-1 submit order : check, ship <- check\n")
        .unwrap();
    let (code, told) = sim(&["show", &plan, "--only", "order.ship", "--page", &page]);
    assert_eq!(code, 0, "{told}");
    assert!(std::fs::read_to_string(&page).unwrap().contains("order.ship={fp:"));
    let (code, told) = sim(&["show", &plan, "--only", "order.ship"]);
    assert_eq!(code, 0, "{told}");
    assert!(told.contains("complete_execution order.ship={fp:"), "{told}");
    assert!(!told.contains("complete_execution order.check"), "{told}");
}

#[test]
fn replay_writes_a_page_too() {
    let folder = Folder::new("replay-page");
    let path = folder.path("a.html");
    let (code, told) = sim(&["replay", "lease-lost", "--page", &path]);
    assert_eq!(code, 0, "{told}");
    assert!(std::fs::read_to_string(&path).unwrap().contains("worker-1"));
}

#[test]
fn a_page_that_is_cut_short_says_so() {
    let folder = Folder::new("cut");
    let (path, plan) = (folder.path("a.html"), folder.path("a.plan"));
    std::fs::write(&plan, "workers 3\nat 1s caller-1 submit F1 chunk 5 fan_out 200\n").unwrap();
    let (code, told) = sim(&["show", &plan, "--all", "--page", &path]);
    assert_eq!(code, 0, "{told}");
    assert!(told.contains("5000 events on") && told.contains("cut short"), "{told}");
    assert!(std::fs::read_to_string(&path).unwrap().contains("cut short"));
}

#[test]
fn what_cannot_be_written_is_told_by_its_path() {
    let path = "/nonexistent/x.html";
    let (code, told) = sim(&["show", "lease-lost", "--page", path]);
    assert_eq!(code, 1, "{told}");
    assert!(told.contains(&format!("{path}: ")), "{told}");
    let folder = Folder::new("promote");
    std::fs::create_dir_all(folder.0.join("7")).unwrap();
    std::fs::write(folder.0.join("7/shrunk.txt"), "at 0s caller-1 create E1\n").unwrap();
    let failures = folder.path("");
    let promote = ["promote", "7", "a-story", "--about", "x", "--stories", "/nonexistent/stories"];
    let (code, told) = sim(&[&promote[..], &["--failures", &failures]].concat());
    assert_eq!(code, 1, "{told}");
    assert!(told.contains("/nonexistent/stories/a-story.plan: "), "{told}");
}

#[test]
fn it_is_told_when_no_event_matches() {
    for options in
        [&["--break", "999999"][..], &["--only", "nosuch"], &["--from", "12", "--until", "10"]]
    {
        for command in ["show", "replay"] {
            let (code, told) = sim(&[&[command, "lease-lost"], options].concat());
            assert_eq!(code, 0, "{told}");
            assert!(told.contains("no event matches"), "{command} {options:?}: {told}");
        }
    }
    let (_, told) = sim(&["show", "lease-lost", "--break", "40"]);
    assert!(!told.contains("no event matches"), "{told}");
}
