//! Checks what a case expects of the keyspace after a call.

use selvedge_core::value::Value;

use crate::connection::Message;
use crate::spec::keyspace::{Keyspace, ask, texts};
use crate::spec::matcher::Matcher;
use crate::spec::report::{show, show_reply, show_text};
use crate::spec::store::SpecStore;
use crate::spec::syntax::{Expectation, Pairs, Pattern};
use crate::spec::word::Word;

/// What an act left behind, beyond the keyspace.
#[derive(Debug)]
pub struct Outcome {
    /// What it answered.
    pub reply: Value,
    /// The keyspace before it, where an expectation asks for it.
    pub before: Option<Keyspace>,
}

/// Judges one expectation: `Ok(None)` if it holds, else what is there instead. An `Err` means that
/// the question could not be answered.
pub fn judge(
    store: &mut dyn SpecStore,
    matcher: &mut Matcher<'_, '_>,
    outcome: &Outcome,
    expectation: &Expectation,
) -> Result<Option<String>, String> {
    let mut judge = Judge { store, matcher };
    match expectation {
        Expectation::Reply(patterns) => judge.reply(patterns, &outcome.reply),
        Expectation::Raw(pattern) => {
            let holds = judge.matcher.fits(pattern, &outcome.reply)?;
            Ok((!holds).then(|| show_reply(&outcome.reply)))
        }
        Expectation::Error(prefix) => judge.error(prefix, &outcome.reply),
        Expectation::Hash(key, fields) => judge.hash(key, fields, false),
        Expectation::HashExactly(key, fields) => judge.hash(key, fields, true),
        Expectation::AbsentField(key, fields) => judge.absent_field(key, fields),
        Expectation::SetExactly(key, members) => judge.set_exactly(key, members),
        Expectation::Zset(key, members) => judge.zset(key, members),
        Expectation::Holds(key, members) => judge.holds(key, members),
        Expectation::Lacks(key, members) => judge.lacks(key, members),
        Expectation::Text(key, pattern) => judge.string(key, pattern),
        Expectation::Stream(key, entries) => judge.stream(key, entries),
        Expectation::LastEntry(key, fields) => judge.last_entry(key, fields),
        Expectation::Ttl(key, ms) => judge.ttl(key, ms),
        Expectation::NoTtl(keys) => {
            judge.each(keys, &[b"PTTL"], |left| matches!(left, Value::Int(-1)))
        }
        Expectation::Gone(keys) => {
            judge.each(keys, &[b"EXISTS"], |there| matches!(there, Value::Int(0)))
        }
        Expectation::Exists(keys) => {
            judge.each(keys, &[b"EXISTS"], |there| matches!(there, Value::Int(1)))
        }
        Expectation::Unchanged(but) => judge.unchanged(but, outcome.before.as_ref()),
        // All messages of an act are judged together, by the runner.
        Expectation::Published(_) | Expectation::Hinted(_) => Ok(None),
    }
}

/// Judges the messages of an act against all its `published` or `hinted` lines together.
pub fn judge_messages(
    matcher: &mut Matcher<'_, '_>,
    expected: &[&(Word, Pattern)],
    messages: &[Message],
) -> Result<Option<String>, String> {
    let mut holds = expected.len() == messages.len();
    for ((channel, payload), message) in expected.iter().zip(messages) {
        holds &= matcher.scope.value(channel)? == message.channel
            && matcher.text_fits(payload, &message.payload)?;
    }
    let said = |message: &Message| {
        format!("published {} {}", show_text(&message.channel), show_text(&message.payload))
    };
    Ok((!holds).then(|| match messages {
        [] => "nothing published".to_owned(),
        _ => messages.iter().map(said).collect::<Vec<_>>().join(", "),
    }))
}

struct Judge<'j, 's, 'a> {
    store: &'j mut dyn SpecStore,
    matcher: &'j mut Matcher<'s, 'a>,
}

type MatchResult = Result<Option<String>, String>;

