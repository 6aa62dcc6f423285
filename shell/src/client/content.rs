//! The digest of what a flow consists of: two submissions under one id are the same flow if theirs
//! are equal.

use std::fmt::Write as _;

use selvedge_core::client::StartTime;
use uuid::Uuid;

use super::flow::Flow;
use super::task::Task;

/// The digest of everything but the id. The order of tasks, upstreams and tags does not count.
pub(super) fn digest(flow: &Flow) -> String {
    let mut tasks: Vec<String> = flow.tasks.iter().map(describe).collect();
    let mut tags: Vec<String> = flow.tags.iter().map(|tag| format!("{tag:?}")).collect();
    tasks.sort();
    tags.sort();
    let text = format!("{:?} {tags:?} {tasks:?}", flow.kind);
    hash(text.as_bytes()).simple().to_string()
}

fn describe(task: &Task) -> String {
    let mut upstreams: Vec<&String> = task.upstreams.iter().collect();
    upstreams.sort();
    let mut text = format!("{:?} {:?} {:?} {}", task.name, task.kind, task.lane, task.priority);
    let policy = if task.has_policy { task.policy.to_json() } else { String::new() };
    let start = match task.start {
        StartTime::AtOnce => String::new(),
        StartTime::After(delay) => format!("after {} ms", delay.as_millis()),
        StartTime::NotBefore(time) => format!("at {}", time.0),
    };
    let group = task.group.map(|group| group.words());
    let payload = hash(&task.payload);
    // Writing to a string cannot fail.
    let _ = write!(text, " {start} {:?} {policy:?} {upstreams:?} {group:?} {payload}", task.tags);
    text
}

fn hash(bytes: &[u8]) -> Uuid {
    Uuid::new_v5(&NAMESPACE, bytes)
}

/// The UUID namespace of digests: a random constant.
const NAMESPACE: Uuid = Uuid::from_u128(0x1f6e_0b7c_93d2_4a55_8c11_7d0a_42f9_be63);

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_digest_tells_content_apart_and_not_order() {
        let task = |name: &str| Task::new(name, "work");
        let flow = |tasks: Vec<Task>| digest(&Flow::new("f").tasks(tasks));
        let first = flow(vec![task("a"), task("b").after(["a"])]);
        assert_eq!(first, flow(vec![task("b").after(["a"]), task("a")]));
        for other in [
            vec![task("a"), task("b")],
            vec![task("a").payload("x"), task("b").after(["a"])],
            vec![task("a").priority(1), task("b").after(["a"])],
            vec![task("a").delay(Duration::from_secs(1)), task("b").after(["a"])],
            vec![task("a").retries(1, Duration::ZERO), task("b").after(["a"])],
            vec![task("a").tag("x.y", "z"), task("b").after(["a"])],
        ] {
            assert_ne!(first, flow(other.clone()), "{other:?}");
        }
        assert_ne!(digest(&Flow::new("f")), digest(&Flow::new("g")));
        assert_ne!(digest(&Flow::new("f")), digest(&Flow::new("f").tag("a.b", "c")));
    }
}
