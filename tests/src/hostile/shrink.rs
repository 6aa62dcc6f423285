//! Shrinks a failing call: leaves out everything that the failure does not need.

use selvedge_sim::search::{Tries, shrink_value};

use crate::hostile::corpus::Call;
use crate::hostile::keyspace_data::Content;

/// The smallest call found for which `fails` still holds.
pub fn shrink(call: Call, fails: impl FnMut(&Call) -> bool) -> Call {
    shrink_value(call, changes, Change::apply, &mut Tries::at_most(TRIES_MAX), fails)
}

/// One thing to leave out. What another change has taken already is left alone.
enum Change {
    Key(Vec<u8>),
    Part(Vec<u8>, Vec<u8>),
    Expiry(Vec<u8>),
    LastArg,
    EmptyArg(usize),
    ShortArg(usize),
    LastKey,
}

impl Change {
    fn apply(&self, call: &mut Call) {
        match self {
            Self::Key(key) => drop(call.keyspace.keys.remove(key)),
            Self::Part(key, part) => {
                let Some(entry) = call.keyspace.keys.get_mut(key) else { return };
                match &mut entry.content {
                    Content::Text(_) => {}
                    Content::Hash(parts) | Content::Zset(parts) => drop(parts.remove(part)),
                    Content::Set(members) => drop(members.remove(part)),
                    Content::Stream(entries) => entries.retain(|(id, _)| id != part),
                }
            }
            Self::Expiry(key) => {
                if let Some(entry) = call.keyspace.keys.get_mut(key) {
                    entry.expires_at_ms = None;
                }
            }
            Self::LastArg => drop(call.args.pop()),
            Self::EmptyArg(at) => call.args.get_mut(*at).into_iter().for_each(Vec::clear),
            Self::ShortArg(at) => {
                call.args.get_mut(*at).into_iter().for_each(|arg| arg.truncate(arg.len() / 2));
            }
            Self::LastKey => drop(call.keys.pop()),
        }
    }
}

fn changes(call: &Call) -> Vec<Change> {
    let mut changes: Vec<_> = call.keyspace.keys.keys().cloned().map(Change::Key).collect();
    for (key, entry) in &call.keyspace.keys {
        changes
            .extend(parts(&entry.content).into_iter().map(|part| Change::Part(key.clone(), part)));
        if entry.expires_at_ms.is_some() {
            changes.push(Change::Expiry(key.clone()));
        }
    }
    changes.extend(call.args.iter().map(|_| Change::LastArg));
    changes.extend((0..call.args.len()).map(Change::EmptyArg));
    changes.extend((0..call.args.len()).map(Change::ShortArg));
    changes.extend(call.keys.iter().map(|_| Change::LastKey));
    changes
}

fn parts(content: &Content) -> Vec<Vec<u8>> {
    match content {
        Content::Text(_) => Vec::new(),
        Content::Hash(parts) | Content::Zset(parts) => parts.keys().cloned().collect(),
        Content::Set(members) => members.iter().cloned().collect(),
        Content::Stream(entries) => entries.iter().map(|(id, _)| id.clone()).collect(),
    }
}

/// A large keyspace has thousands of parts to leave out.
const TRIES_MAX: usize = 20_000;
