//! Edge groups of thousands of members: the cost in inner commands when one is satisfied.

use std::collections::BTreeSet;

use selvedge_core::value::Value;
use selvedge_lua::host::{Host, HostConfig};
use selvedge_lua::library::SOURCE;

#[test]
fn siblings_with_many_edges_each_cost_no_more_than_a_ceiling() {
    let (cost, given_up) = fire_a_group_of_busy_siblings(SOURCE);
    assert!(cost <= CEILING, "{cost} commands");
    // As many as could be asked about.
    assert!((300..999).contains(&given_up), "{given_up}");
    let unbounded = spoilt("local READS_MAX = 16384", "local READS_MAX = 1000000");
    let (cost, given_up) = fire_a_group_of_busy_siblings(&unbounded);
    assert!(cost > CEILING && given_up == 999, "{cost} commands, {given_up} given up");
}

/// 1,000 parents, each with twenty more children of its own that have ended. Answers what it cost
/// to fire their common child's group, and how many of them were given up.
fn fire_a_group_of_busy_siblings(library: &str) -> (usize, usize) {
    let mut host = LibraryHost::holding(library);
    for parent in 1..=1_000 {
        host.runs(&upstream(parent));
        host.edge(&upstream(parent), "child");
        host.ended_children(parent, 20);
    }
    host.waits_for_any("child");
    host.ended(&upstream(1));
    host.resolve_edge(&upstream(1), "child");
    (host.cost(), host.given_up("child").len())
}

#[test]
fn all_siblings_with_few_edges_are_cancelled() {
    let mut host = LibraryHost::holding(SOURCE);
    for parent in 1..=3_000 {
        host.runs(&upstream(parent));
        host.edge(&upstream(parent), "child");
        host.edge(&upstream(parent), "ended");
    }
    host.ended("ended");
    host.waits_for_any("child");
    host.ended(&upstream(1));
    host.resolve_edge(&upstream(1), "child");
    assert_eq!(host.given_up("child").len(), 2_999);
}

#[test]
fn busy_siblings_do_not_use_up_what_the_others_need() {
    assert_eq!(quiet_ones_given_up(SOURCE), 499);
    let by_name = spoilt("return a.edges < b.edges or (a.edges == b.edges and", "return (true and");
    assert!(quiet_ones_given_up(&by_name) < 499);
}

/// 300 busy parents, and 500 with one more child, which come later by name: how many of those are
/// given up.
fn quiet_ones_given_up(library: &str) -> usize {
    let mut host = LibraryHost::holding(library);
    for parent in 1..=800 {
        host.runs(&upstream(parent));
        host.edge(&upstream(parent), "child");
        host.ended_children(parent, if parent <= 300 { 60 } else { 1 });
    }
    host.waits_for_any("child");
    host.ended(&upstream(800));
    host.resolve_edge(&upstream(800), "child");
    let given_up = host.given_up("child");
    (301..800).filter(|parent| given_up.contains(&upstream(*parent))).count()
}

#[test]
fn one_end_of_many_large_groups_is_resolved_in_steps() {
    const CHILDREN: usize = 40;
    const PARENTS: usize = 1_000;
    let mut host = LibraryHost::holding(SOURCE);
    (1..=PARENTS).for_each(|parent| host.runs(&upstream(parent)));
    for child in 1..=CHILDREN {
        (1..=PARENTS).for_each(|parent| host.edge(&upstream(parent), &format!("child-{child}")));
        host.waits_for_any(&format!("child-{child}"));
    }
    host.ended(&upstream(1));
    let (mut calls, mut dearest) = (0, 0);
    let mut cursor = "0".to_owned();
    loop {
        let reply = host.resolve_outgoing(&upstream(1), &cursor);
        calls += 1;
        dearest = dearest.max(host.cost());
        assert_ne!(reply[2], "0", "a step that resolved nothing: {reply:?}");
        if reply[0] == "done" {
            break;
        }
        cursor.clone_from(&reply[1]);
        assert!(calls < CHILDREN, "no end");
    }
    assert!(dearest <= 45_000, "{dearest} commands in one call");
    let given_up: Vec<BTreeSet<String>> =
        (1..=CHILDREN).map(|child| host.given_up(&format!("child-{child}"))).collect();
    // Only the child that was resolved last can do without them: nobody else waits by then.
    let listed: usize = given_up.iter().map(BTreeSet::len).sum();
    assert_eq!(listed, PARENTS - 1, "each is given up once");
}

