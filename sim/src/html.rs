//! A run as a self-contained HTML page: a lane for each actor, an arrow for each call, a colour for
//! each outcome, and details on hover.

use std::collections::BTreeMap;

use crate::event::{Actor, CallId, Event, EventKind, Learned};
use crate::format;

/// The names that the plan gives to executions and flows, by id.
type Names = BTreeMap<String, String>;

/// Renders events. `title` is the name of the run, and `lines` are the lines above the picture.
#[must_use]
pub fn render(title: &str, lines: &[String], events: &[&Event], names: &Names) -> String {
    let lanes = lanes(events);
    // A client's call is sent as soon as it is begun: one row is enough.
    let shown = |event: &&&Event| format::matters(event) && !is_beginning(event);
    let rows: Vec<&&Event> = events.iter().filter(shown).collect();
    let height = ROW * rows.len() + 2 * ROW;
    let width = LEFT + LANE * lanes.len() + MARGIN;
    let mut heads = format!("<svg width='{width}' height='{HEAD}'>");
    let mut svg = format!("<svg width='{width}' height='{height}' role='img'>\n");
    for (at, actor) in lanes.iter().enumerate() {
        let x = LEFT + LANE * at;
        heads.push_str(&format!("<text class='name' x='{x}' y='18'>{actor}</text>"));
        svg.push_str(&format!("<line class='lane' x1='{x}' y1='0' x2='{x}' y2='{height}'/>\n"));
    }
    heads.push_str("</svg>");
    let calls = calls(events);
    for (row, event) in rows.iter().enumerate() {
        draw(&mut svg, &lanes, &calls, names, event, ROW * (row + 1));
    }
    svg.push_str("</svg>");
    let title = escape(title);
    let lines: String = lines
        .iter()
        .map(|words| format!("<p><b>{}</b></p>\n", escape(&format::named(words, names))))
        .collect();
    format!(
        "<!doctype html><html lang='en'><meta charset='utf-8'><title>{title}</title>\n\
         <style>{STYLE}</style>\n<h1>{title}</h1>\n<p>{LEGEND}</p>\n\
         {lines}<header>{heads}</header>\n{svg}\n</html>\n"
    )
}

/// Who sent each call.
fn calls(events: &[&Event]) -> BTreeMap<CallId, Actor> {
    let mut calls = BTreeMap::new();
    for event in events {
        if let EventKind::Sent { call, .. } = &event.kind {
            calls.insert(*call, event.actor);
        }
    }
    calls
}

/// All actors, callers first, servers last.
fn lanes(events: &[&Event]) -> Vec<Actor> {
    let mut lanes: Vec<Actor> = events.iter().map(|event| event.actor).collect();
    for event in events {
        if let EventKind::Sent { node, .. } = &event.kind {
            lanes.push(Actor::Node(*node));
        }
        lanes.push(where_it_happens(event));
    }
    lanes.sort_by_key(|actor| (order(*actor), *actor));
    lanes.dedup();
    lanes
}

/// The lane of an event: a call is applied in the lane of its node.
fn where_it_happens(event: &Event) -> Actor {
    if let EventKind::Applied(applied) = &event.kind {
        return Actor::Node(applied.node);
    }
    event.actor
}

const fn is_beginning(event: &Event) -> bool {
    matches!(event.kind, EventKind::Invoked { .. })
}

const fn order(actor: Actor) -> u8 {
    match actor {
        Actor::World => 0,
        Actor::Caller(_) => 1,
        Actor::Signaller(_) => 2,
        Actor::Worker(_) => 3,
        Actor::Foreign(_) => 4,
        Actor::Engine(_) => 5,
        Actor::Node(_) => 6,
    }
}

