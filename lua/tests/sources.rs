//! Reads the Lua sources as text: what neither a compiler nor a call can check.

use std::fs;
use std::path::{Path, PathBuf};

#[test]
fn a_shared_file_is_named_after_the_table_that_it_extends() {
    let mut complaints = Vec::new();
    for (path, text) in lua_files("lib") {
        let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        for (index, line) in text.lines().enumerate() {
            let Some(table) = extended_table(line) else { continue };
            let topic = stem.strip_prefix(table);
            if topic.is_none_or(|topic| !topic.is_empty() && !topic.starts_with('_')) {
                complaints.push(format!("{}:{}: extends `{table}`", path.display(), index + 1));
            }
        }
    }
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}

#[test]
fn the_prelude_declares_exactly_the_tables_that_are_extended() {
    let prelude = fs::read_to_string(root().join("lib/prelude.lua")).unwrap();
    let mut declared: Vec<&str> = prelude
        .lines()
        .filter_map(|line| line.strip_prefix("local ")?.split_once(" = {}"))
        .map(|(name, _)| name.trim_end())
        .collect();
    declared.sort_unstable();
    let files = lua_files("lib");
    let mut extended: Vec<&str> =
        files.iter().flat_map(|(_, text)| text.lines().filter_map(extended_table)).collect();
    extended.sort_unstable();
    extended.dedup();
    assert_eq!(declared, extended);
}

#[test]
fn no_line_below_a_write_marker_refuses_or_checks() {
    let (mut complaints, mut markers) = (Vec::new(), 0);
    for (path, text) in lua_files("lib").into_iter().chain(lua_files("fn")) {
        let lines: Vec<&str> = text.lines().collect();
        for (at, line) in lines.iter().enumerate() {
            let Some(comment) = line.trim_start().strip_prefix("-- write") else { continue };
            if !comment.is_empty() && !comment.starts_with(';') {
                continue;
            }
            if comment != "; nothing below can fail" {
                complaints.push(format!("{}:{}: another marker", path.display(), at + 1));
            }
            markers += 1;
            let indent = line.len() - line.trim_start().len();
            let below = lines.iter().enumerate().skip(at + 1);
            let block = below.take_while(|(_, line)| is_within(line, indent));
            for (index, line) in block.filter(|(_, line)| refuses_or_checks(line)) {
                complaints.push(format!("{}:{}: {}", path.display(), index + 1, line.trim()));
            }
        }
    }
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
    assert!(markers > 60, "only {markers} markers are left");
}

/// Whether a line belongs to the block that is indented so far.
fn is_within(line: &str, indent: usize) -> bool {
    line.is_empty() || line.len() - line.trim_start().len() >= indent
}

fn refuses_or_checks(line: &str) -> bool {
    let words = ["err(", "error(", "number.require", "number.optional", "number.clock", "refused"];
    // The contract ties the writes at the reclaim cap to this refusal.
    words.iter().any(|word| line.contains(word)) && !line.contains("max_retries_exhausted")
}

/// The table that a line at the left margin adds a function or a value to.
fn extended_table(line: &str) -> Option<&str> {
    let (left, _) = match line.strip_prefix("function ") {
        Some(declared) => declared.split_once('(')?,
        None => line.split_once(" = ")?,
    };
    let (table, _) = left.split_once('.')?;
    // A file's own tables are local, and their names in capitals.
    table.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_').then_some(table)
}

/// The Lua files below a folder with their text, in order.
fn lua_files(folder: &str) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    let mut folders = vec![root().join(folder)];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("the folder is in the clone") {
            let path = entry.expect("the folder can be listed").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "lua") {
                let text = fs::read_to_string(&path).expect("the file is text");
                found.push((path, text));
            }
        }
    }
    found.sort();
    assert!(!found.is_empty(), "no Lua files in {folder}");
    found
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}
