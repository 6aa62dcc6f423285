//! An operator's tour: the commands one after the other on one deployment, as a day with it goes.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use selvedge::client::Client;
use selvedge::worker::{Context, Failed, Worker};
use selvedge_tests::bounded_output::BoundedOutput as _;
use selvedge_tests::cluster::Cluster;
use selvedge_tests::server::Server;
use selvedge_tests::wait::Wait;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::kit::{fed, text};

/// A deployment, and whoever works in it.
struct Site {
    url: String,
}

impl Site {
    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_command"));
        command.args(arguments).env("SELVEDGE_URL", &self.url);
        command.env("FF_FLOW_PARTITIONS", "8");
        command
    }

    fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).bounded_output()
    }

    /// Runs a command that ends with this code; what it prints, on both channels.
    fn ends(&self, code: i32, arguments: &[&str]) -> String {
        let ran = self.run(arguments);
        let told = text(&ran.stdout) + &text(&ran.stderr);
        assert_eq!(ran.status.code(), Some(code), "{arguments:?} on {}: {told}", self.url);
        told
    }

    /// The same, and it says all of this.
    fn says(&self, code: i32, arguments: &[&str], words: &[&str]) {
        let told = self.ends(code, arguments);
        for words in words {
            assert!(told.contains(words), "{arguments:?} on {} / {words}: {told}", self.url);
        }
    }

    /// The first object that a command prints that ends well.
    fn json(&self, arguments: &[&str]) -> Value {
        let ran = self.run(&[arguments, &["--json"]].concat());
        assert!(ran.status.success(), "{arguments:?}: {}", text(&ran.stderr));
        let lines = text(&ran.stdout);
        let first = lines.lines().next().unwrap_or("null");
        serde_json::from_str(first).expect("an object per line")
    }

    /// Submits through standard input.
    fn submit(&self, flow: &str, more: &[&str]) -> Output {
        let arguments = [&["flow", "submit", "-", "--json"], more].concat();
        fed(&mut self.command(&arguments), flow.as_bytes())
    }

    /// Waits until a command says this.
    fn until_says(&self, arguments: &[&str], words: &str) {
        let says = || text(&self.run(arguments).stdout).contains(words).then_some(());
        assert!(Wait::at_most(LONG).until(says).is_some(), "{arguments:?}: never {words}");
    }

    fn engine(&self) -> Child {
        let mut child = self
            .command(&["serve", "--listen", "127.0.0.1:0"])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the binary is built");
        let mut line = String::new();
        let out = child.stdout.take().expect("piped");
        BufReader::new(out).read_line(&mut line).expect("it speaks");
        assert!(line.starts_with("listening on http://"), "{line}");
        child
    }

    /// A worker of the lane `mail`, until what is returned is dropped.
    fn worker(&self) -> (tokio::runtime::Runtime, tokio_util::sync::DropGuard) {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
        let runtime = runtime.expect("a runtime");
        let stop = CancellationToken::new();
        let client = runtime.block_on(Client::connect(&self.url)).expect("it is up");
        let worker =
            Worker::builder(client).lane("mail").handler("send", |task: Context| async move {
                task.spend("letter", &[("letters", 60)]).await?;
                Ok::<_, Failed>(b"sent".to_vec())
            });
        runtime.spawn(worker.run_until(stop.clone().cancelled_owned()));
        (runtime, stop.drop_guard())
    }
}

/// Work that nobody does yet: seen, explained, paused and resumed.
fn work_waits_and_is_explained(site: &Site, budget: &str) -> String {
    let flow = format!(
        r#"{{"kind":"letters","idempotency_key":"monday","tasks":[
            {{"name":"write","kind":"send","lane":"mail","payload":"Hello","budgets":["{budget}"]}},
            {{"name":"post","kind":"send","lane":"mail","after":["write"]}}]}}"#
    );
    let submitted: Value =
        serde_json::from_slice(&site.submit(&flow, &[]).stdout).expect("it is accepted");
    let of = |name: &str| submitted["tasks"][name].as_str().expect("an id").to_owned();
    let (flow_id, write) = (submitted["flow_id"].as_str().expect("an id"), of("write"));
    assert_eq!(
        site.json(&["flow", "list"])["state"],
        site.json(&["flow", "show", flow_id])["state"]
    );
    site.says(0, &["flow", "show", flow_id], &["write", "post", "waiting_children"]);
    site.says(0, &["why", &write], &["no worker is registered in namespace default"]);
    site.says(0, &["why", flow_id], &["no worker: 1 task"]);
    let waited = site.submit(&flow, &["--wait", "--timeout", "1s"]);
    assert!(text(&waited.stderr).contains("the flow goes on"), "{}", text(&waited.stderr));
    assert!(text(&waited.stdout).contains(r#""submitted_before":true"#));

    site.says(3, &["lane", "pause", "male"], &["there is no lane male", "mail"]);
    site.says(0, &["lane", "pause", "mail", "--dry-run"], &["would pause lane mail"]);
    site.says(0, &["lane", "pause", "mail"], &["lane mail is paused now, it was active: 1 ready"]);
    let worker = site.worker();
    site.until_says(&["workers"], "mail");
    site.says(0, &["why", &write], &["lane mail is paused", "selvedge lane resume mail"]);
    site.says(0, &["lanes"], &["paused"]);
    site.says(0, &["lane", "resume", "mail"], &["lane mail is active now, it was paused"]);
    site.until_says(&["flow", "show", flow_id], "(completed)");
    site.says(0, &["exec", "show", &write], &["Hello", "sent", budget]);
    drop(worker);
    flow_id.to_owned()
}

/// Two letters of 60 each, of 100 that may be written: the second is counted, the third waits.
fn a_budget_stops_what_follows(site: &Site, budget: &str) {
    let worker = site.worker();
    let letter = |n: usize| {
        format!(
            r#"{{"kind":"letters","tasks":[{{"name":"l{n}","kind":"send","lane":"mail",
                "budgets":["{budget}"]}}]}}"#
        )
    };
    assert!(site.submit(&letter(2), &["--wait", "--timeout", "60s"]).status.success());
    let third: Value = serde_json::from_slice(&site.submit(&letter(3), &[]).stdout).expect("an id");
    let third = third["tasks"]["l3"].as_str().expect("an id");
    site.until_says(&["why", third], "120 of 100 letters are used");
    site.says(0, &["budget", "show", budget], &["120", "true"]);
    site.says(0, &["budget", "reset", budget], &["reset budget"]);
    site.until_says(&["exec", "show", third], "completed");
    drop(worker);
}

