//! The usual path of a function: the dearest successful call of one case of its spec file.

use std::io;

use selvedge_core::call::{absent_key, signatures};
use selvedge_core::value::Value;

use super::{Cost, Line};
use crate::connection::Message;
use crate::spec::runner::{Tally, run_file};
use crate::spec::store::{HostStore, SpecStore};
use crate::spec::suite::Suite;
use crate::spec::syntax::SpecFile;

/// Where the first case of a file is not the usual path: the case that is.
const USUAL: [(&str, &str); 8] = [
    (
        "ff_drain_sibling_cancel_group_checked",
        "E1: a sibling that has ended by itself is done, and with the last one the job is closed",
    ),
    ("ff_evaluate_flow_eligibility", "with an open dependency, a failed one, none left"),
    (
        "ff_reconcile_sibling_cancel_group",
        "E1: when all listed siblings have ended or are gone the job is closed",
    ),
    ("ff_replay_execution", "an execution is eligible again"),
    ("ff_resolve_outgoing", "the last one makes the child eligible, and says so"),
    ("ff_scan_partition", "what is due comes oldest first, and what comes next is told"),
    ("ff_read_summary", "a summary"),
    ("ff_list_waitpoint_hmac_kids", "the ones that verify, by name"),
];

/// Measures the function of a file. Its case runs twice, because the first call fills caches that
/// every later one finds filled.
pub(super) fn measure(
    suite: &Suite,
    file: &SpecFile,
    store: &mut HostStore,
) -> Result<Line, String> {
    let function = file.function.clone().unwrap_or_default();
    let named = USUAL.iter().find(|(of, _)| *of == function).map(|(_, case)| *case);
    let case = match named {
        Some(named) => file.cases.iter().find(|case| case.name == named),
        None => file.cases.first(),
    };
    let case =
        case.ok_or_else(|| format!("{function} has no case {}", named.unwrap_or("at all")))?;
    let mut counting = Counting { store, function: function.as_bytes().to_vec(), dearest: None };
    for _ in 0..2 {
        counting.dearest = None;
        run_file(suite, file, &case.name, &mut counting, &mut Tally::default());
    }
    let cost = counting.dearest.ok_or_else(|| format!("{function} fails in: {}", case.name))?;
    Ok(Line { name: function, per: 1, cost })
}

/// A store that notes the cost of the dearest successful call of one function.
struct Counting<'a> {
    store: &'a mut HostStore,
    function: Vec<u8>,
    dearest: Option<Cost>,
}

impl SpecStore for Counting<'_> {
    fn name(&self) -> String {
        self.store.name()
    }

    fn call(&mut self, command: &[Vec<u8>]) -> io::Result<Value> {
        let is_call = command.first().is_some_and(|verb| verb == b"FCALL")
            && command.get(1) == Some(&self.function);
        let reply = match is_call.then(|| as_our_callers_send_it(command)).flatten() {
            Some(command) => self.store.call(&command)?,
            None => self.store.call(command)?,
        };
        let refused = match &reply {
            Value::Array(elements) => elements.first() == Some(&Value::Int(0)),
            Value::Error(_) => true,
            Value::Nil | Value::Int(_) | Value::Bulk(_) | Value::Status(_) => false,
        };
        if is_call && !refused {
            let cost = Cost::of_last_call(self.store.host());
            self.dearest = Some(self.dearest.take().unwrap_or_default().dearer(cost));
        }
        Ok(reply)
    }

    fn published(&mut self) -> io::Result<Vec<Message>> {
        self.store.published()
    }
}

/// A call with the further key that our own callers declare (`Function::command`); none if they do
/// not.
fn as_our_callers_send_it(command: &[Vec<u8>]) -> Option<Vec<Vec<u8>>> {
    let [verb, function, count, rest @ ..] = command else { return None };
    let writes = |name: &str| signatures().iter().any(|it| it.name == name && !it.reads_only);
    let count: usize = str::from_utf8(count).ok()?.parse().ok()?;
    let (keys, args) = rest.split_at_checked(count)?;
    let absent = keys.first().and_then(|key| absent_key(key));
    let absent = absent.filter(|_| str::from_utf8(function).is_ok_and(writes))?;
    let count = (count + 1).to_string().into_bytes();
    Some([&[verb.clone(), function.clone(), count], keys, &[absent], args].concat())
}
