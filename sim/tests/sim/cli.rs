//! The output and the exit codes of `cargo sim`.

use std::io::Read;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::{SIM, sim};

/// A temporary folder of a test.
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
fn steps_after_the_length_are_refused_and_late_ones_have_enough_time() {
    let folder = Folder::new("steps");
    for late in ["157s", "250s"] {
        let plan = format!("workers 2\nat {late} caller-1 submit F1 chain 50\n");
        let (code, output) = folder.replay(&plan);
        assert_eq!(code, 2, "{output}");
        assert!(output.contains("line 2") && output.contains("raise `length`"), "{output}");
    }
    let (code, output) = folder.replay("at 120s caller-1 create E2 delay 60s\n");
    assert!(code == 2 && output.contains("raise `length`"), "{output}");
    for fine in [
        "length 120s\nat 120s caller-1 create E2 delay 60s\n",
        // Due after the bound, if that were counted from the length.
        "length 10s\nbound 20s\nat 10s caller-1 create E2 delay 20s\n",
    ] {
        let (code, output) = folder.replay(fine);
        assert_eq!(code, 0, "{fine}{output}");
    }
}

#[test]
fn executions_waiting_for_a_signal_are_named_in_the_result() {
    let folder = Folder::new("signals");
    let plan = "signals no\nworkers 2\nlength 5s\ntask E1 does suspend\nat 0s caller-1 create E1\n\
                at 0s caller-1 create E2\n";
    let (code, output) = folder.replay(plan);
    assert_eq!(code, 0, "{output}");
    assert!(output.contains("Passed"), "{output}");
    assert!(output.contains("1 still waits for a signal that is never sent: E1\n"), "{output}");
    let many = "signals no\nworkers 2\nlength 5s\nhabits suspend:1\n\
                at 0s caller-1 submit F1 fan_out 5\ntask F1.0 does complete\n";
    let (code, output) = folder.replay(many);
    assert_eq!(code, 0, "{output}");
    assert!(output.contains("5 still wait for signals that are never sent: F1."), "{output}");
    assert!(output.contains(" and others"), "{output}");
}

#[test]
fn executions_waiting_for_a_worker_are_named_in_the_result() {
    let folder = Folder::new("workers");
    let (code, output) = folder.replay("workers 0\nlength 5s\nat 0s caller-1 create E1\n");
    assert_eq!(code, 0, "{output}");
    assert!(output.contains("1 still waits for a worker (workers 0): E1\n"), "{output}");
}

#[test]
fn a_stuck_run_that_still_makes_progress_gets_a_hint_to_raise_the_bound() {
    let folder = Folder::new("slow");
    // The engine resolves edges of groups that count, and without pushes only now and then.
    let links: Vec<String> =
        (1..12).map(|at| format!(", t{at} <- t{} any_of let_run", at - 1)).collect();
    let slow = "length 5s\nbound 60s\npush no\nidle 9s..10s\nat 0s caller-1 submit F1 : t0";
    let slow = format!("{slow}{}\n", links.concat());
    let (code, output) = folder.replay(&slow);
    assert_eq!(code, 12, "{output}");
    assert!(output.contains("raise `bound`?"), "{output}");
    let (code, output) = folder.replay(&slow.replace("bound 60s", "bound 600s"));
    assert_eq!(code, 0, "{output}");
    let stuck = "task E1 does die die die die die die die die die\nlength 2s\nbound 20s\n\
                 at 1s caller-1 create E1\nat 1s caller-1 create E2\n";
    let (code, output) = folder.replay(stuck);
    assert_eq!(code, 12, "{output}");
    assert!(output.contains("and does not change"), "{output}");
}

#[test]
fn a_fault_that_was_never_injected_is_reported_with_its_line() {
    let folder = Folder::new("struck");
    let plan = "length 5s\nat 0s caller-1 create E1\nfault ReplyLost on 1st claim_many\n\
                # Never called.\nfault ReplyLost on 1st cancel_flow\n";
    let (code, output) = folder.replay(plan);
    assert_eq!(code, 0, "{output}");
    assert!(output.contains("fault on line 5 was never injected: fault ReplyLost"), "{output}");
    assert!(!output.contains("on line 3"), "{output}");
    // Nor is one about a key that does not exist.
    let key = "ff:exec:{fp:0}:{fp:0}:00000000-0000-4000-8000-000000000001";
    for (fault, part) in [("Eviction", "core"), ("OperatorEdit", "core"), ("WrongType", "payload")]
    {
        let plan = format!("length 5s\nfault {fault} at 1s about {key}:{part}\n");
        let (code, output) = folder.replay(&plan);
        assert_eq!(code, 0, "{output}");
        assert!(output.contains("fault on line 2 was never injected"), "{output}");
    }
}

#[test]
fn a_name_used_twice_is_reported_with_its_line() {
    let folder = Folder::new("twice");
    let again = "length 5s\nat 0s caller-1 submit F1 chain 2\nat 1s caller-1 submit F1 chain 2\n";
    let (code, output) = folder.replay(again);
    assert!(code == 0 && !output.contains("creates another"), "{output}");
    let (code, output) = folder.replay(&format!("{again}at 2s caller-1 submit F1 chain 3\n"));
    assert_eq!(code, 0, "{output}");
    assert!(
        output.contains("line 4 creates another `F1` than line 2: only one of them takes effect"),
        "{output}"
    );
}

