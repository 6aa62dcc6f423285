//! Every weak spot of the original is handled where `weak-spots/*.txt` says, and every code in the
//! name of a case or of an engine test is listed there.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use selvedge_tests::spec::suite::Suite;

#[test]
fn every_weak_spot_is_handled_where_the_list_says() {
    let (cases, tests) = (codes_of_cases(), words_of_engine_tests());
    let is_tested = |code: &str| tests.contains(&code.to_lowercase());
    let mut complaints = Vec::new();
    for (code, (place, text)) in all() {
        let is_sound = match place.as_str() {
            "case" | "function" => cases.contains(&code),
            "engine" if code.contains('-') => text.split_whitespace().all(is_tested),
            "engine" => is_tested(&code),
            "core" => root().join(&text).is_file(),
            "shell" | "design" | "pinned" | "callers" => text.contains(' '),
            _ => false,
        };
        if !is_sound {
            complaints.push(format!("{code}: {place} {text}"));
        }
    }
    assert!(complaints.is_empty(), "not handled there:\n{}", complaints.join("\n"));
}

#[test]
fn every_code_in_a_name_is_listed() {
    let listed: BTreeSet<String> = all().into_keys().collect();
    let engine = words_of_engine_tests().into_iter().filter(|word| is_code(word));
    let named = codes_of_cases().into_iter().chain(engine.map(|word| word.to_uppercase()));
    let unknown: Vec<String> = named.filter(|code| !listed.contains(code)).collect();
    assert!(unknown.is_empty(), "not listed: {unknown:?}");
}

fn all() -> BTreeMap<String, (String, String)> {
    let mut all = list("engine.txt");
    all.extend(list("functions.txt"));
    all
}

/// Code, where it is handled, and the rest of the line.
fn list(name: &str) -> BTreeMap<String, (String, String)> {
    let path = root().join("tests/weak-spots").join(name);
    let text = fs::read_to_string(path).expect("the list is there");
    let mut listed = BTreeMap::new();
    for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let mut words = line.split_whitespace();
        let mut next = || words.next().unwrap_or_default().to_owned();
        let (code, place) = (next(), next());
        let rest = words.collect::<Vec<_>>().join(" ");
        let known = listed.insert(code.clone(), (place, rest));
        assert!(known.is_none(), "{code} is listed twice");
    }
    listed
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

/// The words in the names of the engine's tests: `e2_h2_siblings_…` is named after E2 and H2.
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

/// A letter and a number.
fn is_code(word: &str) -> bool {
    let number = word.strip_prefix(|letter: char| letter.is_ascii_lowercase());
    number.is_some_and(|number| number.parse::<u8>().is_ok())
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).with_file_name("")
}
