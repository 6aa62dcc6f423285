//! Reads spec files.

use std::fs;
use std::path::Path;

use crate::spec::line_words::Words;
use crate::spec::syntax::{
    Act, Action, Case, Changes, Expect, Expectation, Pattern, Positions, SpecFile,
};
use crate::spec::word::Word;

/// Reads and parses one file.
pub fn read(path: &Path) -> Result<SpecFile, String> {
    let text = fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    parse(path, &text)
}

/// Parses the text of one file; an error names the line.
pub fn parse(path: &Path, text: &str) -> Result<SpecFile, String> {
    let mut file = SpecFile { path: path.to_owned(), ..SpecFile::default() };
    let mut section = Section::Top;
    for (index, source) in text.lines().enumerate() {
        let line = index + 1;
        parse_line(&mut file, &mut section, line, source)
            .map_err(|why| format!("{}:{line}: {why}\n  {}", path.display(), source.trim()))?;
    }
    Ok(file)
}

/// Which block an indented line belongs to.
#[derive(Clone, Copy)]
enum Section {
    Top,
    Keys,
    Args,
    Case,
    Setup,
}

fn parse_line(
    file: &mut SpecFile,
    section: &mut Section,
    line: usize,
    source: &str,
) -> Result<(), String> {
    let indented = source.starts_with([' ', '\t']);
    if !indented && let Some((block, name)) = block_with_sentence(source) {
        *section = block;
        let cases = if matches!(block, Section::Case) { &mut file.cases } else { &mut file.setups };
        cases.push(Case { name: name.to_owned(), line, acts: Vec::new() });
        return Ok(());
    }
    let mut words = Words::of(source)?;
    let Some(first) = words.next() else { return Ok(()) };
    if !indented {
        return parse_top(file, section, &first, words);
    }
    match section {
        Section::Top => Err("an indented line outside of any block".to_owned()),
        Section::Keys => parse_position(&mut file.keys, &first, words),
        Section::Args => parse_position(&mut file.args, &first, words),
        Section::Case => parse_step(&mut file.cases, line, source, &first, words),
        Section::Setup => parse_step(&mut file.setups, line, source, &first, words),
    }
}

fn block_with_sentence(source: &str) -> Option<(Section, &str)> {
    let (word, sentence) = source.trim_end().split_once(' ')?;
    match word {
        "case" => Some((Section::Case, sentence.trim())),
        "setup" => Some((Section::Setup, sentence.trim())),
        _ => None,
    }
}

fn parse_top(
    file: &mut SpecFile,
    section: &mut Section,
    first: &Word,
    mut words: Words,
) -> Result<(), String> {
    *section = Section::Top;
    match first.bare() {
        Some("function") => file.function = Some(words.name()?),
        Some("keys") => *section = Section::Keys,
        Some("args") => *section = Section::Args,
        Some("define") => file.defines.push((words.name()?, words.word()?)),
        _ => return Err("not a block: function, keys, args, define, setup or case".to_owned()),
    }
    words.end()
}

fn parse_position(positions: &mut Positions, first: &Word, mut words: Words) -> Result<(), String> {
    let name = first.bare().ok_or("a position needs a plain name")?;
    if name == "..." {
        positions.rest = words.rest();
        return Ok(());
    }
    let value = words.next().unwrap_or_default();
    positions.named.push((name.to_owned(), value));
    words.end()
}

fn parse_step(
    cases: &mut [Case],
    line: usize,
    source: &str,
    first: &Word,
    mut words: Words,
) -> Result<(), String> {
    let case = cases.last_mut().ok_or("no case yet")?;
    let keyword = first.bare().ok_or("a line starts with a plain keyword")?;
    let text = source.trim().to_owned();
    if let Some(action) = parse_action(keyword, &mut words)? {
        words.end()?;
        case.acts.push(Act { line, text, action, expectations: Vec::new() });
        return Ok(());
    }
    let expectation = parse_expectation(keyword, &mut words)?;
    words.end()?;
    let act = case.acts.last_mut().ok_or("nothing was done yet that this could follow from")?;
    act.expectations.push(Expect { line, text, expectation });
    Ok(())
}

fn parse_action(keyword: &str, words: &mut Words) -> Result<Option<Action>, String> {
    Ok(Some(match keyword {
        "run" => Action::Run(words.rest()),
        "read" => Action::Read(words.name()?, words.rest()),
        "call" => Action::Call(None, parse_changes(words)?),
        "do" => Action::Call(Some(words.name()?), parse_changes(words)?),
        "fcall" => {
            let function = words.name()?;
            let all = words.rest();
            let split = all.iter().position(|word| word.bare() == Some("--"));
            let split = split.ok_or("fcall needs -- between keys and arguments")?;
            Action::Fcall { function, keys: all[..split].to_vec(), args: all[split + 1..].to_vec() }
        }
        "perform" => Action::Perform(words.sentence()?),
        "set" => Action::Set(words.name()?, words.word()?),
        "default" => Action::Default(words.name()?, words.word()?),
        _ => return Ok(None),
    }))
}

