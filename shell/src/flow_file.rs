//! Flow files: parses a [`Flow`] from TOML or JSON, as `selvedge flow submit` does.
//!
//! ```
//! use selvedge::flow_file::{Format, parse};
//!
//! let flow = parse(
//!     r#"
//!     kind = "report"
//!
//!     [[tasks]]
//!     name = "fetch"
//!     kind = "http.get"
//!     payload = "https://example.org"
//!     retries = { max = 3, pause = "2s" }
//!
//!     [[tasks]]
//!     name = "render"
//!     kind = "pdf"
//!     after = ["fetch"]
//!     attempt_timeout = "1m"
//!     "#,
//!     Format::Toml,
//! )?;
//! assert_eq!(flow.names().collect::<Vec<_>>(), ["fetch", "render"]);
//! # Ok::<(), selvedge::flow_file::InvalidFlowFile>(())
//! ```
//!
//! A task names its upstreams in `after`: a list waits for all of them, `{ any = [...] }` for one,
//! `{ quorum = 2, of = [...] }` for that many. Once such a join is satisfied, `rest = "cancel"`
//! (the default) cancels the remaining upstreams, and `rest = "let_run"` lets them run.

#![doc = "\n# Fields\n\n```text\n"]
#![doc = include_str!("flow_file/reference.txt")]
#![doc = "\n```"]

mod payload;
mod schema;

use std::path::Path;

use selvedge_core::strict_json::Object;
use thiserror::Error;

use crate::client::{Flow, InvalidFlow};
use schema::FlowFile;

/// Every field of a flow file, as text for people.
pub const REFERENCE: &str = include_str!("flow_file/reference.txt");

/// Largest flow file, in bytes.
pub const FILE_BYTES_MAX: usize = 64 * 1024 * 1024;

/// The format of a flow file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Format {
    /// TOML.
    Toml,
    /// JSON.
    Json,
}

impl Format {
    /// The format of a file: by its extension, else by its first character.
    #[must_use]
    pub fn of(path: &Path, text: &str) -> Self {
        let extension = path.extension().and_then(|extension| extension.to_str());
        match extension {
            Some(extension) if extension.eq_ignore_ascii_case("json") => Self::Json,
            Some(extension) if extension.eq_ignore_ascii_case("toml") => Self::Toml,
            _ if without_byte_order_mark(text).trim_start().starts_with('{') => Self::Json,
            _ => Self::Toml,
        }
    }
}

/// Why a flow file cannot be parsed.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum InvalidFlowFile {
    /// The file is too large.
    #[error("the file has {0} bytes; the limit is {FILE_BYTES_MAX}")]
    TooLarge(usize),
    /// Invalid TOML, or unexpected fields; the message tells the position.
    #[error("{0}")]
    Toml(String),
    /// Invalid JSON, or unexpected fields; the message tells the position.
    #[error("{0}")]
    Json(String),
    /// A task has both `payload` and `payload_json`.
    #[error("task `{task}` has several payloads; give one of payload and payload_json")]
    Payloads {
        /// The task.
        task: String,
    },
    /// The flow is invalid.
    #[error("{0}")]
    Flow(#[from] InvalidFlow),
}

/// Parses a flow, and checks it as [`Flow::check`] does.
///
/// # Errors
/// The first problem found, with its position in the file where that is known.
pub fn parse(text: &str, format: Format) -> Result<Flow, InvalidFlowFile> {
    if text.len() > FILE_BYTES_MAX {
        return Err(InvalidFlowFile::TooLarge(text.len()));
    }
    // Some editors write a byte order mark, which neither format allows.
    let text = without_byte_order_mark(text);
    let Object(file): Object<FlowFile> = match format {
        Format::Toml => {
            let message = |error: toml::de::Error| error.to_string().trim_end().to_owned();
            toml::from_str(text).map_err(|error| InvalidFlowFile::Toml(message(error)))?
        }
        Format::Json => {
            serde_json::from_str(text).map_err(|error| InvalidFlowFile::Json(error.to_string()))?
        }
    };
    let flow = file.into_flow()?;
    flow.check()?;
    Ok(flow)
}

