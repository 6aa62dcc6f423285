//! Spoils a world: what a crash, a foreign writer or an older version may have left behind.

use std::collections::{BTreeMap, BTreeSet};

use selvedge_lua::host::InnerCommand;

use crate::hostile::dice::Dice;
use crate::hostile::value::{hostile_score, hostile_value};
use crate::hostile::world::{Content, Entry, World};

/// Spoils one thing, mostly something that the call touches.
pub fn spoil_world(dice: &mut Dice, world: &mut World, touched: &[InnerCommand]) {
    let Some(target) = target(dice, world, touched) else { return };
    if let Some(field) = &target.field
        && dice.percent(50)
    {
        spoil_field(dice, world, &target.key, field);
        return;
    }
    match dice.below(10) {
        0 | 1 => drop(world.keys.remove(&target.key)),
        2..=4 => {
            let content = foreign(dice, world.keys.get(&target.key));
            world.keys.insert(target.key, Entry { content, expires_at_ms: None });
        }
        5 => {
            if let Some(entry) = world.keys.get_mut(&target.key) {
                let now_ms = i64::try_from(world.now_us / 1000).unwrap_or(i64::MAX);
                entry.expires_at_ms = Some(now_ms + 1 + i64::from(dice.percent(50)) * 100_000);
            }
        }
        _ => match world.keys.get_mut(&target.key) {
            Some(entry) => spoil_content(dice, &mut entry.content),
            None => {
                let content = foreign(dice, None);
                world.keys.insert(target.key, Entry { content, expires_at_ms: None });
            }
        },
    }
}

struct Target {
    key: Vec<u8>,
    field: Option<Vec<u8>>,
}

fn target(dice: &mut Dice, world: &World, touched: &[InnerCommand]) -> Option<Target> {
    let commands: Vec<_> = touched
        .iter()
        .map(|command| command.argv.as_slice())
        .filter(|argv| argv.len() > 1 && !argv[0].eq_ignore_ascii_case(b"PUBLISH"))
        .collect();
    if dice.percent(75)
        && let Some(argv) = dice.pick(&commands)
    {
        let by_field = [&b"HGET"[..], b"HMGET", b"HSET", b"HEXISTS", b"HINCRBY", b"HDEL"]
            .iter()
            .any(|name| argv[0].eq_ignore_ascii_case(name));
        let field = if by_field { dice.pick(&argv[2..]).cloned() } else { None };
        return Some(Target { key: argv[1].clone(), field });
    }
    let keys: Vec<_> = world.keys.keys().collect();
    dice.pick(&keys).map(|key| Target { key: (*key).clone(), field: None })
}

fn spoil_field(dice: &mut Dice, world: &mut World, key: &[u8], field: &[u8]) {
    let empty = || Entry { content: Content::Hash(BTreeMap::new()), expires_at_ms: None };
    let entry = world.keys.entry(key.to_vec()).or_insert_with(empty);
    if let Content::Hash(fields) = &mut entry.content {
        if dice.percent(25) {
            fields.remove(field);
        } else {
            fields.insert(field.to_vec(), hostile_value(dice));
        }
    }
}

fn spoil_content(dice: &mut Dice, content: &mut Content) {
    match content {
        Content::Text(text) => *text = hostile_value(dice),
        Content::Hash(fields) => {
            let names: Vec<_> = fields.keys().cloned().collect();
            let Some(name) = dice.pick(&names).cloned() else { return };
            match dice.below(6) {
                0 => drop(fields.remove(&name)),
                1 => drop(fields.insert(name, Vec::new())),
                2 => {
                    // Half a record: a crash of some other writer.
                    fields.retain(|_, _| dice.percent(50));
                }
                _ => drop(fields.insert(name, hostile_value(dice))),
            }
        }
        Content::Set(members) => {
            if dice.percent(30) {
                members.pop_first();
            }
            for _ in 0..=dice.below(3) {
                members.insert(hostile_value(dice));
            }
        }
        Content::Zset(members) => {
            if dice.percent(20) {
                members.pop_first();
            }
            let names: Vec<_> = members.keys().cloned().collect();
            let member = match dice.pick(&names) {
                Some(known) if dice.percent(60) => known.clone(),
                _ => hostile_value(dice),
            };
            members.insert(member, hostile_score(dice).into_bytes());
        }
        Content::Stream(entries) => {
            if let Some((_, fields)) = entries.first_mut() {
                let at = dice.below(fields.len());
                if let Some(field) = fields.get_mut(at) {
                    *field = hostile_value(dice);
                }
            }
        }
    }
}

/// A value of another type than the key holds, or of any type where it holds nothing.
fn foreign(dice: &mut Dice, present: Option<&Entry>) -> Content {
    let kinds = [
        Content::Text(hostile_value(dice)),
        Content::Hash(BTreeMap::from([(b"x".to_vec(), hostile_value(dice))])),
        Content::Set(BTreeSet::from([hostile_value(dice)])),
        Content::Zset(BTreeMap::from([(hostile_value(dice), b"5".to_vec())])),
        Content::Stream(vec![(b"1-1".to_vec(), vec![b"x".to_vec(), b"y".to_vec()])]),
    ];
    let same = |kind: &Content| {
        present.is_some_and(|entry| {
            std::mem::discriminant(&entry.content) == std::mem::discriminant(kind)
        })
    };
    let others: Vec<_> = kinds.into_iter().filter(|kind| !same(kind)).collect();
    dice.pick(&others).cloned().unwrap_or_else(|| Content::Text(Vec::new()))
}
