//! [`Contract`]: what a function promises in its header and its signature.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use selvedge_core::value::Value;
use selvedge_lua::host::Host;

use crate::lua_header::Header;
use crate::spec::keyspace::texts;

/// What a function promises.
#[derive(Clone, Debug)]
pub struct Contract {
    /// Its name.
    pub function: String,
    /// The names of its keys, in order.
    pub keys: Vec<String>,
    /// The names of its arguments, in order.
    pub args: Vec<String>,
    /// Whether it is registered as one that never writes.
    pub reads_only: bool,
    errors: BTreeSet<String>,
    replies: Replies,
    bound: Bound,
}

/// The words a success may answer.
#[derive(Clone, Debug, Default)]
struct Replies {
    /// Status or sub-status words of an envelope.
    words: BTreeSet<String>,
    /// Words of a reply that has no envelope.
    bare: BTreeSet<String>,
    /// A count or an id stands where the word would.
    open: bool,
}

/// `Bound: fixed + per_item * n`; of several, told as `…, or …`, the lowest counts.
#[derive(Clone, Debug)]
struct Bound(Vec<Line>);

#[derive(Clone, Copy, Debug)]
struct Line {
    fixed: usize,
    per_item: usize,
}

impl Contract {
    /// The contracts of all functions that a host holds, by the headers below a `lua/` folder.
    pub fn read_all(host: &mut Host, lua: &Path) -> Result<BTreeMap<String, Self>, String> {
        let headers = Header::read_all(lua).map_err(|error| error.to_string())?;
        let Value::Array(signatures) = host.call(&["FCALL", "ff_library_signatures", "0"]) else {
            return Err("the library does not tell its signatures".to_owned());
        };
        let list = |text: &[u8]| -> Vec<String> {
            let text = String::from_utf8_lossy(text);
            text.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect()
        };
        let mut contracts = BTreeMap::new();
        for parts in signatures.into_iter().map(texts) {
            let [name, keys, args, access] = parts.as_slice() else { continue };
            let function = String::from_utf8_lossy(name).into_owned();
            let header = headers.iter().find(|header| header.function.as_ref() == Some(&function));
            let header = header.ok_or_else(|| format!("{function} has no header"))?;
            let contract = Self {
                keys: list(keys),
                args: list(args),
                reads_only: access == b"reads",
                errors: header.words("Errors").map(stem).collect(),
                replies: Replies::read(header),
                bound: Bound::read(header).ok_or_else(|| format!("{function} has no bound"))?,
                function: function.clone(),
            };
            contracts.insert(function, contract);
        }
        Ok(contracts)
    }

    /// Whether the header lists this error code.
    #[must_use]
    pub fn lists_error(&self, code: &str) -> bool {
        self.errors.contains(&stem(code))
    }

    /// Whether the header lists what a success answers: its status or sub-status, wherever the
    /// contract has it, or the words of a reply without envelope.
    #[must_use]
    pub fn lists_reply(&self, words: &[String], bare: bool) -> bool {
        if bare {
            return words.first().is_some_and(|word| self.replies.bare.contains(word));
        }
        let known = |word: &String| self.replies.words.contains(word);
        match words {
            [] => false,
            [status, ..] if known(status) => true,
            [status, rest @ ..] => {
                STATUSES.contains(&status.as_str()) && (self.replies.open || rest.iter().any(known))
            }
        }
    }

    /// Every answer that the header lists: words of successes, and codes of errors behind a `!`.
    #[must_use]
    pub fn answers(&self) -> BTreeSet<String> {
        let Replies { words, bare, open } = &self.replies;
        let errors = self.errors.iter().map(|code| format!("!{code}"));
        let open = open.then(|| OPEN.to_owned());
        words.iter().chain(bare).cloned().chain(errors).chain(open).collect()
    }

