//! Functions, replies and errors that have no spec case.

use selvedge_core::value::Value;

use crate::lua_header::Header;
use crate::spec::keyspace::{ask, texts};
use crate::spec::report::show_reply;
use crate::spec::store::SpecStore;
use crate::spec::suite::Suite;
use crate::spec::syntax::{Case, Expectation, Pattern, Positions, SpecFile};

/// Everything that is missing: functions without a file, files without a function, replies that no
/// case shows, positions that are called otherwise than in the library. One line each.
pub fn gaps(
    suite: &Suite,
    headers: &[Header],
    store: &mut dyn SpecStore,
) -> Result<Vec<String>, String> {
    let mut gaps = Vec::new();
    for header in headers {
        let Some(function) = &header.function else { continue };
        match suite.function(function) {
            Some(file) => gaps.extend(unshown_replies(file, header)),
            None => gaps.push(format!("{function} has no spec file")),
        }
    }
    let signatures = signatures(store)?;
    for file in &suite.functions {
        let function = file.function.as_deref().unwrap_or_default();
        let path = file.path.display();
        match signatures.iter().find(|signature| signature.function == function) {
            Some(signature) => gaps.extend(
                [("keys", &file.keys, &signature.keys), ("args", &file.args, &signature.args)]
                    .into_iter()
                    .filter_map(|(what, positions, declared)| misnamed(what, positions, declared))
                    .map(|gap| format!("{path}: {gap}")),
            ),
            None => gaps.push(format!("{path}: the library has no {function}")),
        }
        if file.cases.is_empty() {
            gaps.push(format!("{path}: no case"));
        }
    }
    Ok(gaps)
}

/// The declared replies and errors of a function that its file never expects.
fn unshown_replies(file: &SpecFile, header: &Header) -> Vec<String> {
    let shown = |kind: i64, word: &str| file.cases.iter().any(|case| shows(case, kind, word));
    let path = file.path.display();
    let replies = header.words("Replies").filter_map(|word| match word {
        "bare" => (!shows_bare(file)).then(|| format!("{path}: no case has a bare reply")),
        _ => (!shown(1, word)).then(|| format!("{path}: no case replies {word}")),
    });
    let errors = header
        .words("Errors")
        .filter(|word| !shown(0, word))
        .map(|word| format!("{path}: no case replies 0 {word}"));
    replies.chain(errors).collect()
}

/// Some reply of the case starts with the integer and has the word behind it.
fn shows(case: &Case, kind: i64, word: &str) -> bool {
    replies(case).any(|patterns| {
        let leads = matches!(patterns.first(), Some(Pattern::Integer(first)) if *first == kind);
        leads && patterns.iter().skip(1).any(|pattern| says(pattern, word))
    })
}

fn says(pattern: &Pattern, word: &str) -> bool {
    if let Pattern::Array(inner) | Pattern::AnyOrder(inner) = pattern {
        return inner.iter().any(|pattern| says(pattern, word));
    }
    matches!(pattern, Pattern::Text(text) if text.bare() == Some(word))
}

fn replies(case: &Case) -> impl Iterator<Item = &[Pattern]> {
    let expectations = case.acts.iter().flat_map(|act| &act.expectations);
    expectations.filter_map(|expect| {
        if let Expectation::Reply(patterns) = &expect.expectation {
            Some(&patterns[..])
        } else {
            None
        }
    })
}

fn shows_bare(file: &SpecFile) -> bool {
    let acts = file.cases.iter().flat_map(|case| &case.acts);
    acts.flat_map(|act| &act.expectations)
        .any(|expect| matches!(expect.expectation, Expectation::Raw(_)))
}

fn misnamed(what: &str, positions: &Positions, declared: &[String]) -> Option<String> {
    let named: Vec<_> = positions.named.iter().map(|(name, _)| name.as_str()).collect();
    (named != declared).then(|| {
        format!("its {what} are {}, in the library {}", named.join(","), declared.join(","))
    })
}

struct Signature {
    function: String,
    keys: Vec<String>,
    args: Vec<String>,
}

/// What the loaded library declares, by its own word.
fn signatures(store: &mut dyn SpecStore) -> Result<Vec<Signature>, String> {
    let reply = ask(store, &[b"FCALL", b"ff_library_signatures", b"0"])?;
    let Value::Array(elements) = reply else { return Err(show_reply(&reply)) };
    let list = |text: &[u8]| -> Vec<String> {
        let text = String::from_utf8_lossy(text).into_owned();
        text.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect()
    };
    Ok(elements
        .into_iter()
        .map(texts)
        .filter_map(|parts| match parts.as_slice() {
            [name, keys, args, ..] => Some(Signature {
                function: String::from_utf8_lossy(name).into_owned(),
                keys: list(keys),
                args: list(args),
            }),
            _ => None,
        })
        .collect())
}
