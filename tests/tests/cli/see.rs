//! What the command shows of work and of limits.

use std::process::Stdio;
use std::time::Duration;

use selvedge::client::Client;
use selvedge::worker::{Context, Failed, Worker};
use selvedge_tests::bounded_output::BoundedOutput as _;
use selvedge_tests::wait::Wait;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::kit::{Operator, REPORT, text, with_input};

/// Runs `seen` while a worker of these kinds works.
fn with_worker<T>(operator: &Operator, seen: impl FnOnce() -> T) -> T {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.expect("a runtime");
    let stop = CancellationToken::new();
    let client = runtime.block_on(Client::connect(&operator.url(""))).expect("it is up");
    let worker = Worker::builder(client)
        .handler("say", |task: Context| async move {
            task.frame("stdout", b"thinking").await?;
            Ok::<_, Failed>(format!("said {}", String::from_utf8_lossy(task.payload())))
        })
        .handler("fail", |task: Context| async move {
            match task.attempt().0 {
                0 => Err(Failed::transient("not yet")),
                _ => Ok(b"\xff\xfe".to_vec()),
            }
        });
    let worker = runtime.spawn(worker.run_until(stop.clone().cancelled_owned()));
    let seen = seen();
    stop.cancel();
    runtime.block_on(worker).expect("it ends").expect("it ends well");
    seen
}

/// Submits through standard input and waits for the end.
fn submit_and_wait(operator: &Operator, flow: &str, more: &[&str]) -> Vec<String> {
    let arguments = [&["flow", "submit", "-", "--wait", "--timeout", "60s"][..], more].concat();
    let told = with_input(&mut operator.command(&arguments), flow);
    told.lines().map(str::to_owned).collect()
}

#[test]
fn a_list_is_that_of_now_without_an_engine() {
    let operator = Operator::new();
    let submitted = operator.submitted(REPORT);
    let row = |count: usize| {
        let rows = operator.json(&["flow", "list"]);
        assert_eq!(rows.len(), count, "{rows:?}");
        rows.into_iter().next().unwrap_or_default()
    };
    let before = row(1);
    assert_eq!((&before["state"], &before["completed"]), (&"blocked".into(), &0.into()));
    assert_eq!((&before["namespace"], &before["tasks"]), (&"default".into(), &3.into()));
    for name in ["fetch", "mirror"] {
        operator.json(&["exec", "cancel", submitted["tasks"][name].as_str().expect("an id")]);
    }
    assert_eq!(row(1)["failed"], 0);
    operator.json(&["exec", "cancel", submitted["tasks"]["render"].as_str().expect("an id")]);
    row(0);
}

#[test]
fn an_execution_is_shown_with_all_that_belongs_to_it() {
    let operator = Operator::new();
    let budget =
        operator.json(&["budget", "create", "--hard", "tokens=10"])[0]["budget_id"].clone();
    let flow = format!(
        r#"{{"kind":"f","tasks":[
          {{"name":"a","kind":"say","payload":"hello","attempt_timeout":"30s","deadline":"1h",
            "retries":{{"max":3,"pause":"10ms"}},"budgets":[{budget}]}},
          {{"name":"b","kind":"say","payload":"x","after":["a"],"retention":"3days"}}]}}"#
    );
    let lines = with_worker(&operator, || {
        let _engine = Engine::of(&operator);
        submit_and_wait(&operator, &flow, &["--json"])
    });
    let line = |at: usize| serde_json::from_str::<Value>(&lines[at]).expect("an object");
    assert_eq!(line(1)["results"]["a"], "said hello", "{lines:?}");
    assert_eq!(line(1)["results"]["b"], "said x", "{lines:?}");
    let id = line(0)["tasks"]["a"].as_str().expect("an id").to_owned();

    let shown = &operator.json(&["exec", "show", &id])[0];
    for (field, value) in [
        ("payload", Value::from("hello")),
        ("payload_bytes", 5.into()),
        ("result", "said hello".into()),
        ("attempt_timeout", "30s".into()),
        ("deadline", "1h".into()),
        ("most_retries", 3.into()),
        ("namespace", "default".into()),
        ("budgets", Value::from(vec![budget.clone()])),
        ("frames", 1.into()),
        ("retention", "1day".into()),
    ] {
        assert_eq!(shown[field], value, "{field}: {shown}");
    }
    assert_eq!(shown["attempts"][0]["state"], "ended_success", "{shown}");
    let at = |row: &Value, name: &str| row[name].as_u64().expect("a time");
    assert_eq!(at(shown, "purged_at"), at(shown, "completed_at") + 86_400_000);
    let other = line(0)["tasks"]["b"].as_str().expect("an id").to_owned();
    let other = &operator.json(&["exec", "show", &other])[0];
    assert_eq!(other["retention"], "3days", "{other}");
    assert_eq!(at(other, "purged_at"), at(other, "completed_at") + 3 * 86_400_000);
    assert_eq!(shown["output"][0]["payload"], "thinking", "{shown}");
    let shown = text(&operator.run(&["exec", "show", &id]).stdout);
    for words in ["payload", "hello", "attempt 0  ended_success from 20", "output  stdout thinking"]
    {
        assert!(shown.contains(words), "{words}: {shown}");
    }
}

