//! What is damaged, and how.

use std::collections::BTreeMap;
use std::fmt;

use selvedge::store::Store;
use selvedge_core::command::Command;
use selvedge_core::partition::slot;
use selvedge_core::value::Value;
use selvedge_sim::search::Draws;

/// A kind of damage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// The key is deleted.
    Delete,
    /// It holds another type.
    Retype,
    /// One field, member or score is another.
    Edit,
    /// Half of it is gone.
    Truncate,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Delete => "delete",
            Self::Retype => "retype",
            Self::Edit => "edit",
            Self::Truncate => "truncate",
        })
    }
}

/// One damage: the commands that do it.
#[derive(Clone, Debug)]
pub struct Wound {
    /// Its kind.
    pub kind: Kind,
    /// The key.
    pub key: String,
    /// The commands.
    pub commands: Vec<Vec<Vec<u8>>>,
}

/// What an edit writes.
const VALUES: [&str; 6] = ["", "junk", "-1", "7", "99999999999999", "0"];

impl Wound {
    /// Draws a damage: first the sort of the key, so that rare ones have their turn.
    ///
    /// # Errors
    /// When the store does not answer.
    pub async fn draw(store: &Store, draws: &mut Draws) -> Result<Self, String> {
        let mut sorts: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for key in keys(store).await? {
            sorts.entry(sort_of(&key)).or_default().push(key);
        }
        loop {
            let sorts: Vec<&Vec<String>> = sorts.values().collect();
            let Some(key) = draws.pick(&sorts).and_then(|keys| draws_from(draws, keys)) else {
                return Err("nothing to damage".to_owned());
            };
            let kinds = [Kind::Delete, Kind::Retype, Kind::Edit, Kind::Truncate];
            let Some(kind) = draws.pick(&kinds).copied() else { continue };
            let commands = commands(store, draws, kind, &key).await?;
            if !commands.is_empty() {
                return Ok(Self { kind, key, commands });
            }
        }
    }

    /// Does it.
    ///
    /// # Errors
    /// When the store does not answer.
    pub async fn inflict(&self, store: &Store) -> Result<(), String> {
        for argv in &self.commands {
            send(store, &self.key, argv.clone()).await?;
        }
        Ok(())
    }
}

impl fmt::Display for Wound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = |argv: &Vec<Vec<u8>>| {
            argv.iter().map(|word| word.escape_ascii().to_string()).collect::<Vec<_>>().join(" ")
        };
        f.write_str(&self.commands.iter().map(words).collect::<Vec<_>>().join("; "))
    }
}

fn draws_from(draws: &mut Draws, keys: &[String]) -> Option<String> {
    draws.pick(keys).cloned()
}

/// The name of a key without ids.
pub(super) fn sort_of(key: &str) -> String {
    let mut parts: Vec<String> = Vec::new();
    for part in key.split(':') {
        let is_id = part.len() == 36 && part.matches('-').count() == 4;
        let is_number = part.trim_end_matches('}').parse::<u64>().is_ok();
        parts.push(if is_id || is_number { "*".to_owned() } else { part.to_owned() });
    }
    parts.join(":")
}

async fn keys(store: &Store) -> Result<Vec<String>, String> {
    let (mut cursor, mut found) = ("0".to_owned(), Vec::new());
    loop {
        let words = ["SCAN", &cursor, "MATCH", "ff:*", "COUNT", "1000"];
        let argv = words.map(|word| word.as_bytes().to_vec()).to_vec();
        let reply = send(store, "", argv).await?;
        let Value::Array(parts) = reply else { return Err("SCAN answers no array".to_owned()) };
        let [next, Value::Array(page)] = parts.as_slice() else { return Ok(found) };
        found.extend(page.iter().map(shown));
        cursor = shown(next);
        if cursor == "0" {
            found.sort();
            found.dedup();
            return Ok(found);
        }
    }
}

