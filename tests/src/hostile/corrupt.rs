//! Corrupts a keyspace, as a crash, a foreign writer or an older version may have.

use std::collections::{BTreeMap, BTreeSet};

use selvedge_lua::host::InnerCommand;

use crate::hostile::hostile_value::{hostile_score, hostile_value};
use crate::hostile::keyspace_data::{Content, Entry, KeyspaceData};
use selvedge_sim::search::Draws;

/// Spoils one thing, mostly something that the call touches.
pub fn corrupt_keyspace(draws: &mut Draws, keyspace: &mut KeyspaceData, touched: &[InnerCommand]) {
    let Some(target) = target(draws, keyspace, touched) else { return };
    if let Some(field) = &target.field
        && draws.percent(50)
    {
        spoil_field(draws, keyspace, &target.key, field);
        return;
    }
    match draws.index(10) {
        0 | 1 => drop(keyspace.keys.remove(&target.key)),
        2..=4 => {
            let content = foreign(draws, keyspace.keys.get(&target.key));
            keyspace.keys.insert(target.key, Entry { content, expires_at_ms: None });
        }
        5 => {
            if let Some(entry) = keyspace.keys.get_mut(&target.key) {
                let now_ms = i64::try_from(keyspace.now_us / 1000).unwrap_or(i64::MAX);
                entry.expires_at_ms = Some(now_ms + 1 + i64::from(draws.percent(50)) * 100_000);
            }
        }
        _ => match keyspace.keys.get_mut(&target.key) {
            Some(entry) => spoil_content(draws, &mut entry.content),
            None => {
                let content = foreign(draws, None);
                keyspace.keys.insert(target.key, Entry { content, expires_at_ms: None });
            }
        },
    }
}

struct Target {
    key: Vec<u8>,
    field: Option<Vec<u8>>,
}

fn target(draws: &mut Draws, keyspace: &KeyspaceData, touched: &[InnerCommand]) -> Option<Target> {
    let commands: Vec<_> = touched
        .iter()
        .map(|command| command.argv.as_slice())
        .filter(|argv| argv.len() > 1 && !argv[0].eq_ignore_ascii_case(b"PUBLISH"))
        .collect();
    if draws.percent(75)
        && let Some(argv) = draws.pick(&commands)
    {
        let by_field = [&b"HGET"[..], b"HMGET", b"HSET", b"HEXISTS", b"HINCRBY", b"HDEL"]
            .iter()
            .any(|name| argv[0].eq_ignore_ascii_case(name));
        let field = if by_field { draws.pick(&argv[2..]).cloned() } else { None };
        return Some(Target { key: argv[1].clone(), field });
    }
    let keys: Vec<_> = keyspace.keys.keys().collect();
    draws.pick(&keys).map(|key| Target { key: (*key).clone(), field: None })
}

fn spoil_field(draws: &mut Draws, keyspace: &mut KeyspaceData, key: &[u8], field: &[u8]) {
    let empty = || Entry { content: Content::Hash(BTreeMap::new()), expires_at_ms: None };
    let entry = keyspace.keys.entry(key.to_vec()).or_insert_with(empty);
    if let Content::Hash(fields) = &mut entry.content {
        if draws.percent(25) {
            fields.remove(field);
        } else {
            fields.insert(field.to_vec(), hostile_value(draws));
        }
    }
}

fn spoil_content(draws: &mut Draws, content: &mut Content) {
    match content {
        Content::Text(text) => *text = hostile_value(draws),
        Content::Hash(fields) => {
            let names: Vec<_> = fields.keys().cloned().collect();
            let Some(name) = draws.pick(&names).cloned() else { return };
            match draws.index(6) {
                0 => drop(fields.remove(&name)),
                1 => drop(fields.insert(name, Vec::new())),
                2 => {
                    // Half a record: a crash of some other writer.
                    fields.retain(|_, _| draws.percent(50));
                }
                _ => drop(fields.insert(name, hostile_value(draws))),
            }
        }
        Content::Set(members) => {
            if draws.percent(30) {
                members.pop_first();
            }
            for _ in 0..=draws.index(3) {
                members.insert(hostile_value(draws));
            }
        }
        Content::Zset(members) => {
            if draws.percent(20) {
                members.pop_first();
            }
            let names: Vec<_> = members.keys().cloned().collect();
            let member = match draws.pick(&names) {
                Some(known) if draws.percent(60) => known.clone(),
                _ => hostile_value(draws),
            };
            members.insert(member, hostile_score(draws).into_bytes());
        }
        Content::Stream(entries) => {
            if let Some((_, fields)) = entries.first_mut() {
                let at = draws.index(fields.len());
                if let Some(field) = fields.get_mut(at) {
                    *field = hostile_value(draws);
                }
            }
        }
    }
}

/// A value of another type than the key holds, or of any type where it holds nothing.
fn foreign(draws: &mut Draws, present: Option<&Entry>) -> Content {
    let kinds = [
        Content::Text(hostile_value(draws)),
        Content::Hash(BTreeMap::from([(b"x".to_vec(), hostile_value(draws))])),
        Content::Set(BTreeSet::from([hostile_value(draws)])),
        Content::Zset(BTreeMap::from([(hostile_value(draws), b"5".to_vec())])),
        Content::Stream(vec![(b"1-1".to_vec(), vec![b"x".to_vec(), b"y".to_vec()])]),
    ];
    let same = |kind: &Content| {
        present.is_some_and(|entry| {
            std::mem::discriminant(&entry.content) == std::mem::discriminant(kind)
        })
    };
    let others: Vec<_> = kinds.into_iter().filter(|kind| !same(kind)).collect();
    draws.pick(&others).cloned().unwrap_or_else(|| Content::Text(Vec::new()))
}
