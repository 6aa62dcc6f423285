//! [`Word`]: the words of a line of a spec file, with their variables.

/// A word as written, before its variables have values.
///
/// Bare text may be a pattern or a keyword; quoted text and the value of a variable never are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Word {
    pieces: Vec<Piece>,
}

/// One stretch of a word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    /// Text without quotes.
    Bare(String),
    /// Text in quotes: any bytes, possibly none.
    Quoted(Vec<u8>),
    /// `$name` or `${name}`, and for `$now` an offset in milliseconds.
    Variable {
        /// The name without the dollar sign.
        name: String,
        /// What to add; 0 for all variables but `now`.
        offset: i64,
    },
}

impl Word {
    /// The whole word, if it is bare text only.
    #[must_use]
    pub fn bare(&self) -> Option<&str> {
        match self.pieces.as_slice() {
            [] => Some(""),
            [Piece::Bare(text)] => Some(text),
            _ => None,
        }
    }

    /// Its pieces, in order; none for the empty word.
    #[must_use]
    pub fn pieces(&self) -> &[Piece] {
        &self.pieces
    }

    /// Splits at the first bare `=`.
    #[must_use]
    pub fn split_pair(&self) -> Option<(Self, Self)> {
        let at = self.pieces.iter().position(is_bare_with_equals)?;
        let Piece::Bare(text) = &self.pieces[at] else { return None };
        let (before, after) = text.split_once('=')?;
        let mut name = Self { pieces: self.pieces[..at].to_vec() };
        name.push_bare(before);
        let mut value = Self::default();
        value.push_bare(after);
        value.pieces.extend_from_slice(&self.pieces[at + 1..]);
        Some((name, value))
    }

    /// What follows a bare prefix, such as the name in `~keep:name`.
    #[must_use]
    pub fn after_prefix(&self, prefix: &str) -> Option<Self> {
        let (Piece::Bare(first), others) = self.pieces.split_first()? else { return None };
        let mut rest = Self::default();
        rest.push_bare(first.strip_prefix(prefix)?);
        rest.pieces.extend_from_slice(others);
        Some(rest)
    }

    fn push_bare(&mut self, text: &str) {
        if !text.is_empty() {
            self.pieces.push(Piece::Bare(text.to_owned()));
        }
    }
}

fn is_bare_with_equals(piece: &Piece) -> bool {
    matches!(piece, Piece::Bare(text) if text.contains('='))
}

/// Splits a line into its words. A bare parenthesis is a word of its own; `#` at the start of a
/// word begins a comment.
pub fn split(line: &str) -> Result<Vec<Word>, String> {
    let mut cursor = Cursor { rest: line };
    let mut words = Vec::new();
    loop {
        cursor.rest = cursor.rest.trim_start();
        match cursor.peek() {
            None | Some('#') => return Ok(words),
            Some(sign @ ('(' | ')')) => {
                cursor.take();
                words.push(Word { pieces: vec![Piece::Bare(sign.into())] });
            }
            Some(_) => words.push(cursor.word()?),
        }
    }
}

struct Cursor<'a> {
    rest: &'a str,
}

