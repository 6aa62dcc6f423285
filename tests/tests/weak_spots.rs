//! Every weak spot of the original's functions is decided somewhere, and the list says where.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use selvedge_tests::spec::suite::Suite;

/// The parts of the list, and how many entries each has.
const PARTS: [(&str, usize); 5] =
    [("flow", 39), ("execution", 50), ("scheduling", 49), ("suspension", 45), ("keys", 50)];

#[test]
fn every_weak_spot_is_decided_where_the_list_says() {
    let (cases, engine) = (codes_of_cases(), words_of_engine_tests());
    let complaints: Vec<String> = list()
        .into_iter()
        .filter_map(|(code, (how, rest))| {
            let why = match how.as_str() {
                "case" if !cases.contains(&code) => "no case is named after it".to_owned(),
                "case" => return None,
                _ if cases.contains(&code) => "a case is named after it, so say `case`".to_owned(),
                "engine" => {
                    let missing = rest.split_whitespace().find(|word| !engine.contains(*word));
                    format!("no test of the engine is named after {}", missing?)
                }
                "core" if root().join(&rest).is_file() => return None,
                "pinned" | "callers" if rest.contains(' ') => return None,
                _ => format!("`{how} {rest}` says nothing"),
            };
            Some(format!("{code}: {why}"))
        })
        .collect();
    assert!(complaints.is_empty(), "\n{}", complaints.join("\n"));
}

#[test]
fn the_list_is_whole_and_no_case_is_named_after_nothing() {
    let listed: BTreeSet<String> = list().into_keys().collect();
    let expected: BTreeSet<String> = PARTS
        .into_iter()
        .flat_map(|(part, count)| (1..=count).map(move |number| format!("{part}-{number}")))
        .collect();
    assert_eq!(listed, expected);
    let of_parts = |code: &String| PARTS.iter().any(|(part, _)| code.starts_with(part));
    let named: Vec<String> =
        codes_of_cases().into_iter().filter(of_parts).filter(|c| !listed.contains(c)).collect();
    assert!(named.is_empty(), "cases are named after {named:?}");
}

/// Code, how it is decided, and what more the line says.
fn list() -> BTreeMap<String, (String, String)> {
    let text =
        fs::read_to_string(root().join("tests/spec/weak-spots.txt")).expect("the list is there");
    let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines
        .map(|line| {
            let mut words = line.splitn(3, ' ').map(str::to_owned);
            let mut next = || words.next().unwrap_or_default();
            (next(), (next(), next()))
        })
        .collect()
}

/// The codes in front of the names of cases: `case K5 flow-17: an execution …`.
fn codes_of_cases() -> BTreeSet<String> {
    let suite = Suite::read(&root().join("tests/spec")).expect("the suite can be read");
    let cases = suite.functions.iter().flat_map(|file| &file.cases);
    cases
        .filter_map(|case| case.name.split_once(':'))
        .flat_map(|(codes, _)| codes.split(' ').map(str::to_owned))
        .filter(|code| code.ends_with(|last: char| last.is_ascii_digit()))
        .collect()
}

/// The parts of the names of the engine's tests: `e2_h2_siblings_…` is named after E2 and H2.
fn words_of_engine_tests() -> BTreeSet<String> {
    let folder = fs::read_dir(root().join("tests/tests/engine")).expect("the stories are there");
    let sources = folder.filter_map(|entry| fs::read_to_string(entry.expect("a file").path()).ok());
    let words = |source: String| -> Vec<String> {
        let tests = source.split("#[test]\nfn ").skip(1);
        tests
            .flat_map(|test| test.split('(').next().unwrap_or_default().split('_'))
            .map(str::to_owned)
            .collect()
    };
    sources.flat_map(words).collect()
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).with_file_name("")
}