impl Judge<'_, '_, '_> {
    fn reply(&mut self, patterns: &[Pattern], reply: &Value) -> MatchResult {
        let holds = if let Value::Array(elements) = reply {
            self.matcher.sequence_fits(patterns, elements)?
        } else {
            false
        };
        Ok((!holds).then(|| show_reply(reply)))
    }

    fn error(&mut self, prefix: &[Word], reply: &Value) -> MatchResult {
        let wanted = self.matcher.scope.values(prefix)?.join(&b' ');
        let holds = matches!(reply, Value::Error(text) if text.as_bytes().starts_with(&wanted));
        Ok((!holds).then(|| show_reply(reply)))
    }

    fn hash(&mut self, key: &Word, wanted: &Pairs, exactly: bool) -> MatchResult {
        let fields = pairs(texts(self.read(key, &[b"HGETALL"], &[])?));
        let holds = self.fields_fit(wanted, &fields)? && (!exactly || fields.len() == wanted.len());
        if holds {
            return Ok(None);
        }
        // All fields of a core would bury the one that matters.
        let mut relevant = fields;
        if !exactly {
            let names = self.names(wanted)?;
            relevant.retain(|(name, _)| names.contains(name));
        }
        Ok(Some(format!("hash {} {}", show_text(&self.value(key)?), show_pairs(&relevant))))
    }

    fn absent_field(&mut self, key: &Word, fields: &[Word]) -> MatchResult {
        let hash = pairs(texts(self.read(key, &[b"HGETALL"], &[])?));
        let unwanted = self.matcher.scope.values(fields)?;
        let found: Vec<_> = hash.into_iter().filter(|(name, _)| unwanted.contains(name)).collect();
        Ok((!found.is_empty()).then(|| show_pairs(&found)))
    }

    fn set_exactly(&mut self, key: &Word, wanted: &[Pattern]) -> MatchResult {
        let members = self.read(key, &[b"SMEMBERS"], &[])?;
        let holds = if let Value::Array(members) = &members {
            self.matcher.unordered_fits(wanted, members)?
        } else {
            false
        };
        Ok((!holds).then(|| show(&members)))
    }

    fn zset(&mut self, key: &Word, wanted: &Pairs) -> MatchResult {
        let members = self.scored(key)?;
        let mut holds = members.len() == wanted.len();
        for (name, score) in wanted {
            let name = self.value(name)?;
            let found = members.iter().find(|(member, _)| *member == name);
            holds &= match found {
                Some((_, got)) => self.matcher.score_fits(score, got)?,
                None => false,
            };
        }
        Ok((!holds).then(|| show_pairs(&members)))
    }

    fn holds(&mut self, key: &Word, wanted: &[(Word, Option<Pattern>)]) -> MatchResult {
        let members = self.members(key)?;
        let mut holds = true;
        for (name, score) in wanted {
            let name = self.value(name)?;
            let found = members.iter().find(|(member, _)| *member == name);
            holds &= match (found, score) {
                (Some((_, got)), Some(score)) => self.matcher.score_fits(score, got)?,
                (found, None) => found.is_some(),
                (None, Some(_)) => false,
            };
        }
        Ok((!holds).then(|| show_pairs(&members)))
    }

    fn lacks(&mut self, key: &Word, unwanted: &[Word]) -> MatchResult {
        let unwanted = self.matcher.scope.values(unwanted)?;
        let mut members = self.members(key)?;
        members.retain(|(member, _)| unwanted.contains(member));
        Ok((!members.is_empty()).then(|| show_pairs(&members)))
    }

    fn string(&mut self, key: &Word, pattern: &Pattern) -> MatchResult {
        let got = self.read(key, &[b"GET"], &[])?;
        Ok((!self.matcher.fits(pattern, &got)?).then(|| show(&got)))
    }

    fn stream(&mut self, key: &Word, wanted: &[Pairs]) -> MatchResult {
        let entries = self.entries(key)?;
        let mut holds = entries.len() == wanted.len();
        for (wanted, entry) in wanted.iter().zip(&entries) {
            holds &= wanted.len() == entry.len() && self.fields_fit(wanted, entry)?;
        }
        let shown = |entry: &Fields| format!("({})", show_pairs(entry));
        Ok((!holds).then(|| match entries.as_slice() {
            [] => "no entry".to_owned(),
            _ => entries.iter().map(shown).collect::<Vec<_>>().join(" "),
        }))
    }

    fn last_entry(&mut self, key: &Word, wanted: &Pairs) -> MatchResult {
        let Some(last) = self.entries(key)?.pop() else { return Ok(Some("no entry".to_owned())) };
        Ok((!self.fields_fit(wanted, &last)?).then(|| show_pairs(&last)))
    }

    fn ttl(&mut self, key: &Word, ms: &Word) -> MatchResult {
        let wanted = self.value(ms)?;
        let wanted: i64 = str::from_utf8(&wanted)
            .ok()
            .and_then(|text| text.parse().ok())
            .ok_or_else(|| format!("{} is no duration", show_text(&wanted)))?;
        let left = self.read(key, &[b"PTTL"], &[])?;
        let holds =
            matches!(left, Value::Int(left) if (wanted - TTL_SLACK_MS..=wanted).contains(&left));
        Ok((!holds).then(|| show(&left)))
    }

    /// Checks the same of several keys; returns the first that differs.
    fn each(&mut self, keys: &[Word], command: &[&[u8]], holds: fn(&Value) -> bool) -> MatchResult {
        for key in keys {
            let answer = self.read(key, command, &[])?;
            if !holds(&answer) {
                let command = String::from_utf8_lossy(command[0]).into_owned();
                return Ok(Some(format!(
                    "{command} {} {}",
                    show_text(&self.value(key)?),
                    show(&answer)
                )));
            }
        }
        Ok(None)
    }

    fn unchanged(&mut self, but: &[Word], before: Option<&Keyspace>) -> MatchResult {
        let before = before.ok_or("nobody looked at the keyspace before")?;
        let but = self.matcher.scope.values(but)?;
        let differences = before.differences(&Keyspace::read(self.store)?, &but);
        Ok((!differences.is_empty()).then(|| differences.join("\n            ")))
    }

    fn fields_fit(&mut self, wanted: &Pairs, fields: &Fields) -> Result<bool, String> {
        for (name, pattern) in wanted {
            let name = self.value(name)?;
            let found = fields.iter().find(|(field, _)| *field == name);
            let holds = match found {
                Some((_, value)) => self.matcher.text_fits(pattern, value)?,
                None => false,
            };
            if !holds {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn scored(&mut self, key: &Word) -> Result<Fields, String> {
        Ok(pairs(texts(self.read(key, &[b"ZRANGE"], &[b"0", b"-1", b"WITHSCORES"])?)))
    }

    /// Members of a set or a sorted set; those of a set have no score.
    fn members(&mut self, key: &Word) -> Result<Fields, String> {
        let kind = self.read(key, &[b"TYPE"], &[])?;
        if kind == Value::Status("set".to_owned()) {
            let members = texts(self.read(key, &[b"SMEMBERS"], &[])?);
            return Ok(members.into_iter().map(|member| (member, Vec::new())).collect());
        }
        self.scored(key)
    }

    fn entries(&mut self, key: &Word) -> Result<Vec<Fields>, String> {
        let Value::Array(entries) = self.read(key, &[b"XRANGE"], &[b"-", b"+"])? else {
            return Ok(Vec::new());
        };
        let fields = |entry| {
            let Value::Array(mut parts) = entry else { return None };
            parts.pop().map(texts).map(pairs)
        };
        Ok(entries.into_iter().filter_map(fields).collect())
    }

    fn read(&mut self, key: &Word, before: &[&[u8]], after: &[&[u8]]) -> Result<Value, String> {
        let key = self.value(key)?;
        ask(self.store, &[before, &[&key], after].concat())
    }

    fn value(&self, word: &Word) -> Result<Vec<u8>, String> {
        self.matcher.scope.value(word)
    }

    fn names(&self, pairs: &Pairs) -> Result<Vec<Vec<u8>>, String> {
        pairs.iter().map(|(name, _)| self.value(name)).collect()
    }
}

type Fields = Vec<(Vec<u8>, Vec<u8>)>;

fn pairs(flat: Vec<Vec<u8>>) -> Fields {
    let mut flat = flat.into_iter();
    std::iter::from_fn(|| Some((flat.next()?, flat.next()?))).collect()
}

fn show_pairs(pairs: &Fields) -> String {
    if pairs.is_empty() {
        return "(none)".to_owned();
    }
    let pair = |(name, value): &(Vec<u8>, Vec<u8>)| match value.as_slice() {
        [] => format!("{}=", show_text(name)),
        _ => format!("{}={}", show_text(name), show_text(value)),
    };
    pairs.iter().map(pair).collect::<Vec<_>>().join(" ")
}

/// What may pass between the setting of an expiry and our look at it.
const TTL_SLACK_MS: i64 = 2_000;