fn parse_changes(words: &mut Words) -> Result<Changes, String> {
    let mut changes = Changes::default();
    while let Some(word) = words.next() {
        match word.bare() {
            Some("omit") => changes.omitted = words.names_until_keyword()?,
            Some("extra") => changes.extra_args = Some(words.until_keyword()),
            Some("extra-keys") => changes.extra_keys = Some(words.until_keyword()),
            _ => {
                let (name, value) = word.split_pair().ok_or("a change is name=value")?;
                let name = name.bare().ok_or("a position has a plain name")?.to_owned();
                changes.values.push((name, value));
            }
        }
    }
    Ok(changes)
}

fn parse_expectation(keyword: &str, words: &mut Words) -> Result<Expectation, String> {
    Ok(match keyword {
        "reply" => Expectation::Reply(reply_patterns(words)?),
        "raw" => Expectation::Raw(words.pattern()?),
        "error" => Expectation::Error(words.rest()),
        "hash" => Expectation::Hash(words.word()?, words.pairs()?),
        "field" => {
            let (key, field) = (words.word()?, words.word()?);
            if words.word()?.bare() != Some("=") {
                return Err("field KEY name = value, with spaces".to_owned());
            }
            Expectation::Hash(key, vec![(field, words.pattern()?)])
        }
        "hash-exactly" => Expectation::HashExactly(words.word()?, words.pairs()?),
        "absent-field" => Expectation::AbsentField(words.word()?, words.rest()),
        "set-exactly" => Expectation::SetExactly(words.word()?, words.patterns()?),
        "zset" => Expectation::Zset(words.word()?, words.pairs()?),
        "holds" => Expectation::Holds(words.word()?, words.members()?),
        "lacks" => Expectation::Lacks(words.word()?, words.rest()),
        "string" => Expectation::Text(words.word()?, words.pattern()?),
        "stream" => Expectation::Stream(words.word()?, words.groups()?),
        "last-entry" => Expectation::LastEntry(words.word()?, words.pairs()?),
        "ttl" => {
            let (key, ms) = (words.word()?, words.word()?);
            Expectation::Ttl(key, ms.after_prefix("~").unwrap_or(ms))
        }
        "no-ttl" => Expectation::NoTtl(words.rest()),
        "gone" => Expectation::Gone(words.rest()),
        "exists" => Expectation::Exists(words.rest()),
        "published" => Expectation::Published(message(words)?),
        "hinted" => Expectation::Hinted(message(words)?),
        "unchanged" => Expectation::Unchanged(match words.next() {
            Some(but) if but.bare() == Some("but") => words.rest(),
            Some(_) => return Err("unchanged [but KEY…]".to_owned()),
            None => Vec::new(),
        }),
        _ => return Err(format!("{keyword} is neither an action nor an expectation")),
    })
}

/// A channel and what its message must look like; nothing stands for no message.
fn message(words: &mut Words) -> Result<Option<(Word, Pattern)>, String> {
    match words.next() {
        Some(channel) => Ok(Some((channel, words.pattern()?))),
        None => Ok(None),
    }
}

/// The contract's first element is an integer, and everything behind it is text.
fn reply_patterns(words: &mut Words) -> Result<Vec<Pattern>, String> {
    let mut patterns = words.patterns()?;
    if let Some(Pattern::Text(first)) = patterns.first()
        && let Some(number) = first.bare().and_then(|text| text.parse().ok())
    {
        patterns[0] = Pattern::Integer(number);
    }
    Ok(patterns)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse_text(text: &str) -> Result<SpecFile, String> {
        parse(Path::new("x.spec"), text)
    }

    #[test]
    fn a_file_is_read_as_its_blocks() {
        let file = parse_text(
            "function ff_x\n# why\ndefine E1 e1\nkeys\n  core  a:$E1\nargs\n  id $E1\n  empty\n  \
             ... x y\n\ncase it works, mostly # loudly\n  run SET a b\n  call id=2 omit empty\n  \
             reply 1 OK ( a * ) ~now+5..9 ...\n  unchanged but a\n",
        )
        .unwrap();
        assert_eq!(file.function.as_deref(), Some("ff_x"));
        assert_eq!((file.keys.named.len(), file.args.named.len(), file.args.rest.len()), (1, 2, 2));
        let case = &file.cases[0];
        assert_eq!(
            (case.name.as_str(), case.line, case.acts.len()),
            ("it works, mostly # loudly", 11, 2)
        );
        let Expectation::Reply(patterns) = &case.acts[1].expectations[0].expectation else {
            panic!("not a reply")
        };
        assert!(matches!(patterns[0], Pattern::Integer(1)));
        assert!(matches!(&patterns[2], Pattern::Array(inner) if inner.len() == 2));
        assert!(matches!(patterns[3], Pattern::Now { from: 5, to: 9 }));
        assert!(matches!(patterns[4], Pattern::Rest));
    }

    #[test]
    fn a_mistake_is_refused_with_its_line() {
        for (text, line) in [
            ("fanction x", 1),
            ("  call", 1),
            ("case a\n  reply 1 OK", 2),
            ("case a\n  call\n  repyl 1", 3),
            ("case a\n  call\n  reply 1 ( a", 3),
            ("case a\n  call\n  reply ~nwo", 3),
            ("case a\n  call\n  hash k f", 3),
            ("case a\n  call whatever", 2),
            ("case a\n  fcall ff_x a b", 2),
            ("case a\n  call\n  unchanged k", 3),
        ] {
            let error = parse_text(text).unwrap_err();
            assert!(error.starts_with(&format!("x.spec:{line}: ")), "{error}");
        }
    }
}
