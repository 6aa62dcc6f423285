//! [`Scope`]: the values of the names in a case.

use std::collections::BTreeMap;

use crate::spec::suite::Suite;
use crate::spec::syntax::SpecFile;
use crate::spec::word::{Piece, Word};

/// The variables of one running case.
///
/// A name means, first found first: what the case set; a position of the function at hand; a
/// definition of its file, of its folder, of the whole suite. Values are worked out when they are
/// asked for, so a case that sets `flow_id` moves every key that is spelled with `$flow_id`.
#[derive(Debug)]
pub struct Scope<'a> {
    suite: &'a Suite,
    file: &'a SpecFile,
    variables: BTreeMap<String, Vec<u8>>,
}

impl<'a> Scope<'a> {
    /// The scope of a fresh case; `now_ms` is the server's clock at its start.
    #[must_use]
    pub fn new(suite: &'a Suite, file: &'a SpecFile, now_ms: i64) -> Self {
        let variables = [(NOW.to_owned(), now_ms.to_string().into_bytes())];
        Self { suite, file, variables: variables.into() }
    }

    /// Gives a name a value for the rest of the case.
    pub fn set(&mut self, name: &str, value: Vec<u8>) {
        self.variables.insert(name.to_owned(), value);
    }

    /// The case has set this name.
    #[must_use]
    pub fn is_set(&self, name: &str) -> bool {
        self.variables.contains_key(name)
    }

    /// What a word of this case's file says.
    pub fn value(&self, word: &Word) -> Result<Vec<u8>, String> {
        self.value_in(self.file, word)
    }

    /// What several words say.
    pub fn values(&self, words: &[Word]) -> Result<Vec<Vec<u8>>, String> {
        words.iter().map(|word| self.value(word)).collect()
    }

    /// What a word says where the positions are those of another file.
    pub fn value_in(&self, file: &SpecFile, word: &Word) -> Result<Vec<u8>, String> {
        self.evaluate(file, word, 0)
    }

    /// The value of a position: what the case set under its name, or its default.
    pub fn position(&self, file: &SpecFile, name: &str, default: &Word) -> Result<Vec<u8>, String> {
        match self.variables.get(name) {
            Some(value) => Ok(value.clone()),
            None => self.value_in(file, default),
        }
    }

    fn evaluate(&self, file: &SpecFile, word: &Word, depth: usize) -> Result<Vec<u8>, String> {
        let mut bytes = Vec::new();
        for piece in word.pieces() {
            match piece {
                Piece::Bare(text) => bytes.extend_from_slice(text.as_bytes()),
                Piece::Quoted(text) => bytes.extend_from_slice(text),
                Piece::Variable { name, offset } => {
                    let value = self.look_up(file, name, depth)?;
                    bytes.extend(shifted(value, *offset));
                }
            }
        }
        Ok(bytes)
    }

    fn look_up(&self, file: &SpecFile, name: &str, depth: usize) -> Result<Vec<u8>, String> {
        if let Some(value) = self.variables.get(name) {
            return Ok(value.clone());
        }
        if depth > DEPTH_MAX {
            return Err(format!("${name} is defined by itself"));
        }
        let positions = file.keys.named.iter().chain(&file.args.named);
        let found = positions
            .chain(&file.defines)
            .chain(self.suite.shared_with(file).flat_map(|shared| &shared.defines))
            .find(|(candidate, _)| candidate == name)
            .ok_or_else(|| format!("${name} means nothing here"))?;
        self.evaluate(file, &found.1, depth + 1)
    }
}

fn shifted(value: Vec<u8>, offset: i64) -> Vec<u8> {
    let number = (offset != 0).then(|| str::from_utf8(&value).ok()?.parse::<i64>().ok()).flatten();
    number.map_or(value, |number| number.saturating_add(offset).to_string().into_bytes())
}

const NOW: &str = "now";

/// Definitions lean on a handful of others at most; more is a circle.
const DEPTH_MAX: usize = 16;