fn draw(
    svg: &mut String,
    lanes: &[Actor],
    calls: &BTreeMap<CallId, Actor>,
    names: &Names,
    event: &Event,
    y: usize,
) {
    let place =
        |actor: Actor| lanes.iter().position(|lane| *lane == actor).map(|at| LEFT + LANE * at);
    let Some(x) = place(where_it_happens(event)) else { return };
    let (colour, peer) = match &event.kind {
        EventKind::Sent { node, .. } => ("sent", place(Actor::Node(*node))),
        EventKind::Applied(applied) if applied.superseded => ("lost", None),
        EventKind::Applied(applied) if format::is_refusal(&applied.reply) => {
            ("refused", calls.get(&applied.call).and_then(|by| place(*by)))
        }
        EventKind::Applied(applied) => {
            ("applied", calls.get(&applied.call).and_then(|by| place(*by)))
        }
        EventKind::Delivered { learned, .. } | EventKind::Returned { learned, .. } => match learned
        {
            Learned::Reply(reply) if format::is_refusal(reply) => ("refused", None),
            Learned::Reply(_) => ("applied", None),
            Learned::NotApplied(_) => ("refused", None),
            Learned::PerhapsApplied(_) => ("lost", None),
        },
        EventKind::Lost { .. } | EventKind::CommitsLost { .. } => ("lost", None),
        EventKind::Fault { .. } | EventKind::Died => ("fault", None),
        EventKind::Observed(_)
        | EventKind::WorkerObserved(_)
        | EventKind::Handler { .. }
        | EventKind::Capacity(_)
        | EventKind::Invoked { .. }
        | EventKind::Succeeded { .. }
        | EventKind::Waits { .. }
        | EventKind::WaitOver { .. }
        | EventKind::Started
        | EventKind::Phase(_)
        | EventKind::KeyOnTwoNodes(_)
        | EventKind::Note(_) => ("plain", None),
    };
    let details = escape(&format::named(&format::line(event), names));
    let label = format::named(&format::describe(event), names);
    let label = escape(&label.chars().take(LABEL).collect::<String>());
    svg.push_str(&format!("<g class='{colour}'><title>{details}</title>"));
    if let Some(to) = peer.filter(|to| *to != x) {
        // The arrow head is a path: not every browser gives a marker the colour of its line.
        let (end, back) = if to > x { (to - 4, to - 10) } else { (to + 4, to + 10) };
        svg.push_str(&format!(
            "<line x1='{x}' y1='{y}' x2='{end}' y2='{y}'/>\
             <path d='M{end},{y} L{back},{} L{back},{} Z'/>",
            y - 4,
            y + 4
        ));
    }
    svg.push_str(&format!(
        "<circle cx='{x}' cy='{y}' r='4'/>\
         <text class='time' x='4' y='{}'>{}.{:03}s</text>\
         <text x='{}' y='{}'>{label}</text></g>\n",
        y + 4,
        event.at_ms / 1_000,
        event.at_ms % 1_000,
        x + 8,
        y - 5,
    ));
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('\'', "&#39;")
}

const LEFT: usize = 110;
const LANE: usize = 260;
const HEAD: usize = 28;
const MARGIN: usize = 60;
const ROW: usize = 22;
const LABEL: usize = 42;

const LEGEND: &str = "Time runs downwards. <b class='sent'>sent</b> \
<b class='applied'>applied</b> <b class='refused'>refused or not applied</b> \
<b class='lost'>lost or unknown</b> <b class='fault'>fault</b>. \
Hover over an event for its full text.";

const STYLE: &str = "\
body{font:13px/1.4 system-ui,sans-serif;margin:1rem;color:#1c2530;background:#fff}\
h1{font-size:1.1rem}svg{font:11px ui-monospace,monospace;display:block}\
header{position:sticky;top:0;background:#fff;border-bottom:1px solid #d5dbe1}\
.lane{stroke:#d5dbe1}.name{font-weight:700;text-anchor:middle}.time{fill:#7a8794}\
g line{stroke:currentColor;stroke-width:1.5}g circle,g path,g text:last-child{fill:currentColor}\
g:hover circle{r:7}g:hover text{font-weight:700}\
.sent{color:#5b7fa6}.applied{color:#2f7d4f}.refused{color:#8a6d1d}.lost{color:#b4532a}\
.fault{color:#b3203a}.plain{color:#59636e}";

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use selvedge_core::value::Value;

    use super::*;

    fn event(ordinal: u64, actor: Actor, what: EventKind) -> Event {
        Event { at_ms: ordinal * 10, ordinal, actor, kind: what }
    }

    #[test]
    fn a_page_is_self_contained_and_shows_every_lane() {
        let argv =
            Arc::new(vec![b"FCALL".to_vec(), b"ff_complete_execution".to_vec(), b"0".to_vec()]);
        let events = [
            event(1, Actor::Worker(1), EventKind::Sent { call: 5, node: 1, argv }),
            event(2, Actor::Engine(1), EventKind::Died),
            event(3, Actor::World, EventKind::Note("a <b> & 'c'".to_owned())),
        ];
        let page = render("seed 7", &[], &events.iter().collect::<Vec<_>>(), &Names::new());
        for lane in ["worker-1", "engine-1", "node-1", "world"] {
            assert!(page.contains(&format!(">{lane}</text>")), "{lane}");
        }
        assert!(page.contains("a &lt;b&gt; &amp; &#39;c&#39;"));
        assert!(!page.contains("http"), "nothing is fetched from elsewhere");
    }

    #[test]
    fn a_refusal_is_not_drawn_as_applied_and_the_result_is_shown() {
        let reply = |words: Vec<Value>| {
            let learned = Learned::Reply(Value::Array(words));
            event(1, Actor::Caller(1), EventKind::Returned { call: 1, learned })
        };
        let code = Value::Bulk(b"execution_not_terminal".to_vec());
        let no = reply(vec![Value::Int(0), code.clone()]);
        let yes = reply(vec![Value::Int(1), code]);
        let lines = ["Stuck <at> last".to_owned()];
        let drawn = |event: &Event| render("seed 7", &lines, &[event], &Names::new());
        assert!(drawn(&no).contains("<g class='refused'>"), "{}", drawn(&no));
        assert!(drawn(&yes).contains("<g class='applied'>"));
        assert!(drawn(&yes).contains("<b>Stuck &lt;at&gt; last</b>"));
    }
}
