//! Checks the sources as text.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use selvedge_tests::lua_header::{Header, LABELS};
use selvedge_tests::spec::suite::Suite;

#[test]
fn files_and_functions_are_short() {
    let mut complaints = Vec::new();
    for (path, text) in sources(&["rs", "lua"]) {
        let lines: Vec<_> = text.lines().collect();
        if lines.len() > FILE_LINES_MAX {
            complaints.push(format!("{}: {} lines", path.display(), lines.len()));
        }
        let is_lua = path.extension().is_some_and(|extension| extension == "lua");
        let (functions, most) = match is_lua {
            true => (lua_functions(&lines), LUA_FUNCTION_LINES_MAX),
            false => (rust_functions(&lines), FUNCTION_LINES_MAX),
        };
        for (start, length) in functions.into_iter().filter(|(_, length)| *length > most) {
            complaints.push(format!("{}:{start}: a function of {length} lines", path.display()));
        }
    }
    none(&complaints);
}

/// rustfmt breaks code at this width already, but neither comments nor what is in a macro. String
/// literals are left whole, in a table or over several lines, and so are tables in doc comments.
#[test]
fn lines_are_short() {
    let mut complaints = Vec::new();
    for (path, text) in sources(&["rs", "lua"]) {
        for (index, line) in text.lines().enumerate() {
            let width = line.chars().count();
            if width > COLUMNS_MAX && !may_be_long(line) {
                complaints.push(format!("{}:{}: {width} columns", path.display(), index + 1));
            }
        }
    }
    none(&complaints);
}

fn may_be_long(line: &str) -> bool {
    let line = line.trim_start();
    match ["//", "--"].iter().any(|mark| line.starts_with(mark)) {
        true => line.starts_with("//! |"),
        false => line.contains('"') || line.ends_with('\\'),
    }
}

#[test]
fn long_functions_and_lines_are_found() {
    let arms = |n: usize| vec!["        | Code::One"; n];
    let of = |body: Vec<&'static str>| [vec!["fn code() {"], body, vec!["}"]].concat();
    assert_eq!(counted(&of(arms(80))), 2, "a table of codes");
    assert_eq!(counted(&of([arms(10), vec!["    line();"; 70]].concat())), 82);
    assert_eq!(rust_functions(&of([arms(1), vec!["    line();"; 70]].concat())), [(1, 73)]);
    assert!(may_be_long("//! | `name` | a row of a table |") && may_be_long("    (\"text\", 1),"));
    assert!(
        !may_be_long("    /// A \"word\" in a comment.") && !may_be_long("    call(argument);")
    );
}

#[test]
fn no_text_names_a_machine_or_unfinished_work() {
    // Spelled in halves, so that this file passes its own test.
    let banned = [
        ["/wo", "rk/"],
        ["/ro", "ot/"],
        ["/ho", "me/"],
        ["/tm", "p/"],
        ["TO", "DO"],
        ["FIX", "ME"],
        ["#[ig", "nore"],
        ["un", "implemented!"],
        ["pypi.", "org"],
        ["crates.", "io/api"],
        ["index.", "crates"],
    ]
    .map(|halves| halves.concat());
    let mut complaints = Vec::new();
    for (path, text) in sources(&["rs", "lua", "spec", "md", "toml", "sh", ""]) {
        for (index, line) in text.lines().enumerate() {
            for word in banned.iter().filter(|word| line.contains(word.as_str())) {
                complaints.push(format!("{}:{}: {word}", path.display(), index + 1));
            }
        }
    }
    none(&complaints);
}

#[test]
fn every_lua_function_has_a_complete_header() {
    let mut complaints = Vec::new();
    for header in Header::read_all(&root().join("lua")).unwrap() {
        let path = header.path.display();
        if header.purpose.trim().is_empty() {
            complaints.push(format!("{path}: no purpose"));
        }
        let required = LABELS.iter().filter(|label| **label != "Keeps");
        for label in required.filter(|label| header.section(label).is_none_or(str::is_empty)) {
            complaints.push(format!("{path}: no {label}:"));
        }
        match header.path.file_stem().zip(header.function.as_deref()) {
            Some((stem, function)) if *format!("ff_{}", stem.display()) == *function => {}
            _ => complaints.push(format!("{path}: defines {:?}", header.function)),
        }
    }
    none(&complaints);
}