#[test]
fn results_are_shown_to_people_and_what_is_no_text_is_named() {
    let operator = Operator::new();
    let flow = r#"{"kind":"f","tasks":[
        {"name":"a","kind":"say","payload":"hi"},
        {"name":"b","kind":"fail","retries":{"max":2,"pause":"10ms"}}]}"#;
    let lines = with_worker(&operator, || {
        let _engine = Engine::of(&operator);
        submit_and_wait(&operator, flow, &[])
    });
    let has = |words: &str| lines.iter().any(|line| line.trim() == words);
    assert!(has("a: said hi") && has("b: (not text)"), "{lines:?}");
    let flow = lines[0].split(' ').nth(1).expect("an id").to_owned();
    let shown = operator.json(&["flow", "show", &flow]);
    let tasks = shown[0]["tasks"].as_array().expect("a list");
    let failed = tasks.iter().find(|task| task["name"] == "b").expect("it is there");
    let id = failed["execution_id"].as_str().expect("an id");
    let shown = &operator.json(&["exec", "show", id])[0];
    assert_eq!(shown["attempts"].as_array().map(Vec::len), Some(2), "{shown}");
    assert_eq!(shown["attempts"][0]["reason"], "not yet", "{shown}");
}

/// An engine as a process of its own, which the end of the test ends.
struct Engine(std::process::Child);

