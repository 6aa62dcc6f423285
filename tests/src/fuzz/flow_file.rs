//! Flow files: any text is a valid flow, or refused with a reason.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use selvedge::client::{Flow, OnSatisfied, Task};
use selvedge::flow_file::{Format, parse};
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
    if let Some((told, meant)) = told.as_ref().and_then(|told| Some((told, plain_flow(told)?))) {
        // Written anew, because a member that stands there twice is a doubt.
        match parse(&told.to_string(), Format::Json) {
            Ok(read) => assert_eq!(format!("{read:?}"), format!("{meant:?}"), "of {told}"),
            Err(error) => panic!("{told} is refused: {error}"),
        }
    }
    match parse(text, format) {
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
        _ => return None,
    };
    file.is_object().then_some(file)
}

/// Whether a task says all that it says by names: a list stands for nothing but several of a kind.
fn has_names(task: &Value) -> bool {
    let no_list = |part: &Value| !part.is_array();
    let names = |list: &Vec<Value>| list.iter().all(Value::is_string);
    task.is_object() && no_list(&task["retries"]) && task["after"].as_array().is_none_or(names)
}

/// The flow that a file tells beyond doubt: tasks with names of their own that wait for some before
/// them, each said in the plainest way, and nothing more.
fn plain_flow(file: &Value) -> Option<Flow> {
    let tasks = file["tasks"].as_array().filter(|tasks| !tasks.is_empty())?;
    let mut before = Vec::new();
    let flow = has_only(file, &["kind", "tasks"]).then(|| word(&file["kind"]))??;
    tasks.iter().try_fold(Flow::new(flow), |flow, entry| {
        let known = ["name", "kind", "payload", "priority", "retries", "after"];
        let name = has_only(entry, &known).then(|| word(&entry["name"]))??;
        let mut task = Task::new(name, word(&entry["kind"])?);
        if let Some(payload) = entry.get("payload") {
            task = task.payload(payload.as_str()?);
        }
        if let Some(priority) = entry.get("priority") {
            task = task.priority(small(priority)?);
        }
        if let Some(retries) = entry.get("retries") {
            let most = has_only(retries, &["max"]).then(|| small(&retries["max"]))??;
            task = task.retries(most, Duration::ZERO);
        }
        if let Some(after) = entry.get("after") {
            task = join(task, after, &before)?;
        }
        (!before.contains(&name)).then(|| before.push(name))?;
        Some(flow.task(task))
    })
}

/// Lets a task wait for some of those before it.
fn join(task: Task, after: &Value, before: &[&str]) -> Option<Task> {
    let rest = match after.get("rest").map(Value::as_str) {
        None | Some(Some("cancel")) => OnSatisfied::CancelRemaining,
        Some(Some("let_run")) => OnSatisfied::LetRun,
        Some(_) => return None,
    };
    if after.is_array() {
        Some(task.after(names(after, before)?))
    } else if has_only(after, &["any", "rest"]) {
        let of = names(&after["any"], before).filter(|of| !of.is_empty())?;
        Some(task.after_any(of, rest))
    } else if has_only(after, &["quorum", "of", "rest"]) {
        let of = names(&after["of"], before)?;
        let enough = small(&after["quorum"]).filter(|enough| *enough > 0)?;
        (usize::try_from(enough).ok()? <= of.len()).then(|| task.after_quorum(enough, of, rest))
    } else {
        None
    }
}

/// Names of tasks before this one, none of them twice.
fn names<'a>(list: &'a Value, before: &[&str]) -> Option<Vec<&'a str>> {
    let names: Vec<&str> = list.as_array()?.iter().map(Value::as_str).collect::<Option<_>>()?;
    let unique: BTreeSet<&str> = names.iter().copied().collect();
    (unique.len() == names.len() && names.iter().all(|name| before.contains(name))).then_some(names)
}

fn has_only(part: &Value, names: &[&str]) -> bool {
    part.as_object().is_some_and(|part| part.keys().all(|name| names.contains(&name.as_str())))
}

/// Letters and digits, not too many of them.
fn word(part: &Value) -> Option<&str> {
    part.as_str().filter(|text| {
        (1..=256).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_alphanumeric())
    })
}

/// A number that is no limit to anything.
fn small(part: &Value) -> Option<u32> {
    part.as_u64().filter(|number| *number < 1_000).and_then(|number| u32::try_from(number).ok())
}
