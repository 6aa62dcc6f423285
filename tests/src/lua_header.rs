//! [`Header`]: the comment that opens every Lua function file.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// What a function file says about itself.
///
/// A purpose of one or more lines, then labelled lines such as `-- Errors: a, b`, each of which
/// may go on below.
#[derive(Debug)]
pub struct Header {
    /// The file.
    pub path: PathBuf,
    /// The function that it defines.
    pub function: Option<String>,
    /// What it is for.
    pub purpose: String,
    sections: BTreeMap<String, String>,
}

impl Header {
    /// Reads the headers of all function files below a `lua/` folder.
    pub fn read_all(lua: &Path) -> io::Result<Vec<Self>> {
        let mut headers = Vec::new();
        for domain in sorted(&lua.join("fn"))? {
            for path in sorted(&domain)? {
                headers.push(Self::parse(&path, &fs::read_to_string(&path)?));
            }
        }
        Ok(headers)
    }

    /// Reads the header of one file's text.
    #[must_use]
    pub fn parse(path: &Path, text: &str) -> Self {
        let mut header = Self {
            path: path.to_owned(),
            function: defined_function(text),
            purpose: String::new(),
            sections: BTreeMap::new(),
        };
        let mut label: Option<String> = None;
        for line in text.lines().map_while(|line| line.strip_prefix("--")).map(str::trim) {
            let (new_label, content) = labelled(line).map_or((None, line), |(l, c)| (Some(l), c));
            label = new_label.map(str::to_owned).or(label);
            let section = match &label {
                None => &mut header.purpose,
                Some(label) => header.sections.entry(label.clone()).or_default(),
            };
            section.push(' ');
            section.push_str(content);
        }
        header
    }

    /// What stands behind a label.
    #[must_use]
    pub fn section(&self, label: &str) -> Option<&str> {
        self.sections.get(label).map(|text| text.trim())
    }

    /// The words that a label lists: the first of each part between commas, and none for `none`.
    pub fn words(&self, label: &str) -> impl Iterator<Item = &str> {
        self.section(label)
            .unwrap_or_default()
            .split(',')
            .filter_map(|part| part.split_whitespace().next())
            .filter(|word| *word != "none")
    }
}

fn labelled(line: &str) -> Option<(&str, &str)> {
    let (label, content) = line.split_once(':')?;
    LABELS.contains(&label).then_some((label, content.trim()))
}

fn defined_function(text: &str) -> Option<String> {
    let (_, after) = text.split_once("\ndefine(\"")?;
    after.split_once('"').map(|(name, _)| name.to_owned())
}

fn sorted(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut paths: Vec<_> =
        fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<io::Result<_>>()?;
    paths.sort();
    Ok(paths)
}

/// The labels of a header, in their order; `Keeps` only where a function keeps an oracle.
pub const LABELS: [&str; 6] = ["Keys", "Arguments", "Replies", "Errors", "Bound", "Keeps"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_read_with_its_continued_lines() {
        let text = "-- Ends it: for good.\n-- Really.\n-- Replies: OK, DUPLICATE (again)\n\
                    -- Errors: not_found,\n--   too_late\n-- Bound: 5\ndefine(\"ff_x\",\n";
        let header = Header::parse(Path::new("x.lua"), text);
        assert_eq!(header.function.as_deref(), Some("ff_x"));
        assert_eq!(header.purpose.trim(), "Ends it: for good. Really.");
        assert_eq!(header.words("Replies").collect::<Vec<_>>(), ["OK", "DUPLICATE"]);
        assert_eq!(header.words("Errors").collect::<Vec<_>>(), ["not_found", "too_late"]);
        assert_eq!(header.section("Bound"), Some("5"));
        assert_eq!(header.section("Keys"), None);
    }
}