impl Engine {
    fn of(operator: &Operator) -> Self {
        let mut serve = operator.command(&["serve", "--listen", "127.0.0.1:0"]);
        serve.stdout(Stdio::null()).stderr(Stdio::null());
        Self(serve.spawn().expect("the binary is built"))
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        // It may be gone already, which is as good.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_flow_in_json_has_joins_times_and_tags() {
    let operator = Operator::new();
    let flow = r#"{"kind":"f","tags":{"team.name":"blue"},"tasks":[
        {"name":"a","kind":"k","tags":{"team.cost":"7"}},{"name":"b","kind":"k"},
        {"name":"c","kind":"k"},
        {"name":"q","kind":"k","after":{"quorum":2,"of":["a","b","c"]}},
        {"name":"all","kind":"k","after":["a","b"]},
        {"name":"any","kind":"k","lane":"slow","after":{"any":["a","b"]}}]}"#;
    let submitted = operator.submitted(flow);
    let shown = &operator.json(&["flow", "show", submitted["flow_id"].as_str().expect("an id")])[0];
    assert_eq!(shown["tags"]["team.name"], "blue", "{shown}");
    assert_eq!(shown["namespace"], "default", "{shown}");
    assert!(shown["created_at"].as_u64().is_some_and(|at| at > 1_700_000_000_000), "{shown}");
    let task = |name: &str| {
        let tasks = shown["tasks"].as_array().expect("a list");
        tasks.iter().find(|task| task["name"] == name).expect("it is there").clone()
    };
    let join = |name: &str| task(name)["join"].to_string();
    assert_eq!(join("q"), r#"{"kind":"quorum","needed":2,"of":3}"#);
    assert_eq!(join("all"), r#"{"kind":"all","needed":2,"of":2}"#);
    assert_eq!(join("any"), r#"{"kind":"any","needed":1,"of":2}"#);
    assert_eq!(join("a"), "null");
    assert_eq!(
        (&task("a")["tags"]["team.cost"], &task("any")["lane"]),
        (&"7".into(), &"slow".into())
    );
    assert!(task("a")["created_at"].is_u64() && task("a")["completed_at"].is_null());
}

#[test]
fn the_help_of_submit_describes_every_field_of_a_flow_file() {
    let operator = Operator::new();
    let help = text(&operator.run(&["flow", "submit", "--help"]).stdout);
    for flow in [
        r#"{"x":1}"#,
        r#"{"kind":"f","tasks":[{"x":1}]}"#,
        r#"{"kind":"f","tasks":[{"name":"a","kind":"k","retries":{"x":1}}]}"#,
    ] {
        let told = text(&operator.submit(flow).stderr);
        let known = told.split("expected").nth(1).unwrap_or_else(|| panic!("{told}"));
        let fields: Vec<&str> = known.split('`').skip(1).step_by(2).collect();
        assert!(fields.len() > 1, "{told}");
        for field in fields {
            assert!(help.contains(field), "{field}: {help}");
        }
    }
}

#[test]
fn budgets_are_created_shown_reset_and_deleted() {
    let operator = Operator::new();
    operator.fails(&mut operator.command(&["budget", "create"]), 2, &["needs a limit"]);
    let zero = ["budget", "create", "--hard", "tokens=0"];
    operator.fails(&mut operator.command(&zero), 2, &["a limit of 0 means none"]);
    let create =
        ["budget", "create", "--hard", "tokens=100", "--soft", "tokens=80", "--resets-every", "1d"];
    let id = operator.json(&create)[0]["budget_id"].as_str().expect("an id").to_owned();
    let tokens = || operator.json(&["budget", "show", &id])[0].clone();
    let row = tokens();
    assert_eq!((&row["used"], &row["hard"], &row["soft"]), (&0.into(), &100.into(), &80.into()));
    spend(&operator, &id, 60);
    assert_eq!(tokens()["used"], 60);
    let told = text(&operator.run(&["budget", "show", &id]).stderr);
    assert!(told.contains("resets every 1day, next at 20"), "{told}");
    operator.json(&["budget", "reset", &id, "--dry-run"]);
    assert_eq!(tokens()["used"], 60);
    operator.json(&["budget", "reset", &id]);
    assert_eq!(tokens()["used"], 0);
    spend(&operator, &id, 100);
    assert_eq!(tokens()["exhausted"], true);
    operator.json(&["budget", "delete", &id, "--dry-run"]);
    operator.json(&["budget", "delete", &id]);
    let keys = operator.call(&["KEYS", &format!("*{id}*")]);
    assert_eq!(keys, selvedge_core::value::Value::Array(Vec::new()));
    for verb in ["show", "reset", "delete"] {
        operator.fails(&mut operator.command(&["budget", verb, &id]), 3, &["there is no budget"]);
    }
    assert_eq!(operator.json(&["fsck"]).last().expect("a summary")["violations"], 0);
}

fn spend(operator: &Operator, id: &str, tokens: i64) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(async {
        let client = Client::connect(&operator.url("")).await.expect("it is up");
        let id = id.parse().expect("an id");
        let report = format!("report of {tokens}");
        client.spend(id, &report, &[("tokens", tokens)]).await.expect("it is counted");
    });
}

#[test]
fn quotas_are_created_shown_reset_and_deleted() {
    let operator = Operator::new();
    operator.fails(&mut operator.command(&["quota", "create"]), 2, &["--concurrency"]);
    let rate_alone = ["quota", "create", "--rate", "5"];
    operator.fails(&mut operator.command(&rate_alone), 2, &["--window"]);
    let create = ["quota", "create", "--rate", "1", "--window", "1h", "--concurrency", "2"];
    let id = operator.json(&create)[0]["quota_id"].as_str().expect("an id").to_owned();
    let shown = &operator.json(&["quota", "show", &id])[0];
    assert_eq!((&shown["rate"], &shown["window"]), (&1.into(), &"1h".into()), "{shown}");
    assert_eq!((&shown["concurrency"], &shown["running"]), (&2.into(), &0.into()), "{shown}");

    // One may start; after a reset another one.
    let flow = format!(r#"{{"kind":"f","tasks":[{{"name":"a","kind":"say","quota":"{id}"}}]}}"#);
    with_worker(&operator, || {
        submit_and_wait(&operator, &flow, &[]);
        operator.json(&["quota", "reset", &id]);
        submit_and_wait(&operator, &flow, &[]);
    });
    operator.json(&["quota", "delete", &id]);
    for verb in ["show", "reset", "delete"] {
        operator.fails(&mut operator.command(&["quota", verb, &id]), 3, &["there is no quota"]);
    }
    assert_eq!(operator.json(&["fsck"]).last().expect("a summary")["violations"], 0);
}

#[test]
fn engines_are_listed_while_they_run() {
    let operator = Operator::new();
    let none = text(&operator.run(&["engines"]).stderr);
    assert!(none.contains("no engine is running"), "{none}");
    let mut engines = [Engine::of(&operator), Engine::of(&operator)];
    let listed = |wanted: usize| {
        Wait::at_most(Duration::from_secs(60)).until(|| {
            let rows = operator.json(&["engines"]);
            let alive = rows.iter().filter(|row| row["state"] == "alive").count();
            (alive == wanted).then_some(rows)
        })
    };
    let rows = listed(2).expect("both are listed");
    let pids: Vec<u64> = rows.iter().filter_map(|row| row["pid"].as_u64()).collect();
    for engine in &engines {
        assert!(pids.contains(&engine.0.id().into()), "{rows:?}");
    }
    for row in &rows {
        assert!(row["started_at"].is_u64() && row["lag_ms"].is_u64(), "{row}");
        assert_eq!(row["version"], env!("CARGO_PKG_VERSION"), "{row}");
    }
    // One is killed: it is silent. The other one stops: it is gone.
    engines[0].0.kill().expect("it runs");
    let pid = engines[1].0.id().to_string();
    let sent = std::process::Command::new("kill").args(["-TERM", &pid]).status();
    assert!(sent.expect("kill is there").success());
    let rows = listed(0).expect("none is alive");
    assert_eq!(rows.len(), 1, "{rows:?}");
    assert_eq!((&rows[0]["state"], &rows[0]["pid"]), (&"silent".into(), &engines[0].0.id().into()));
    assert_eq!(operator.json(&["fsck"]).last().expect("a summary")["violations"], 0);
}

#[test]
fn ended_executions_are_kept_as_long_as_the_deployment_or_their_task_says() {
    let operator = Operator::new();
    let mut config = operator.command(&["config", "show", "--json"]);
    let rows = text(&config.env("SELVEDGE_RETENTION", "2s").bounded_output().stdout);
    assert!(
        rows.contains(r#""setting":"retention""#) && rows.contains(r#""value":"2s""#),
        "{rows}"
    );
    let mut config = operator.command(&["config", "show"]);
    operator.fails(config.env("SELVEDGE_RETENTION", "0s"), 2, &["SELVEDGE_RETENTION", "at least"]);

    let flow = r#"{"kind":"f","tasks":[
        {"name":"brief","kind":"k"},{"name":"long","kind":"k","retention":"1h"}]}"#;
    let submitted = operator.submitted(flow);
    let id = |name: &str| submitted["tasks"][name].as_str().expect("an id").to_owned();
    for name in ["brief", "long"] {
        operator.json(&["exec", "cancel", &id(name)]);
    }
    let brief = id("brief");
    let gone = Wait::at_most(Duration::from_secs(60)).until(|| {
        let mut scan = operator.command(&["scan", "--once"]);
        assert!(scan.env("SELVEDGE_RETENTION", "2s").bounded_output().status.success());
        let shown = operator.run(&["exec", "show", &brief]);
        (shown.status.code() == Some(3)).then_some(())
    });
    assert!(gone.is_some(), "it is kept although its retention is over");
    assert_eq!(operator.json(&["exec", "show", &id("long")])[0]["state"], "cancelled");
}
