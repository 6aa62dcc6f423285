//! The order of a flow's tasks: upstream tasks first. A task that is named twice, an unknown
//! upstream and a cycle are refused.

use std::collections::BTreeMap;

use super::invalid_flow::InvalidFlow;
use super::task::Task;

/// The tasks by index, in topological order.
pub(super) fn task_order(tasks: &[Task]) -> Result<Vec<usize>, InvalidFlow> {
    let mut by_name = BTreeMap::new();
    for (at, task) in tasks.iter().enumerate() {
        if by_name.insert(task.name.as_str(), at).is_some() {
            return Err(InvalidFlow::DuplicateTask { task: task.name.clone() });
        }
    }
    let mut waits_for = vec![0_usize; tasks.len()];
    let mut feeds: Vec<Vec<usize>> = vec![Vec::new(); tasks.len()];
    for (at, task) in tasks.iter().enumerate() {
        for upstream in &task.upstreams {
            let Some(&from) = by_name.get(upstream.as_str()) else {
                let (task, upstream) = (task.name.clone(), upstream.clone());
                return Err(InvalidFlow::UnknownUpstream { task, upstream });
            };
            feeds[from].push(at);
            waits_for[at] += 1;
        }
    }
    let mut order: Vec<usize> = (0..tasks.len()).filter(|&at| waits_for[at] == 0).collect();
    let mut next = 0;
    while next < order.len() {
        for &child in &feeds[order[next]] {
            waits_for[child] -= 1;
            if waits_for[child] == 0 {
                order.push(child);
            }
        }
        next += 1;
    }
    if order.len() == tasks.len() {
        return Ok(order);
    }
    let stuck = (0..tasks.len()).filter(|&at| waits_for[at] > 0);
    Err(InvalidFlow::Cycle { tasks: stuck.map(|at| tasks[at].name.clone()).collect() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(name: &str) -> Task {
        Task::new(name, "work")
    }

    #[test]
    fn upstream_tasks_come_first() {
        let tasks = [task("c").after(["b"]), task("b").after(["a"]), task("a")];
        assert_eq!(task_order(&tasks), Ok(vec![2, 1, 0]));
    }

    #[test]
    fn a_cycle_is_named() {
        let tasks = [task("a").after(["b"]), task("b").after(["a"]), task("c")];
        let stuck = vec!["a".to_owned(), "b".to_owned()];
        assert_eq!(task_order(&tasks), Err(InvalidFlow::Cycle { tasks: stuck }));
    }
}