    /// Which of these answers a reply is: by the most particular of its words.
    #[must_use]
    pub fn answer(&self, reply: &Value) -> Option<String> {
        let (refused, words) = match reply {
            Value::Array(elements) => match elements.split_first() {
                Some((Value::Int(head), rest)) => (*head == 0, texts_of(rest)),
                _ => (false, texts_of(elements)),
            },
            Value::Nil | Value::Int(_) | Value::Bulk(_) | Value::Status(_) | Value::Error(_) => {
                (false, texts_of(std::slice::from_ref(reply)))
            }
        };
        let status = words.first()?;
        if refused {
            return self.lists_error(status).then(|| format!("!{}", stem(status)));
        }
        let Replies { words: listed, bare, open } = &self.replies;
        let known = |word: &&String| listed.contains(*word) || bare.contains(*word);
        let particular = Some(status)
            .filter(|status| *status != "OK" && known(status))
            .or_else(|| words[1..].iter().find(known))
            .or_else(|| Some(status).filter(known));
        particular.cloned().or_else(|| open.then(|| OPEN.to_owned()))
    }

    /// The most inner commands that a call may take when the largest collection has `n` elements.
    #[must_use]
    pub fn bound(&self, n: usize) -> usize {
        self.bound.0.iter().map(|line| line.fixed + line.per_item * n).min().unwrap_or(0)
    }
}

impl Replies {
    fn read(header: &Header) -> Self {
        let mut replies = Self::default();
        for part in header.section("Replies").unwrap_or_default().split(',').map(str::trim) {
            let mut words = part.split_whitespace();
            match words.next() {
                Some("bare") => replies.bare.extend(words.next().map(str::to_owned)),
                Some(word) if word.starts_with('<') => replies.open = true,
                Some(word) => drop(replies.words.insert(word.to_owned())),
                None => {}
            }
        }
        replies
    }
}

impl Bound {
    fn read(header: &Header) -> Option<Self> {
        header.section("Bound")?.split(", or ").map(Line::read).collect::<Option<_>>().map(Self)
    }
}

impl Line {
    fn read(text: &str) -> Option<Self> {
        let numbers: Vec<usize> =
            text.split_whitespace().filter_map(|word| word.parse().ok()).collect();
        Some(Self { fixed: *numbers.first()?, per_item: numbers.get(1).copied().unwrap_or(0) })
    }
}

/// A code without the detail that some carry behind a colon.
fn stem(code: &str) -> String {
    code.split(':').next().unwrap_or_default().to_owned()
}

/// The texts among the elements of a reply, up to the first that is none.
fn texts_of(elements: &[Value]) -> Vec<String> {
    let text = |element: &Value| {
        if let Value::Bulk(bytes) = element {
            Some(String::from_utf8_lossy(bytes).into_owned())
        } else {
            None
        }
    };
    elements.iter().map_while(text).collect()
}

/// Stands for a count or an id that a header leaves open.
const OPEN: &str = "<open>";

/// The statuses that any function may answer before its own word.
const STATUSES: [&str; 3] = ["OK", "ALREADY_SATISFIED", "DUPLICATE"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_the_most_particular_of_its_words() {
        let text =
            "-- Some.\n-- Replies: open, sealed, OK, DUPLICATE, <count>\n-- Errors: gone, odd";
        let header = Header::parse(Path::new("some.lua"), text);
        let contract = Contract {
            function: "ff_some".to_owned(),
            keys: Vec::new(),
            args: Vec::new(),
            reads_only: false,
            errors: header.words("Errors").map(stem).collect(),
            replies: Replies::read(&header),
            bound: Bound(Vec::new()),
        };
        let answer = |head: i64, words: &[&str]| {
            let words = words.iter().map(|word| Value::Bulk(word.as_bytes().to_vec()));
            contract.answer(&Value::Array([Value::Int(head)].into_iter().chain(words).collect()))
        };
        for (head, words, meant) in [
            (1, &["OK"][..], Some("OK")),
            (1, &["OK", "sealed"], Some("sealed")),
            (1, &["OK", "some-id", "open"], Some("open")),
            // What it says at first is not made less by what follows.
            (1, &["DUPLICATE", "sealed"], Some("DUPLICATE")),
            (1, &["ALREADY_SATISFIED", "sealed"], Some("sealed")),
            (1, &["7"], Some("<open>")),
            (0, &["gone", "sealed"], Some("!gone")),
            (0, &["odd:by_three"], Some("!odd")),
            (0, &["sealed"], None),
            (1, &[], None),
        ] {
            assert_eq!(answer(head, words).as_deref(), meant, "{head} {words:?}");
        }
        let promised: Vec<_> = contract.answers().into_iter().collect();
        assert_eq!(promised, ["!gone", "!odd", "<open>", "DUPLICATE", "OK", "open", "sealed"]);
    }
}