fn without_byte_order_mark(text: &str) -> &str {
    text.strip_prefix('\u{feff}').unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn toml(task: &str) -> Result<Flow, InvalidFlowFile> {
        let first = "kind = \"f\"\n[[tasks]]\nname = \"a\"\nkind = \"k\"\n";
        parse(&format!("{first}[[tasks]]\nname = \"b\"\nkind = \"k\"\n{task}"), Format::Toml)
    }

    #[test]
    fn toml_and_json_give_the_same_flow() {
        let json = r#"{"kind":"f","tasks":[
            {"name":"a","kind":"k","payload_json":{"x":1},"delay":"5s","priority":3},
            {"name":"b","kind":"k","after":{"quorum":1,"of":["a"],"rest":"let_run"}}]}"#;
        let toml = r#"
            kind = "f"
            tasks = [
              { name = "a", kind = "k", payload_json = { x = 1 }, delay = "5s", priority = 3 },
              { name = "b", kind = "k", after = { quorum = 1, of = ["a"], rest = "let_run" } },
            ]"#;
        let json = parse(json, Format::Json).unwrap();
        let toml = parse(toml, Format::Toml).unwrap();
        assert_eq!(format!("{json:?}"), format!("{toml:?}"));
    }

    #[test]
    fn the_format_follows_from_the_extension_or_the_first_character() {
        assert_eq!(Format::of(Path::new("x.JSON"), ""), Format::Json);
        assert_eq!(Format::of(Path::new("x.toml"), "{"), Format::Toml);
        assert_eq!(Format::of(Path::new("-"), "  {"), Format::Json);
        assert_eq!(Format::of(Path::new("-"), "kind = 1"), Format::Toml);
    }

    #[test]
    fn errors_name_the_problem_and_its_position() {
        for (task, says) in [
            ("after = [\"b\"]", "wait for each other"),
            ("after = [\"nobody\"]", "not a task of this flow"),
            ("after = \"a\"", "expected a list of names"),
            ("after = [[\"a\"]]", "expected a list of names"),
            ("after = [1, [\"a\"]]", "expected a list of names"),
            ("retries = [3, \"2s\"]", "expected retries as { max = N, pause"),
            ("after = { any = [\"a\"], quorum = 1 }", "expected a list of names"),
            ("delay = 5", "line 8"),
            ("delay = 5", "expected a duration with its unit, such as \"90s\""),
            ("delay = \"10s\"\ndeadline = \"5s\"", "is over before its delay"),
            ("delay = \"5\"", "invalid duration `5`"),
            ("colour = \"red\"", "unknown field `colour`"),
            ("payload = \"x\"\npayload_json = 1", "several payloads"),
            ("budgets = [\"x\"]", "x"),
            ("payload_json = 1979-05-27", "date 1979-05-27 is not JSON"),
            ("payload_json = { at = [07:32:00] }", "date 07:32:00 is not JSON"),
            ("payload_json = { x = nan }", "number NaN is not JSON"),
            ("payload_json = [-inf]", "number -inf is not JSON"),
            ("payload_json = 1e400", "overflowed"),
            ("payload_json = 1e20", "loses digits"),
            ("priority = -1", "line 8"),
        ] {
            let error = toml(task).unwrap_err().to_string();
            assert!(error.contains(says), "{task}: {error}");
        }
    }

    #[test]
    fn a_json_payload_is_kept_exactly_or_refused() {
        let json = |payload: &str| {
            let task = format!(r#"{{"name":"a","kind":"k","payload_json":{payload}}}"#);
            parse(&format!(r#"{{"kind":"f","tasks":[{task}]}}"#), Format::Json)
        };
        for kept in ["null", "18446744073709551615", "-9223372036854775808", "0.1", r#"{"a":[{}]}"#]
        {
            let flow = format!("{:?}", json(kept).unwrap());
            assert!(flow.contains(&format!("{:?}", kept.as_bytes())), "{kept}: {flow}");
        }
        for (lost, says) in [
            ("12345678901234567890123", "1.2345678901234568e22 loses digits"),
            ("1e400", "out of range"),
            (r#"{"a":1,"a":2}"#, "duplicate field `a`"),
        ] {
            let error = json(lost).unwrap_err().to_string();
            assert!(error.contains(says), "{lost}: {error}");
        }
    }

    #[test]
    fn wrong_shapes_are_refused_without_rust_type_names() {
        assert!(parse("", Format::Toml).is_err());
        assert!(parse("{", Format::Json).unwrap_err().to_string().contains("line 1"));
        for text in ["[]", "3", r#"{"kind":"f","tasks":[3]}"#, r#"{"kind":"f","tasks":[[]]}"#] {
            let error = parse(text, Format::Json).unwrap_err().to_string();
            assert!(!error.contains("struct") && error.contains("an object with"), "{error}");
        }
        let retries = toml("retries = 3").unwrap_err().to_string();
        assert!(!retries.contains("struct") && retries.contains("max = N"), "{retries}");
    }
}