/// A lane runs empty; records are damaged and repaired.
fn lanes_are_drained_and_data_is_repaired(site: &Site) {
    site.says(0, &["lane", "drain", "mail"], &["lane mail is draining now"]);
    let more = r#"{"kind":"letters","tasks":[{"name":"late","kind":"send","lane":"mail"}]}"#;
    let refused = site.submit(more, &[]);
    assert_eq!(refused.status.code(), Some(4), "{}", text(&refused.stderr));
    assert!(text(&refused.stderr).contains("lane mail accepts no new work"));
    site.says(4, &["lane", "forget", "mail"], &["executions are in lane mail", "ended"]);
    site.says(0, &["lane", "resume", "mail"], &["it was draining"]);

    let other = r#"{"kind":"other","tasks":[{"name":"a","kind":"nobody","lane":"attic"}]}"#;
    let other: Value = serde_json::from_slice(&site.submit(other, &[]).stdout).expect("an id");
    let task = other["tasks"]["a"].as_str().expect("an id");
    site.says(0, &["why", "--all", "--older-than", "0s"], &[task]);
    site.says(0, &["exec", "cancel", task], &["cancelled"]);
    site.says(0, &["exec", "replay", task], &["replayed"]);
    let flow = other["flow_id"].as_str().expect("an id");
    site.says(0, &["flow", "cancel", flow], &["1 tasks cancelled"]);
    site.says(0, &["fsck"], &["no violations"]);
    site.says(0, &["scan", "--once"], &["PROCESSED", "delayed_promoter"]);
    site.ends(0, &["secret", "list"]);
}

fn tour(site: &Site) {
    site.says(0, &["config", "show"], &["lanes"]);
    let mut engine = site.engine();
    site.until_says(&["engines"], "alive");
    let create = ["budget", "create", "--hard", "letters=100"];
    let budget = site.json(&create)["budget_id"].as_str().expect("an id").to_owned();
    let flow = work_waits_and_is_explained(site, &budget);
    a_budget_stops_what_follows(site, &budget);
    lanes_are_drained_and_data_is_repaired(site);
    site.says(0, &["flow", "show", &flow], &["(completed)"]);
    site.says(0, &["budget", "delete", &budget], &["deleted budget"]);
    let pid = engine.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &pid]).status().expect("kill").success());
    assert_eq!(engine.wait().expect("it ends").code(), Some(0));
    site.until_says(&["lanes"], "mail");
}

/// How long a busy machine may take.
const LONG: Duration = Duration::from_secs(90);

#[test]
fn the_tour_on_a_server() {
    let server = Server::valkey().unwrap_or_else(|error| panic!("{error}"));
    tour(&Site { url: format!("valkey://127.0.0.1:{}", server.port()) });
}

#[test]
fn the_tour_on_a_cluster() {
    let cluster = Cluster::start(3).unwrap_or_else(|error| panic!("{error}"));
    let hosts: Vec<String> =
        cluster.primaries().iter().map(|node| format!("127.0.0.1:{}", node.port())).collect();
    tour(&Site { url: format!("valkey://{}?cluster=true", hosts.join(",")) });
}

/// In memory there is nothing to come back to: `demo` and what needs no store work, and the others
/// say why not.
#[test]
fn the_tour_in_memory() {
    let site = Site { url: "memory://".to_owned() };
    site.ends(0, &["demo", "--dry-run"]);
    site.says(0, &["config", "show"], &["memory://"]);
    site.says(0, &["library"], &["#!lua name=flowfabric"]);
    for needs_a_store in [
        &["flow", "list"][..],
        &["lanes"],
        &["lane", "pause", "mail"],
        &["why", "--all"],
        &["fsck"],
        &["serve"],
    ] {
        site.says(2, needs_a_store, &["memory://", "valkey://HOST"]);
    }
    let unnamed = Site { url: String::new() };
    unnamed.says(2, &["lanes"], &["no store is named"]);
}
