//! Replays the corpora of all fuzz targets.

#![expect(clippy::unwrap_used, reason = "a folder that cannot be read is a failure")]

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use selvedge_core::call::signatures;
use selvedge_core::engine::ScannerName;
use selvedge_core::error::CallError;
use selvedge_tests::fuzz::{TARGETS, Target, engine_inputs, lua_call, reply_notation};
use selvedge_tests::spec::report::show_reply;

macro_rules! replayed {
    ($($target:ident)+) => {
        $( #[test] fn $target() { replay(stringify!($target)); } )+

        const REPLAYED: &[&str] = &[$( stringify!($target) ),+];
    };
}

replayed! {
    completion_payload
    engine_inputs
    flow_file
    host_vs_model
    ids_and_keys
    lua_call
    plan_file
    policy_json
    reply_parse
    resp_value
    store_url
    waitpoint_token
    worker_inputs
}

#[test]
fn targets_files_and_corpora_are_the_same_set() {
    let targets: BTreeSet<_> = TARGETS.iter().map(|(name, _)| (*name).to_owned()).collect();
    let replayed: BTreeSet<_> = REPLAYED.iter().map(|name| (*name).to_owned()).collect();
    assert_eq!(replayed, targets, "replayed here");
    assert_eq!(names(&fuzz().join("corpus")), targets, "corpora");
    assert_eq!(names(&fuzz().join("fuzz_targets")), targets, "files of fuzz targets");
    let manifest = fs::read_to_string(fuzz().join("Cargo.toml")).unwrap();
    let script = fs::read_to_string(fuzz().join("run")).unwrap();
    for target in &targets {
        // Built on nightly alone, and yet nothing that could fail to build.
        let file = fs::read_to_string(fuzz().join(format!("fuzz_targets/{target}.rs"))).unwrap();
        let body = format!("selvedge_tests::fuzz::{target}::run(data)");
        let handed_on = format!("libfuzzer_sys::fuzz_target!(|data: &[u8]| {body});");
        let words = file.split_whitespace().collect::<Vec<_>>().concat();
        assert_eq!(words, format!("#![no_main]{}", handed_on.replace(' ', "")), "{target}");
        let built = format!("name = \"{target}\"\npath = \"fuzz_targets/{target}.rs\"\n");
        assert!(manifest.contains(&built), "{target} is not built");
        assert!(script.contains(target), "fuzz/run does not know what {target} is there for");
    }
    for dictionary in names(&fuzz().join("dictionaries")) {
        assert!(targets.contains(&dictionary), "a dictionary of no target: {dictionary}");
    }
}

/// What each function's type reads of the replies that are kept under its name stands in
/// `replies.txt`: a parser that refuses what is good, or takes one field for another, shows there.
#[test]
fn each_function_reads_the_replies_that_are_kept_under_its_name() {
    let (mut told, mut complaints) = (String::new(), Vec::new());
    for signature in signatures() {
        let name = signature.name.trim_start_matches("ff_");
        let text = fs::read(fuzz().join("corpus/reply_parse").join(name)).unwrap_or_default();
        let mut understood = 0;
        for reply in reply_notation::read(&text) {
            let meaning = match (signature.read)(reply.clone()) {
                Ok(meaning) => meaning,
                Err(CallError::Refused(refusal)) => format!("refused: {refusal}"),
                Err(error) => {
                    complaints.push(format!("{name} said {}: {error}", show_reply(&reply)));
                    continue;
                }
            };
            understood += usize::from(!meaning.starts_with("refused"));
            writeln!(told, "{name}\n  {}\n  {meaning}", show_reply(&reply)).unwrap();
        }
        if understood == 0 {
            complaints.push(format!("{name} has no success"));
        }
    }
    assert!(complaints.is_empty(), "{complaints:#?}");
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/random/replies.txt");
    if std::env::var_os("SELVEDGE_UPDATE").is_some() {
        fs::write(&path, &told).unwrap();
    }
    let known = fs::read_to_string(&path).unwrap_or_default();
    let differs = known.lines().zip(told.lines()).find(|(known, told)| known != told);
    assert!(known == told, "read otherwise (SELVEDGE_UPDATE=1 writes it down): {differs:#?}");
}

/// Bytes choose functions and calls by their places, so that a new function or case makes other
/// calls of old bytes. Those under the name of a function must still call it.
#[test]
fn the_corpus_of_calls_succeeds_with_every_function() {
    let mut complaints = Vec::new();
    for signature in signatures() {
        let path = fuzz().join("corpus/lua_call").join(signature.name);
        let called = |bytes: &[u8]| lua_call::succeeds(bytes).as_deref() == Some(signature.name);
        if fs::read(&path).is_ok_and(|bytes| called(&bytes)) {
            continue;
        }
        match lua_call::example(signature.name) {
            Some(bytes) if std::env::var_os("SELVEDGE_UPDATE").is_some() => {
                fs::write(&path, bytes).unwrap();
            }
            found => complaints.push(format!("{}: {found:?} would do", signature.name)),
        }
    }
    assert!(complaints.is_empty(), "SELVEDGE_UPDATE=1 writes them anew: {complaints:#?}");
}

/// So do bytes of stories. Those under the name of a scanner must still give it that to do.
#[test]
fn the_corpus_of_stories_gives_every_scanner_work() {
    let folder = fuzz().join("corpus/engine_inputs");
    let of =
        |scanner: &ScannerName, name: &str| name.starts_with(&engine_inputs::name(*scanner, ""));
    let kept =
        names(&folder).into_iter().filter(|name| ScannerName::ALL.iter().any(|it| of(it, name)));
    let does =
        |name: &String| engine_inputs::work(&fs::read(folder.join(name)).unwrap()).contains(name);
    let (good, mut bad): (Vec<_>, Vec<_>) = kept.partition(does);
    let works = |scanner: &&ScannerName| good.iter().any(|name| of(scanner, name));
    let idle: Vec<_> = ScannerName::ALL.iter().filter(|scanner| !works(scanner)).collect();
    if (!bad.is_empty() || !idle.is_empty()) && std::env::var_os("SELVEDGE_UPDATE").is_some() {
        bad.drain(..).for_each(|name| fs::remove_file(folder.join(name)).unwrap());
        for (name, bytes) in engine_inputs::examples() {
            fs::write(folder.join(name), bytes).unwrap();
        }
    }
    let advice = "SELVEDGE_UPDATE=1 looks for others";
    assert!(bad.is_empty(), "no longer do what they are named after; {advice}: {bad:#?}");
    assert!(idle.is_empty(), "have nothing to do; {advice}: {idle:?}");
}

#[test]
fn corpora_stay_small() {
    let all = TARGETS.iter().flat_map(|(target, _)| inputs(target));
    let bytes: u64 = all.map(|path| fs::metadata(path).unwrap().len()).sum();
    assert!(bytes < CORPORA_BYTES_MAX, "{bytes} bytes of corpora");
}

fn replay(name: &str) {
    let target: Target =
        TARGETS.iter().find(|(known, _)| *known == name).map(|(_, run)| *run).expect("a target");
    let inputs = inputs(name);
    assert!(!inputs.is_empty(), "{name} has no corpus");
    for path in inputs {
        // Shown when the target panics, so that the input can be found.
        println!("{}", path.display());
        target(&fs::read(&path).unwrap());
    }
}

fn inputs(target: &str) -> Vec<PathBuf> {
    let folder = fuzz().join("corpus").join(target);
    let mut paths: Vec<_> =
        fs::read_dir(folder).into_iter().flatten().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths
}

/// The names in a folder, without extensions.
fn names(folder: &Path) -> BTreeSet<String> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.map(|path| path.file_stem().unwrap().to_string_lossy().into_owned()).collect()
}

fn fuzz() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).with_file_name("fuzz")
}

/// Enough for what a fuzzer found worth keeping; a clone should stay light.
const CORPORA_BYTES_MAX: u64 = 300 * 1024;