impl Cursor<'_> {
    fn word(&mut self) -> Result<Word, String> {
        let mut word = Word::default();
        while let Some(next) = self.peek() {
            match next {
                '(' | ')' => break,
                blank if blank.is_whitespace() => break,
                '"' => word.pieces.push(Piece::Quoted(self.double_quoted()?)),
                '\'' => word.pieces.push(Piece::Quoted(self.single_quoted()?)),
                '$' => word.pieces.push(self.variable()?),
                _ => word.pieces.push(Piece::Bare(self.take_while(is_plain))),
            }
        }
        Ok(word)
    }

    /// `"…"`, with `\n`, `\t`, `\"`, `\\` and `\xNN` for any byte.
    fn double_quoted(&mut self) -> Result<Vec<u8>, String> {
        self.take();
        let mut bytes = Vec::new();
        loop {
            match self.take().ok_or("a quote is not closed")? {
                '"' => return Ok(bytes),
                '\\' => bytes.push(self.escape()?),
                plain => bytes.extend_from_slice(plain.encode_utf8(&mut [0; 4]).as_bytes()),
            }
        }
    }

    fn escape(&mut self) -> Result<u8, String> {
        match self.take() {
            Some('n') => Ok(b'\n'),
            Some('t') => Ok(b'\t'),
            Some('"') => Ok(b'"'),
            Some('\\') => Ok(b'\\'),
            Some('x') => {
                let digits: String = self.take().into_iter().chain(self.take()).collect();
                u8::from_str_radix(&digits, 16).map_err(|_| format!("\\x{digits} is no byte"))
            }
            other => Err(format!("\\{} is no escape", other.unwrap_or(' '))),
        }
    }

    /// `'…'`, everything as it stands: made for JSON.
    fn single_quoted(&mut self) -> Result<Vec<u8>, String> {
        self.take();
        let bytes = self.take_while(|sign| sign != '\'').into_bytes();
        self.take().ok_or("a quote is not closed")?;
        Ok(bytes)
    }

    fn variable(&mut self) -> Result<Piece, String> {
        self.take();
        let braced = self.peek() == Some('{');
        if braced {
            self.take();
        }
        let name = self.take_while(|sign| sign.is_ascii_alphanumeric() || sign == '_');
        if name.is_empty() {
            return Err("a dollar sign without a name; quote it if it is meant".to_owned());
        }
        let offset = if name == "now" { self.offset() } else { 0 };
        if braced && self.take() != Some('}') {
            return Err(format!("${{{name} is not closed"));
        }
        Ok(Piece::Variable { name, offset })
    }

    fn offset(&mut self) -> i64 {
        let signed = self.rest.starts_with(['+', '-']);
        let end = self.rest[usize::from(signed)..]
            .find(|sign: char| !sign.is_ascii_digit())
            .map_or(self.rest.len(), |digits| digits + usize::from(signed));
        let Some(offset) = signed.then(|| self.rest[..end].parse().ok()).flatten() else {
            return 0;
        };
        self.rest = &self.rest[end..];
        offset
    }

    fn peek(&self) -> Option<char> {
        self.rest.chars().next()
    }

    fn take(&mut self) -> Option<char> {
        let next = self.peek()?;
        self.rest = &self.rest[next.len_utf8()..];
        Some(next)
    }

    fn take_while(&mut self, belongs: impl Fn(char) -> bool) -> String {
        let end = self.rest.find(|sign| !belongs(sign)).unwrap_or(self.rest.len());
        let (taken, rest) = self.rest.split_at(end);
        self.rest = rest;
        taken.to_owned()
    }
}

fn is_plain(sign: char) -> bool {
    !sign.is_whitespace() && !matches!(sign, '"' | '\'' | '$' | '(' | ')')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bare(text: &str) -> Piece {
        Piece::Bare(text.to_owned())
    }

    fn variable(name: &str, offset: i64) -> Piece {
        Piece::Variable { name: name.to_owned(), offset }
    }

    #[test]
    fn a_line_becomes_words_and_a_comment_is_none() {
        let words = split("  run SET a{1}#b \"x \\x00\\\"\" '{\"n\":1}'  # why").unwrap();
        let pieces: Vec<_> = words.into_iter().map(|word| word.pieces).collect();
        let quoted = |bytes: &[u8]| vec![Piece::Quoted(bytes.to_vec())];
        assert_eq!(pieces[..3], [[bare("run")], [bare("SET")], [bare("a{1}#b")]]);
        assert_eq!(pieces[3..], [quoted(b"x \x00\""), quoted(b"{\"n\":1}")]);
    }

    #[test]
    fn variables_stand_inside_words_and_now_takes_an_offset() {
        let words = split("ff:$E1:core ${now-5}x $now+30000 $now+ $a-1").unwrap();
        let pieces: Vec<_> = words.into_iter().map(|word| word.pieces).collect();
        assert_eq!(pieces[0], [bare("ff:"), variable("E1", 0), bare(":core")]);
        assert_eq!(pieces[1], [variable("now", -5), bare("x")]);
        assert_eq!(pieces[2], [variable("now", 30_000)]);
        assert_eq!(pieces[3], [variable("now", 0), bare("+")]);
        assert_eq!(pieces[4], [variable("a", 0), bare("-1")]);
    }

    #[test]
    fn pairs_split_at_the_first_bare_equals_sign() {
        let word = &split("\"a=b\"=c=\"d\"").unwrap()[0];
        let (name, value) = word.split_pair().unwrap();
        assert_eq!(name.pieces, [Piece::Quoted(b"a=b".to_vec())]);
        assert_eq!(value.pieces, [bare("c="), Piece::Quoted(b"d".to_vec())]);
        assert_eq!(split("\"a=b\"").unwrap()[0].split_pair(), None);
    }

    #[test]
    fn parentheses_are_words() {
        let words = split("x(a=1 b)y").unwrap();
        let texts: Vec<_> = words.iter().map(|word| word.bare().unwrap()).collect();
        assert_eq!(texts, ["x", "(", "a=1", "b", ")", "y"]);
    }

    #[test]
    fn an_unreadable_value_is_refused() {
        for line in ["\"open", "'open", "$", "${E1", "\"\\q\"", "\"\\xZZ\""] {
            assert!(split(line).is_err(), "{line}");
        }
    }
}