#[test]
fn the_state_vector_is_written_in_one_place() {
    let writes = |line: &str| {
        let word = line.trim_start();
        VECTOR.iter().any(|field| word.starts_with(&format!("\"{field}\", ")))
    };
    let writers: Vec<String> = sources(&["lua"])
        .into_iter()
        .filter(|(_, text)| text.lines().any(writes))
        .map(|(path, _)| path.file_name().unwrap_or_default().to_string_lossy().into_owned())
        .collect();
    assert_eq!(writers, ["state.lua"]);
}

/// A program that embeds the library is free to use another version of the `redis` crate.
#[test]
fn no_public_signature_names_a_type_of_the_redis_crate() {
    let shell = root().join("shell/src");
    let mut complaints = Vec::new();
    let mut users = 0;
    for (path, text) in sources(&["rs"]) {
        if !path.starts_with(&shell) {
            continue;
        }
        let mut theirs = imported_from(&text, "redis");
        users += usize::from(!theirs.is_empty());
        theirs.insert("redis".to_owned());
        for (line, item) in public_items(&text) {
            let words = item.split(|letter: char| !(letter.is_alphanumeric() || letter == '_'));
            let named: BTreeSet<_> = words.filter(|word| theirs.contains(*word)).collect();
            if !named.is_empty() {
                complaints.push(format!("{}:{line}: {named:?}", path.display()));
            }
        }
    }
    none(&complaints);
    assert!(users > 0, "no file imports the redis crate: this test is obsolete");
}

#[test]
fn every_spec_file_has_a_lua_file_of_the_same_path() {
    let spec = root().join("tests/spec");
    let mut complaints = Vec::new();
    for file in Suite::read(&spec).unwrap().functions {
        let below = file.path.strip_prefix(&spec).unwrap();
        let twin = root().join("lua/fn").join(below).with_extension("lua");
        let function = fs::read_to_string(&twin).ok();
        let function = function.and_then(|text| Header::parse(&twin, &text).function);
        if function != file.function {
            complaints.push(format!(
                "{}: {} defines {function:?}",
                below.display(),
                twin.display()
            ));
        }
    }
    none(&complaints);
}

#[test]
fn every_oracle_has_a_canary() {
    let named = |folder: &str| -> BTreeSet<String> {
        sources(&["rs"])
            .into_iter()
            .filter(|(path, _)| path.starts_with(root().join(folder)))
            .filter_map(|(_, text)| {
                let (_, rest) = text.split_once("const ORACLE: Oracle")?;
                let (_, rest) = rest.split_once("name: \"")?;
                rest.split_once('"').map(|(name, _)| name.to_owned())
            })
            .collect()
    };
    let mut oracles = named("core/src/audit");
    oracles.extend(named("sim/src/oracle"));
    assert!(!oracles.is_empty(), "no oracles found");
    let canaries: String = sources(&["rs"])
        .into_iter()
        .filter(|(path, _)| path.starts_with(root().join("sim/src/canary")))
        .map(|(_, text)| text)
        .collect();
    let mut complaints = Vec::new();
    for oracle in &oracles {
        if !canaries.contains(&format!(": \"{oracle}\",")) {
            complaints.push(format!("{oracle}: no canary"));
        }
    }
    for header in Header::read_all(&root().join("lua")).unwrap() {
        for oracle in header.words("Keeps").filter(|word| !oracles.contains(*word)) {
            complaints
                .push(format!("{}: keeps {oracle}, which is not an oracle", header.path.display()));
        }
    }
    none(&complaints);
}

#[test]
fn contributing_shows_the_real_scanner() {
    let contributing = fs::read_to_string(root().join("CONTRIBUTING.md")).unwrap();
    let shown = contributing.split("```rust,ignore\n").nth(1).and_then(|it| it.split("```").next());
    let file = root().join("core/src/engine/scanners/delayed_promoter.rs");
    let real = fs::read_to_string(file).unwrap();
    let shown = shown.expect("CONTRIBUTING.md shows a scanner");
    assert!(real.ends_with(shown), "CONTRIBUTING.md shows another delayed_promoter.rs:\n{shown}");
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).with_file_name("")
}

/// The text files of the clone with one of these extensions, as git would see them.
fn sources(extensions: &[&str]) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    collect(&root(), extensions, &mut found);
    assert!(!found.is_empty(), "no sources found");
    found
}

fn collect(folder: &Path, extensions: &[&str], found: &mut Vec<(PathBuf, String)>) {
    for entry in fs::read_dir(folder).expect("a source folder can be listed") {
        let path = entry.expect("a source folder can be listed").path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if path.is_dir() {
            if !SKIPPED.contains(&name.as_str()) {
                collect(&path, extensions, found);
            }
        } else if extensions.contains(&path.extension().unwrap_or_default().to_str().unwrap_or("?"))
            && let Ok(text) = fs::read_to_string(&path)
            && name != ".git"
        {
            found.push((path, text));
        }
    }
}

