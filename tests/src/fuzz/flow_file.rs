//! Any text for a flow's file: a flow that makes sense, or the reason why not.

use std::path::Path;

use selvedge::flow_file::{Format, read};
use serde_json::Value;

/// Reads a text as a flow, in the format that it looks like.
///
/// # Panics
/// When a flow is let through that makes no sense, or that the text does not tell.
pub fn run(data: &[u8]) {
    let Ok(text) = str::from_utf8(data) else { return };
    let format = Format::of(Path::new("flow"), text);
    match read(text, format) {
        Ok(flow) => {
            if let Some(told) = told(text, format) {
                assert!(told.iter().all(is_plain), "a task in a form of its own");
                let told = told.iter().map(|task| task["name"].as_str().unwrap_or_default());
                assert!(told.eq(flow.names()), "other tasks than the file tells");
            }
            assert!(flow.check().is_ok(), "read, and yet refused");
            let mut names: Vec<&str> = flow.names().collect();
            let count = names.len();
            names.sort_unstable();
            names.dedup();
            assert_eq!(names.len(), count, "two tasks of one name");
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

/// The tasks that a file tells of, as a reader of any such file finds them.
fn told(text: &str, format: Format) -> Option<Vec<Value>> {
    let mut file: Value = match format {
        Format::Toml => toml::from_str(text).ok()?,
        Format::Json => serde_json::from_str(text).ok()?,
    };
    if let Value::Array(tasks) = file["tasks"].take() { Some(tasks) } else { None }
}

/// Whether a task says all that it says by names: a list stands for nothing but several of a kind.
fn is_plain(task: &Value) -> bool {
    let no_list = |part: &Value| !part.is_array();
    let names = |list: &Vec<Value>| list.iter().all(Value::is_string);
    task.is_object() && no_list(&task["retries"]) && task["after"].as_array().is_none_or(names)
}
