//! Bugs to be planted in the engine, in the library and in what reads foreign bytes, and who must
//! notice.
//!
//! `weak-spots/planted.txt` lists them: a bug is one edit or more, and the stories of the engine
//! that turn red with it, or the fuzz targets whose corpora do. The program `planted` puts all of them into a copy of the workspace, each
//! behind a switch, builds that once, and runs every story with its bug.
//!
//! ```text
//! bug the window never moves on
//! in core/src/engine/driver.rs
//! - self.full.then_some(place)
//! + None
//! red due::l1_fifty_lost_leases_do_not_hide_the_next
//!
//! bug a debug form shows the digest
//! in core/src/token.rs
//! - write!(f, "WaitpointToken({}:…)", self.kid())
//! + write!(f, "WaitpointToken({})", self.0)
//! red corpus::waitpoint_token
//! ```
//!
//! Lines after `-` are what stands there, lines after `+` what the bug puts in its place. In Rust
//! both are expressions, or both are statements; where that does not fit, the bug's lines say
//! `PLANTED` where they ask for the switch, and then stand there in any case. `in library` means
//! the joined text of the function library.

use std::path::Path;

use selvedge_lua::library;
use thiserror::Error;

/// One text in the place of another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edit {
    /// The file, from the root of the workspace; none for the function library.
    pub file: Option<String>,
    /// What stands there.
    pub sound: String,
    /// What the bug puts in its place.
    pub broken: String,
}

/// A bug, and the stories that must turn red.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bug {
    /// What is wrong.
    pub name: String,
    /// How to get there.
    pub edits: Vec<Edit>,
    /// Stories of the engine suite, with their modules, and fuzz targets behind [`IN_CORPUS`].
    pub reds: Vec<String>,
}

/// What stands before the name of a fuzz target whose corpus must notice.
pub const IN_CORPUS: &str = "corpus::";

/// What is wrong with the list.
#[derive(Debug, Error, PartialEq, Eq)]
#[error("planted.txt:{line}: {reason}")]
pub struct Malformed {
    /// Where.
    pub line: usize,
    /// What.
    pub reason: &'static str,
}

/// The folder of the lists.
#[must_use]
pub fn folder() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/weak-spots"))
}

/// Reads the list.
///
/// # Errors
/// The first line that says nothing.
pub fn parse(text: &str) -> Result<Vec<Bug>, Malformed> {
    let mut bugs: Vec<Bug> = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let wrong = |reason| Malformed { line: at + 1, reason };
        if line.trim().is_empty() || line.starts_with('#') {
            continue;
        }
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        if word == "bug" {
            bugs.push(Bug { name: rest.to_owned(), ..Bug::default() });
            continue;
        }
        let bug = bugs.last_mut().ok_or(wrong("a line before the first bug"))?;
        match (word, bug.edits.last_mut()) {
            ("in", _) => bug.edits.push(Edit {
                file: (rest != "library").then(|| rest.to_owned()),
                sound: String::new(),
                broken: String::new(),
            }),
            ("red", _) => bug.reds.push(rest.to_owned()),
            ("-", Some(edit)) => push_line(&mut edit.sound, rest),
            ("+", Some(edit)) => push_line(&mut edit.broken, rest),
            ("-" | "+", None) => return Err(wrong("an edit of no file")),
            _ => return Err(wrong("neither bug, in, -, + nor red")),
        }
    }
    Ok(bugs)
}

fn push_line(text: &mut String, line: &str) {
    if !text.is_empty() {
        text.push('\n');
    }
    text.push_str(line);
}

impl Edit {
    /// The text that this edit is about.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn text(&self, root: &Path) -> std::io::Result<String> {
        match &self.file {
            Some(file) => std::fs::read_to_string(root.join(file)),
            None => Ok(library::SOURCE.to_owned()),
        }
    }

    /// What stands in the place of the sound text when this is bug `number`, in Rust.
    #[must_use]
    pub fn switched(&self, number: usize) -> String {
        let switch = format!("crate::planted({number})");
        let Self { sound, broken, .. } = self;
        if broken.contains("PLANTED") {
            broken.replace("PLANTED", &switch)
        } else if sound.trim_end().ends_with(';') {
            format!("if {switch} {{ {broken} }} else {{ {sound} }}")
        } else {
            format!("(if {switch} {{ {broken} }} else {{ {sound} }})")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bug_is_its_edits_and_who_notices() {
        let bugs = parse("# why\nbug it sleeps\nin a.rs\n- x\n-   y\n+ z\nred m::t\n").unwrap();
        let edit = Edit { file: Some("a.rs".into()), sound: "x\n  y".into(), broken: "z".into() };
        let bug = Bug { name: "it sleeps".into(), edits: vec![edit], reds: vec!["m::t".into()] };
        assert_eq!(bugs, [bug]);
    }

    #[test]
    fn a_line_that_says_nothing_is_named() {
        for (text, line) in [("red t", 1), ("bug x\n- y", 2), ("bug x\nin a\nfoo", 3)] {
            assert_eq!(parse(text).unwrap_err().line, line, "{text}");
        }
    }

    #[test]
    fn expressions_statements_and_free_forms_are_switched() {
        let edit = |sound: &str, broken: &str| {
            Edit { file: None, sound: sound.into(), broken: broken.into() }.switched(3)
        };
        assert_eq!(edit("a", "b"), "(if crate::planted(3) { b } else { a })");
        assert_eq!(edit("a;", "b;"), "if crate::planted(3) { b; } else { a; }");
        assert_eq!(edit("x => a,", "_ if PLANTED => b,"), "_ if crate::planted(3) => b,");
    }
}
