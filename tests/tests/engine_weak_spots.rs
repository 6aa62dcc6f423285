//! Every weak spot of the original's engine has its place: a story that has been seen to fail, a
//! case of the spec, or a line that says why there is nothing to test here.

#![expect(clippy::unwrap_used, reason = "a list or a folder that cannot be read is a failure")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use selvedge_tests::fuzz::TARGETS;
use selvedge_tests::planted::{Bug, IN_CORPUS, folder, parse};

/// How many weak spots each letter has.
const CODES: [(char, usize); 21] = [
    ('R', 10),
    ('F', 6),
    ('T', 3),
    ('D', 13),
    ('L', 3),
    ('P', 3),
    ('A', 4),
    ('S', 3),
    ('W', 3),
    ('K', 7),
    ('B', 5),
    ('G', 4),
    ('Q', 5),
    ('U', 7),
    ('N', 7),
    ('J', 7),
    ('I', 3),
    ('C', 6),
    ('E', 6),
    ('H', 3),
    ('V', 2),
];

fn root() -> &'static Path {
    folder().parent().and_then(Path::parent).unwrap()
}

fn bugs() -> Vec<Bug> {
    let text = fs::read_to_string(folder().join("planted.txt")).unwrap();
    parse(&text).unwrap_or_else(|error| panic!("{error}"))
}

/// The tests of the engine suite, with their modules, and those that replay corpora.
fn stories() -> BTreeSet<String> {
    let mut found: BTreeSet<String> =
        TARGETS.iter().map(|(target, _)| format!("{IN_CORPUS}{target}")).collect();
    let engine = fs::read_dir(root().join("tests/tests/engine")).unwrap();
    let files = engine.map(|entry| entry.unwrap().path());
    for path in files.chain([root().join("tests/tests/corpus.rs")]) {
        if path.extension().is_none_or(|extension| extension != "rs") {
            continue;
        }
        let module = path.file_stem().unwrap().to_string_lossy().into_owned();
        let text = fs::read_to_string(&path).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        for pair in lines.windows(2).filter(|pair| pair[0] == "#[test]") {
            let name = pair[1].trim_start_matches("fn ").split('(').next().unwrap();
            found.insert(format!("{module}::{name}"));
        }
    }
    assert!(found.len() > 100, "the stories are somewhere else");
    found
}

/// The codes that a story's name carries, in upper case.
fn codes_of(story: &str) -> impl Iterator<Item = String> {
    let words = story.split("::").last().unwrap().split('_');
    words.map(str::to_uppercase).filter(|word| is_code(word))
}

fn is_code(word: &str) -> bool {
    let (letter, number) = word.split_at(1.min(word.len()));
    let number: usize = number.parse().unwrap_or(0);
    CODES.iter().any(|(known, count)| letter == known.to_string() && (1..=*count).contains(&number))
}

/// Codes that a case of the spec is named after.
fn cases() -> BTreeSet<String> {
    fn collect(folder: &Path, found: &mut BTreeSet<String>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                collect(&path, found);
            } else if let Ok(text) = fs::read_to_string(&path) {
                let cases = text.lines().filter_map(|line| line.strip_prefix("case "));
                let heads = cases.filter_map(|case| case.split_once(':').map(|(head, _)| head));
                found.extend(heads.flat_map(str::split_whitespace).map(str::to_owned));
            }
        }
    }
    let mut found = BTreeSet::new();
    collect(&root().join("tests/spec"), &mut found);
    found
}

/// Where each code is decided, and the words about it.
fn listed() -> BTreeMap<String, (String, String)> {
    let text = fs::read_to_string(folder().join("codes.txt")).unwrap();
    let mut found = BTreeMap::new();
    for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let mut words = line.split_whitespace();
        let (code, place) = (words.next().unwrap(), words.next().unwrap_or_default());
        let about = words.collect::<Vec<_>>().join(" ");
        let known = found.insert(code.to_owned(), (place.to_owned(), about));
        assert!(known.is_none(), "{code} stands there twice");
    }
    found
}

#[test]
fn every_weak_spot_has_its_place() {
    let listed = listed();
    let all: BTreeSet<String> = CODES
        .iter()
        .flat_map(|(letter, count)| (1..=*count).map(move |number| format!("{letter}{number}")))
        .collect();
    assert_eq!(listed.keys().cloned().collect::<BTreeSet<_>>(), all);
    let seen_red: BTreeSet<String> =
        bugs().iter().flat_map(|bug| &bug.reds).flat_map(|story| codes_of(story)).collect();
    let cases = cases();
    let mut complaints = Vec::new();
    for (code, (place, about)) in &listed {
        let at_home = match place.as_str() {
            "engine" => seen_red.contains(code),
            "function" => cases.contains(code),
            "shell" | "design" => about.split(' ').count() >= 5,
            _ => false,
        };
        if !at_home {
            complaints.push(format!("{code}: {place}"));
        }
    }
    assert!(complaints.is_empty(), "without a place: {complaints:#?}");
}

#[test]
fn every_story_named_after_a_weak_spot_is_on_the_list_of_planted_bugs() {
    let (stories, bugs) = (stories(), bugs());
    let red: BTreeSet<&String> = bugs.iter().flat_map(|bug| &bug.reds).collect();
    let strangers: Vec<_> = red.iter().filter(|story| !stories.contains(**story)).collect();
    assert!(strangers.is_empty(), "no such stories: {strangers:#?}");
    let unseen: Vec<_> = stories
        .iter()
        .filter(|story| codes_of(story).next().is_some() && !red.contains(story))
        .collect();
    assert!(unseen.is_empty(), "never seen to fail: {unseen:#?}");
}

/// One bug lets a parser say what is not so, another lets it refuse what is plain.
#[test]
fn every_fuzz_target_has_noticed_two_bugs() {
    let bugs = bugs();
    for (target, _) in TARGETS {
        let name = format!("{IN_CORPUS}{target}");
        let noticed = bugs.iter().filter(|bug| bug.reds.contains(&name)).count();
        assert!(noticed >= 2, "{target} has noticed {noticed} bugs");
    }
}

#[test]
fn every_planted_bug_finds_its_place() {
    let bugs = bugs();
    let names: BTreeSet<&str> = bugs.iter().map(|bug| bug.name.as_str()).collect();
    assert_eq!(names.len(), bugs.len(), "two bugs of one name");
    for bug in &bugs {
        assert!(!bug.edits.is_empty() && !bug.reds.is_empty(), "{} does nothing", bug.name);
        for edit in &bug.edits {
            let text = edit.text(root()).unwrap_or_else(|error| panic!("{}: {error}", bug.name));
            assert_eq!(
                text.matches(&edit.sound).count(),
                1,
                "{}: {} has other words for\n{}",
                bug.name,
                edit.file.as_deref().unwrap_or("the library"),
                edit.sound
            );
        }
    }
}