#[test]
fn a_closed_output_ends_the_command_quietly() {
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
        let output = String::from_utf8_lossy(&ran.stderr).into_owned();
        assert_eq!((ran.status.code(), output), (Some(0), String::new()), "{arguments:?}");
    }
}

#[test]
fn the_exit_code_is_the_same_with_a_closed_output() {
    let folder = Folder::new("unread");
    let path = folder.path("a.plan");
    std::fs::write(
        &path,
        "task E1 does die die die\nlength 2s\nbound 5s\nat 1s caller-1 create E1\n",
    )
    .unwrap();
    for (arguments, code) in [
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
        assert_eq!(child.wait().unwrap().code(), Some(code), "{arguments:?}");
    }
}

#[test]
fn a_sweep_of_a_failing_plan_fails_in_the_same_way() {
    let folder = Folder::new("swept");
    let path = folder.path("a.plan");
    std::fs::write(
        &path,
        "task E1 does die die die\nlength 2s\nbound 5s\nat 1s caller-1 create E1\n",
    )
    .unwrap();
    assert_eq!(sim(&["replay", &path]).0, 12);
    let (code, output) = sim(&["sweep", &path]);
    assert_eq!(code, 12, "{output}");
    assert!(output.contains("fails without crashes"), "{output}");
}

#[test]
fn a_wrong_promotion_is_refused_before_anything_is_written() {
    let folder = Folder::new("no-story");
    for name in ["store/7", "x"] {
        std::fs::create_dir_all(folder.0.join(name)).unwrap();
        let plan = folder.0.join(name).join("shrunk.txt");
        std::fs::write(plan, "at 0s caller-1 create E1\n").unwrap();
    }
    let (store, stories) = (folder.path("store"), folder.path(""));
    for (seed, about, says) in [
        ("7", "one line\nlength 1s", "must be one line"),
        ("7", " ", "must be one line"),
        ("../x", "a story", "is not a seed"),
    ] {
        let promote = ["promote", seed, "a-story", "--about", about];
        let places = ["--stories", &stories, "--failures", &store];
        let (code, output) = sim(&[&promote[..], &places].concat());
        assert_eq!(code, 2, "{output}");
        assert!(output.contains(says) && !folder.0.join("a-story.plan").exists(), "{output}");
    }
}

#[test]
fn events_are_selected_and_shown_by_the_names_of_the_plan() {
    let folder = Folder::new("named");
    let (plan, page) = (folder.path("a.plan"), folder.path("a.html"));
    std::fs::write(&plan, "length 5s\nat 0s caller-1 submit order : check, ship <- check\n")
        .unwrap();
    let (code, output) = sim(&["show", &plan, "--only", "order.ship", "--page", &page]);
    assert_eq!(code, 0, "{output}");
    assert!(std::fs::read_to_string(&page).unwrap().contains("order.ship={fp:"));
    let (code, output) = sim(&["show", &plan, "--only", "order.ship"]);
    assert_eq!(code, 0, "{output}");
    assert!(output.contains("end_and_claim order.ship={fp:"), "{output}");
    assert!(!output.contains("starts the handler of order.check"), "{output}");
}

#[test]
fn replay_writes_a_page_too() {
    let folder = Folder::new("replay-page");
    let path = folder.path("a.html");
    let (code, output) = sim(&["replay", "lease-lost", "--page", &path]);
    assert_eq!(code, 0, "{output}");
    assert!(std::fs::read_to_string(&path).unwrap().contains("worker-1"));
}

#[test]
fn a_truncated_page_says_so() {
    let folder = Folder::new("cut");
    let (path, plan) = (folder.path("a.html"), folder.path("a.plan"));
    std::fs::write(&plan, "workers 3\nat 1s caller-1 submit F1 chunk 5 fan_out 200\n").unwrap();
    let (code, output) = sim(&["show", &plan, "--all", "--page", &path]);
    assert_eq!(code, 0, "{output}");
    assert!(output.contains("5000 events to") && output.contains("truncated"), "{output}");
    assert!(std::fs::read_to_string(&path).unwrap().contains("truncated"));
}

#[test]
fn a_write_error_is_reported_with_its_path() {
    let path = "/nonexistent/x.html";
    let (code, output) = sim(&["show", "lease-lost", "--page", path]);
    assert_eq!(code, 1, "{output}");
    assert!(output.contains(&format!("{path}: ")), "{output}");
    let folder = Folder::new("promote");
    std::fs::create_dir_all(folder.0.join("7")).unwrap();
    std::fs::write(folder.0.join("7/shrunk.txt"), "at 0s caller-1 create E1\n").unwrap();
    let failures = folder.path("");
    let promote = ["promote", "7", "a-story", "--about", "x", "--stories", "/nonexistent/stories"];
    let (code, output) = sim(&[&promote[..], &["--failures", &failures]].concat());
    assert_eq!(code, 1, "{output}");
    assert!(output.contains("/nonexistent/stories/a-story.plan: "), "{output}");
}

#[test]
fn a_hint_is_printed_when_no_event_matches() {
    for options in
        [&["--break", "999999"][..], &["--only", "nosuch"], &["--from", "12", "--until", "10"]]
    {
        for command in ["show", "replay"] {
            let (code, output) = sim(&[&[command, "lease-lost"], options].concat());
            assert_eq!(code, 0, "{output}");
            assert!(output.contains("no event matches"), "{command} {options:?}: {output}");
        }
    }
    let (_, output) = sim(&["show", "lease-lost", "--break", "40"]);
    assert!(!output.contains("no event matches"), "{output}");
}