/// Start and length of each function, told by the indentation that rustfmt keeps.
fn rust_functions(lines: &[&str]) -> Vec<(usize, usize)> {
    let mut functions = Vec::new();
    for (start, line) in lines.iter().enumerate() {
        let indent = line.len() - line.trim_start().len();
        let words: Vec<_> = line.split_whitespace().take(5).collect();
        let Some(at) = words.iter().position(|word| *word == "fn") else { continue };
        let qualifiers = ["pub", "pub(crate)", "pub(super)", "const", "async"];
        let is_declared_only = line.ends_with(';');
        if is_declared_only || !words[..at].iter().all(|word| qualifiers.contains(word)) {
            continue;
        }
        let closing = format!("{}}}", " ".repeat(indent));
        if let Some(length) = lines[start..].iter().position(|line| *line == closing) {
            functions.push((start + 1, counted(&lines[start..=start + length])));
        }
    }
    functions
}

/// The lines of a function. In one that is a table of codes, most of whose lines are alternatives
/// of patterns, those do not count.
fn counted(body: &[&str]) -> usize {
    let alternatives = body.iter().filter(|line| line.trim_start().starts_with("| ")).count();
    if alternatives * 2 > body.len() { body.len() - alternatives } else { body.len() }
}

/// The names that `use` brings in from a crate, aliases instead of what they stand for.
fn imported_from(text: &str, krate: &str) -> BTreeSet<String> {
    let uses = text.split("use ").skip(1).filter_map(|rest| rest.split_once(';'));
    let theirs = uses.filter_map(|(path, _)| path.strip_prefix(krate)?.strip_prefix("::"));
    let ends = theirs.flat_map(|path| path.split(['{', '}', ',']));
    ends.filter_map(|path| path.split([':', ' ']).rfind(|word| !word.is_empty()))
        .map(str::to_owned)
        .collect()
}

/// What others see of a file: items that are `pub` up to their bodies, enums and traits with them,
/// and the heads of trait implementations. Comments are left out.
fn public_items(text: &str) -> Vec<(usize, String)> {
    let lines: Vec<&str> = text.lines().map(|line| line.split("//").next().unwrap_or("")).collect();
    let mut items = Vec::new();
    for (start, line) in lines.iter().enumerate() {
        let word = line.trim_start();
        let is_trait_impl = word.starts_with("impl") && line.contains(" for ");
        if !word.starts_with("pub ") && !is_trait_impl {
            continue;
        }
        let whole = word.starts_with("pub enum ") || word.starts_with("pub trait ");
        let closing = format!("{}}}", " ".repeat(line.len() - word.len()));
        let is_last = |line: &&str| match word {
            _ if whole => **line == closing,
            // Arguments on lines of their own end in commas.
            _ if word.contains("fn ") => line.ends_with(['{', ';']),
            _ => line.ends_with(['{', ';', ',']),
        };
        let length = lines[start..].iter().position(is_last).unwrap_or(0);
        items.push((start + 1, lines[start..=start + length].join(" ")));
    }
    items
}

/// Start and length of each Lua function that stands at the margin or is given to `define`.
fn lua_functions(lines: &[&str]) -> Vec<(usize, usize)> {
    let mut functions = Vec::new();
    for (start, line) in lines.iter().enumerate() {
        let closing = match line {
            _ if line.starts_with("function ") || line.starts_with("local function ") => "end",
            _ if line.starts_with("  function(") => "  end",
            _ => continue,
        };
        let ends = |line: &&str| line.trim_end_matches([')', ',']) == closing;
        if let Some(length) = lines[start..].iter().position(ends) {
            functions.push((start + 1, length + 1));
        }
    }
    functions
}

fn none(complaints: &[String]) {
    assert!(complaints.is_empty(), "\n{}", complaints.join("\n"));
}

/// Folders that are not ours, or not source.
const SKIPPED: [&str; 6] = ["target", ".git", ".tools", "corpus", "artifacts", "node_modules"];

const COLUMNS_MAX: usize = 100;
const FILE_LINES_MAX: usize = 400;
const FUNCTION_LINES_MAX: usize = 70;
const LUA_FUNCTION_LINES_MAX: usize = 60;

/// The fields of the state vector that no other record has.
const VECTOR: [&str; 4] =
    ["lifecycle_phase", "ownership_state", "eligibility_state", "public_state"];