fn shown(value: &Value) -> String {
    match value {
        Value::Bulk(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        Value::Status(text) => text.clone(),
        Value::Int(number) => number.to_string(),
        Value::Nil | Value::Error(_) | Value::Array(_) => String::new(),
    }
}

pub(super) async fn send(store: &Store, key: &str, argv: Vec<Vec<u8>>) -> Result<Value, String> {
    let command = Command { slot: slot(key.as_bytes()), argv, reads: false };
    store.command(command).await.map_err(|error| error.to_string())
}

async fn read(store: &Store, key: &str, words: &[&str]) -> Result<Vec<String>, String> {
    let mut argv = vec![words[0].as_bytes().to_vec(), key.as_bytes().to_vec()];
    argv.extend(words[1..].iter().map(|word| word.as_bytes().to_vec()));
    Ok(match send(store, key, argv).await? {
        Value::Array(items) => items.iter().map(shown).collect(),
        one
        @ (Value::Nil | Value::Int(_) | Value::Bulk(_) | Value::Status(_) | Value::Error(_)) => {
            vec![shown(&one)]
        }
    })
}

/// The commands that do this damage; none if the value has nothing that could be damaged so.
async fn commands(
    store: &Store,
    draws: &mut Draws,
    kind: Kind,
    key: &str,
) -> Result<Vec<Vec<Vec<u8>>>, String> {
    let is = read(store, key, &["TYPE"]).await?.pop().unwrap_or_default();
    let made = match kind {
        Kind::Delete => vec![vec!["DEL".to_owned()]],
        Kind::Retype if is == "string" => {
            vec![vec!["DEL".into()], vec!["SADD".into(), "junk".into()]]
        }
        Kind::Retype => vec![vec!["SET".into(), "junk".into()]],
        Kind::Edit => edit(store, draws, key, &is).await?,
        Kind::Truncate => truncate(store, key, &is).await?,
    };
    let with_key = |mut words: Vec<String>| {
        words.insert(1, key.to_owned());
        words.into_iter().map(String::into_bytes).collect()
    };
    Ok(made.into_iter().map(with_key).collect())
}

async fn edit(
    store: &Store,
    draws: &mut Draws,
    key: &str,
    is: &str,
) -> Result<Vec<Vec<String>>, String> {
    let value = draws.pick(&VALUES).copied().unwrap_or("junk").to_owned();
    let list = match is {
        "hash" => read(store, key, &["HGETALL"]).await?.into_iter().step_by(2).collect(),
        "zset" => read(store, key, &["ZRANGE", "0", "-1"]).await?,
        "set" => read(store, key, &["SMEMBERS"]).await?,
        "string" => return Ok(vec![vec!["SET".into(), value]]),
        _ => Vec::new(),
    };
    let Some(member) = draws.pick(&list).cloned() else { return Ok(Vec::new()) };
    Ok(match is {
        "hash" if draws.percent(30) => vec![vec!["HDEL".into(), member]],
        "hash" => vec![vec!["HSET".into(), member, value]],
        "zset" if draws.percent(50) => vec![vec!["ZREM".into(), member]],
        "zset" => vec![vec!["ZADD".into(), "99999999999999".into(), member]],
        _ if draws.percent(50) => vec![vec!["SREM".into(), member]],
        _ => vec![vec!["SREM".into(), member], vec!["SADD".into(), "junk".into()]],
    })
}

async fn truncate(store: &Store, key: &str, is: &str) -> Result<Vec<Vec<String>>, String> {
    let (name, list) = match is {
        "hash" => {
            let flat = read(store, key, &["HGETALL"]).await?;
            ("HDEL", flat.into_iter().step_by(2).collect::<Vec<_>>())
        }
        "zset" => ("ZREM", read(store, key, &["ZRANGE", "0", "-1"]).await?),
        "set" => ("SREM", read(store, key, &["SMEMBERS"]).await?),
        "string" => {
            let whole = read(store, key, &["GET"]).await?.pop().unwrap_or_default();
            let half: String = whole.chars().take(whole.chars().count() / 2).collect();
            return Ok(vec![vec!["SET".into(), half]]);
        }
        _ => return Ok(vec![vec!["DEL".into()]]),
    };
    let half = list.len().div_ceil(2);
    let mut words = vec![name.to_owned()];
    words.extend(list.into_iter().take(half));
    Ok(if half == 0 { Vec::new() } else { vec![words] })
}