#[test]
fn an_edge_reads_the_counters_of_its_group_and_not_its_members() {
    const EDGES: usize = 2_048;
    let mut host = LibraryHost::patient(SOURCE, 8_000_000);
    for first in (1..=EDGES).step_by(256) {
        let members: Vec<String> = (first..first + 256).map(|i| member(&upstream(i))).collect();
        host.submit(&format!(r#"{{"members":[{}]}}"#, members.join(",")));
    }
    let edge = |i| {
        let (from, to) = (id(&upstream(i)), id("child"));
        format!(r#"{{"edge_id":"e{i}","upstream_eid":"{from}","downstream_eid":"{to}"}}"#)
    };
    let edges: Vec<String> = (1..=EDGES).map(edge).collect();
    let any_of = r#""policy_variant":"any_of","on_satisfied":"let_run""#;
    let document = format!(
        r#"{{"members":[{}],"edges":[{}],"groups":[{{"downstream_eid":"{}",{any_of}}}]}}"#,
        member("child"),
        edges.join(","),
        id("child")
    );
    host.submit(&document);
    let counted = host.run(&["HGET", &group("child"), "n"]);
    assert_eq!(counted, Value::Bulk(EDGES.to_string().into()));
}

/// One flow, put together by hand: only what firing a group looks at.
struct LibraryHost(Host);

impl LibraryHost {
    fn holding(library: &str) -> Self {
        Self::patient(library, HostConfig::default().instruction_budget)
    }

    /// The same, where a call is stopped after so many instructions.
    fn patient(library: &str, instruction_budget: u64) -> Self {
        let mut host = Host::new(HostConfig { instruction_budget, ..HostConfig::default() });
        let reply = host.call(&["FUNCTION", "LOAD", library]);
        assert!(!matches!(reply, Value::Error(_)), "{reply:?}");
        Self(host)
    }

    fn run(&mut self, words: &[&str]) -> Value {
        let reply = self.0.call(words);
        assert!(!matches!(reply, Value::Error(_)), "{words:?}: {reply:?}");
        reply
    }

    fn runs(&mut self, name: &str) {
        self.run(&[
            "HSET",
            &of(name, "core"),
            "execution_id",
            &id(name),
            "flow_id",
            FLOW,
            "lifecycle_phase",
            "runnable",
            "terminal_outcome",
            "none",
        ]);
    }

    fn ended(&mut self, name: &str) {
        self.run(&[
            "HSET",
            &of(name, "core"),
            "execution_id",
            &id(name),
            "flow_id",
            FLOW,
            "lifecycle_phase",
            "terminal",
            "terminal_outcome",
            "success",
        ]);
    }

    /// Further children of one parent that wait for nobody any more.
    fn ended_children(&mut self, parent: usize, count: usize) {
        for other in 1..=count {
            let name = format!("ended-{parent}-{other}");
            self.edge(&upstream(parent), &name);
            self.ended(&name);
        }
    }

    /// Declares an edge and applies it to its child.
    fn edge(&mut self, from: &str, to: &str) {
        let edge = format!("{from}>{to}");
        self.run(&[
            "HSET",
            &of_flow(&format!("edge:{edge}")),
            "upstream_execution_id",
            &id(from),
            "downstream_execution_id",
            &id(to),
        ]);
        self.run(&["SADD", &of_flow(&format!("out:{}", id(from))), &edge]);
        self.run(&["SADD", &of_flow(&format!("in:{}", id(to))), &edge]);
        self.run(&[
            "HSET",
            &of(to, &format!("dep:{edge}")),
            "state",
            "unsatisfied",
            "upstream_execution_id",
            &id(from),
        ]);
    }

    /// A child whose group is decided by the first success.
    fn waits_for_any(&mut self, name: &str) {
        self.run(&[
            "HSET",
            &of(name, "core"),
            "execution_id",
            &id(name),
            "flow_id",
            FLOW,
            "lane_id",
            "default",
            "lifecycle_phase",
            "runnable",
            "ownership_state",
            "unowned",
            "eligibility_state",
            "blocked_by_dependencies",
            "terminal_outcome",
            "none",
        ]);
        self.run(&[
            "HSET",
            &group(name),
            "policy_variant",
            "any_of",
            "group_state",
            "pending",
            "on_satisfied",
            "cancel_remaining",
            "n",
            "100000",
        ]);
    }

    fn resolve_edge(&mut self, from: &str, to: &str) {
        let edge = format!("{from}>{to}");
        let reply = self.resolve(from, "0", &edge);
        assert_eq!(reply[2], "1", "{reply:?}");
    }

    fn resolve_outgoing(&mut self, from: &str, cursor: &str) -> Vec<String> {
        self.resolve(from, cursor, "")
    }

    /// Submits a chunk of the flow.
    fn submit(&mut self, document: &str) {
        let (core, members) = (of_flow("core"), of_flow("members"));
        let keys = ["3", &core, &members, "ff:idx:{fp:0}:flow_index"];
        let args = [FLOW, "kind", "ns", document];
        let reply = self.run(&[&["FCALL", "ff_submit_flow"][..], &keys, &args].concat());
        let Value::Array(words) = &reply else { panic!("{reply:?}") };
        assert_eq!(words.first(), Some(&Value::Int(1)), "{reply:?}");
    }

    /// The reply of `ff_resolve_outgoing`, without its envelope.
    fn resolve(&mut self, from: &str, cursor: &str, edge: &str) -> Vec<String> {
        let reply = self.run(&[
            "FCALL",
            "ff_resolve_outgoing",
            "1",
            &of(from, "core"),
            &id(from),
            cursor,
            "500",
            edge,
        ]);
        let Value::Array(words) = reply else { panic!("{reply:?}") };
        let text = |word: &Value| {
            let Value::Bulk(bytes) = word else { panic!("{word:?}") };
            String::from_utf8_lossy(bytes).into_owned()
        };
        words.iter().skip(2).map(text).collect()
    }

    /// The inner commands of the last call.
    fn cost(&self) -> usize {
        self.0.last_inner_commands()
    }

    fn given_up(&mut self, child: &str) -> BTreeSet<String> {
        let reply = self.run(&["HGET", &group(child), "cancel_siblings_pending_members"]);
        let Value::Bulk(list) = reply else { panic!("{reply:?}") };
        let list = String::from_utf8_lossy(&list).into_owned();
        let names = list.split('|').filter(|name| !name.is_empty());
        names.map(|name| name.trim_start_matches("{fp:0}:").to_owned()).collect()
    }
}

const FLOW: &str = "F";

/// What `ff_resolve_dependency` promises for a group of 1,000.
const CEILING: usize = 16_500 + 7 * 1_000;

fn spoilt(sound: &str, defect: &str) -> String {
    assert!(SOURCE.contains(sound), "nothing to spoil: {sound}");
    SOURCE.replace(sound, defect)
}

fn upstream(number: usize) -> String {
    format!("parent-{number:05}")
}

fn member(name: &str) -> String {
    format!(r#"{{"execution_id":"{}","execution_kind":"work"}}"#, id(name))
}

fn id(name: &str) -> String {
    format!("{{fp:0}}:{name}")
}

fn of(name: &str, part: &str) -> String {
    format!("ff:exec:{{fp:0}}:{}:{part}", id(name))
}

fn of_flow(part: &str) -> String {
    format!("ff:flow:{{fp:0}}:{FLOW}:{part}")
}

fn group(child: &str) -> String {
    of_flow(&format!("edgegroup:{}", id(child)))
}
