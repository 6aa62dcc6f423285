//! Any text for a flow's file: a flow that makes sense, or the reason why not.

use std::collections::BTreeSet;
use std::path::Path;

use selvedge::flow_file::{Format, read};
use serde_json::Value;

/// Reads a text as a flow, in the format that it looks like.
///
/// # Panics
/// When a flow is let through that makes no sense, or that the text does not tell, or when a plain
/// one is refused.
pub fn run(data: &[u8]) {
    let Ok(text) = str::from_utf8(data) else { return };
    let format = Format::of(Path::new("flow"), text);
    let told = told(text, format);
    if let Some(told) = told.as_ref().filter(|told| is_plain(told)) {
        // Written anew, because a member that stands there twice is a doubt.
        let read = read(&told.to_string(), Format::Json);
        assert!(read.is_ok(), "{told} is refused: {read:?}");
    }
    match read(text, format) {
        Ok(flow) => {
            if let Some(Value::Array(told)) = told.map(|mut file| file["tasks"].take()) {
                assert!(told.iter().all(has_names), "a task in a form of its own");
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

/// What a file tells, as a reader of any such file finds it.
fn told(text: &str, format: Format) -> Option<Value> {
    let file: Value = match format {
        Format::Toml => toml::from_str(text).ok()?,
        Format::Json => serde_json::from_str(text).ok()?,
    };
    file.is_object().then_some(file)
}

/// Whether a task says all that it says by names: a list stands for nothing but several of a kind.
fn has_names(task: &Value) -> bool {
    let no_list = |part: &Value| !part.is_array();
    let names = |list: &Vec<Value>| list.iter().all(Value::is_string);
    task.is_object() && no_list(&task["retries"]) && task["after"].as_array().is_none_or(names)
}

/// Whether a file tells a flow beyond doubt: tasks with names of their own that wait for all of
/// some before them, and nothing more.
fn is_plain(file: &Value) -> bool {
    let Some(tasks) = file["tasks"].as_array().filter(|tasks| !tasks.is_empty()) else {
        return false;
    };
    let mut before = BTreeSet::new();
    has_only(file, &["kind", "tasks"])
        && is_word(&file["kind"])
        && tasks.iter().all(|task| {
            let mut awaited = BTreeSet::new();
            let waits = task.get("after").is_none_or(|after| {
                after.as_array().is_some_and(|names| {
                    let known =
                        |name: &Value| name.as_str().is_some_and(|name| before.contains(name));
                    names.iter().all(|name| known(name) && awaited.insert(name.as_str()))
                })
            });
            waits
                && has_only(task, &["name", "kind", "payload", "after"])
                && is_word(&task["kind"])
                && task.get("payload").is_none_or(Value::is_string)
                && is_word(&task["name"])
                && task["name"].as_str().is_some_and(|name| before.insert(name))
        })
}

fn has_only(part: &Value, names: &[&str]) -> bool {
    part.as_object().is_some_and(|part| part.keys().all(|name| names.contains(&name.as_str())))
}

/// Letters and digits, not too many of them.
fn is_word(part: &Value) -> bool {
    part.as_str().is_some_and(|text| {
        (1..=256).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_alphanumeric())
    })
}
