//! JSON text to Lua values.

use mlua::{Lua, Value};

use super::super::args::Raised;
use super::{Settings, failed};

/// Reads one value that fills the whole text.
pub(super) fn decode(lua: &Lua, settings: &Settings, text: &[u8]) -> Result<Value, Raised> {
    if let [first, second, ..] = text
        && (*first == 0 || *second == 0)
    {
        return Err(Raised::located(lua, "JSON parser does not support UTF-16 or UTF-32"));
    }
    let mut decoder = Decoder { lua, settings, text, at: 0, depth: 0 };
    let token = decoder.next();
    let value = decoder.value(token)?;
    let end = decoder.next();
    match end.kind {
        Kind::End => Ok(value),
        _ => Err(decoder.unexpected("the end", &end)),
    }
}

struct Decoder<'a> {
    lua: &'a Lua,
    settings: &'a Settings,
    text: &'a [u8],
    at: usize,
    depth: i32,
}

/// One token and where it begins, or where it went wrong.
struct Token {
    kind: Kind,
    at: usize,
}

enum Kind {
    ObjectBegin,
    ObjectEnd,
    ArrayBegin,
    ArrayEnd,
    String(Vec<u8>),
    Number(f64),
    Boolean(bool),
    Null,
    Colon,
    Comma,
    End,
    Invalid(&'static str),
}

impl Kind {
    /// The name that the server's error texts use.
    fn name(&self) -> &'static str {
        match self {
            Self::ObjectBegin => "T_OBJ_BEGIN",
            Self::ObjectEnd => "T_OBJ_END",
            Self::ArrayBegin => "T_ARR_BEGIN",
            Self::ArrayEnd => "T_ARR_END",
            Self::String(_) => "T_STRING",
            Self::Number(_) => "T_NUMBER",
            Self::Boolean(_) => "T_BOOLEAN",
            Self::Null => "T_NULL",
            Self::Colon => "T_COLON",
            Self::Comma => "T_COMMA",
            Self::End => "T_END",
            Self::Invalid(why) => why,
        }
    }
}

/// Values.
impl Decoder<'_> {
    fn value(&mut self, token: Token) -> Result<Value, Raised> {
        match token.kind {
            Kind::String(text) => Ok(Value::String(self.lua.create_string(text).map_err(failed)?)),
            Kind::Number(number) => Ok(Value::Number(number)),
            Kind::Boolean(flag) => Ok(Value::Boolean(flag)),
            Kind::Null => Ok(Value::NULL),
            Kind::ObjectBegin => self.object(),
            Kind::ArrayBegin => self.array(),
            _ => Err(self.unexpected("value", &token)),
        }
    }

    fn object(&mut self) -> Result<Value, Raised> {
        self.descend()?;
        let object = self.lua.create_table().map_err(failed)?;
        let mut token = self.next();
        if !matches!(token.kind, Kind::ObjectEnd) {
            loop {
                let Kind::String(key) = token.kind else {
                    return Err(self.unexpected("object key string", &token));
                };
                let colon = self.next();
                let Kind::Colon = colon.kind else {
                    return Err(self.unexpected("colon", &colon));
                };
                let key = self.lua.create_string(key).map_err(failed)?;
                let begin = self.next();
                let item = self.value(begin)?;
                object.raw_set(key, item).map_err(failed)?;
                if self.closes(|kind| matches!(kind, Kind::ObjectEnd), "comma or object end")? {
                    break;
                }
                token = self.next();
            }
        }
        self.depth -= 1;
        Ok(Value::Table(object))
    }

    fn array(&mut self) -> Result<Value, Raised> {
        self.descend()?;
        let array = self.lua.create_table().map_err(failed)?;
        let mut token = self.next();
        if !matches!(token.kind, Kind::ArrayEnd) {
            for index in 1_i64.. {
                let item = self.value(token)?;
                array.raw_set(index, item).map_err(failed)?;
                if self.closes(|kind| matches!(kind, Kind::ArrayEnd), "comma or array end")? {
                    break;
                }
                token = self.next();
            }
        }
        self.depth -= 1;
        Ok(Value::Table(array))
    }

    /// After an item: true at the closing bracket, false at a comma.
    fn closes(&mut self, is_end: fn(&Kind) -> bool, expected: &str) -> Result<bool, Raised> {
        let token = self.next();
        match token.kind {
            Kind::Comma => Ok(false),
            ref kind if is_end(kind) => Ok(true),
            _ => Err(self.unexpected(expected, &token)),
        }
    }

    fn descend(&mut self) -> Result<(), Raised> {
        self.depth += 1;
        if self.depth <= self.settings.decode_depth_max {
            return Ok(());
        }
        let (depth, at) = (self.depth, self.at);
        let text = format!("Found too many nested data structures ({depth}) at character {at}");
        Err(Raised::located(self.lua, &text))
    }

    fn unexpected(&self, expected: &str, token: &Token) -> Raised {
        let (found, at) = (token.kind.name(), token.at + 1);
        let text = format!("Expected {expected} but found {found} at character {at}");
        Raised::located(self.lua, &text)
    }
}

/// Tokens.
impl Decoder<'_> {
    fn next(&mut self) -> Token {
        while matches!(self.peek(0), b' ' | b'\t' | b'\n' | b'\r') {
            self.at += 1;
        }
        let at = self.at;
        let kind = match self.peek(0) {
            b'{' => self.single(Kind::ObjectBegin),
            b'}' => self.single(Kind::ObjectEnd),
            b'[' => self.single(Kind::ArrayBegin),
            b']' => self.single(Kind::ArrayEnd),
            b':' => self.single(Kind::Colon),
            b',' => self.single(Kind::Comma),
            0 => Kind::End,
            b'"' => return self.string(),
            b'-' | b'0'..=b'9' => self.number(!self.settings.decode_invalid_numbers),
            b'+' | b'f' | b'i' | b'I' | b'n' | b'N' | b't' => self.word(),
            _ => Kind::Invalid("invalid token"),
        };
        Token { kind, at }
    }

    /// The byte `ahead` of the cursor; past the end it reads as zero, as in C.
    fn peek(&self, ahead: usize) -> u8 {
        self.text.get(self.at + ahead).copied().unwrap_or(0)
    }

    fn rest(&self) -> &[u8] {
        self.text.get(self.at..).unwrap_or(&[])
    }

    fn single(&mut self, kind: Kind) -> Kind {
        self.at += 1;
        kind
    }

    fn word(&mut self) -> Kind {
        let words =
            [("true", Kind::Boolean(true)), ("false", Kind::Boolean(false)), ("null", Kind::Null)];
        for (word, kind) in words {
            if self.rest().starts_with(word.as_bytes()) {
                self.at += word.len();
                return kind;
            }
        }
        if self.settings.decode_invalid_numbers && self.is_invalid_number() {
            return self.number(false);
        }
        Kind::Invalid("invalid token")
    }

    fn number(&mut self, strict: bool) -> Kind {
        if strict && self.is_invalid_number() {
            return Kind::Invalid("invalid number");
        }
        match read_number(self.rest()) {
            Some((number, length)) => {
                self.at += length;
                Kind::Number(number)
            }
            None => Kind::Invalid("invalid number"),
        }
    }

    /// Numbers that C reads and JSON does not know: signs, hex, leading zeros, infinities.
    fn is_invalid_number(&self) -> bool {
        let text = self.rest();
        if text.first() == Some(&b'+') {
            return true;
        }
        let text = text.strip_prefix(b"-").unwrap_or(text);
        match text {
            [b'0', next, ..] => next.is_ascii_digit() || next.eq_ignore_ascii_case(&b'x'),
            _ => starts_with_word(text, b"inf") || starts_with_word(text, b"nan"),
        }
    }

    fn string(&mut self) -> Token {
        let start = self.at;
        self.at += 1;
        let mut text = Vec::new();
        loop {
            match self.peek(0) {
                b'"' => break,
                0 => return self.broken("unexpected end of string"),
                b'\\' => match self.escape(&mut text) {
                    Ok(length) => self.at += length,
                    Err(why) => return self.broken(why),
                },
                byte => {
                    text.push(byte);
                    self.at += 1;
                }
            }
        }
        self.at += 1;
        Token { kind: Kind::String(text), at: start }
    }

    /// Appends what an escape stands for and answers how long the escape was.
    fn escape(&self, text: &mut Vec<u8>) -> Result<usize, &'static str> {
        let byte = match self.peek(1) {
            plain @ (b'"' | b'\\' | b'/') => plain,
            b'b' => 8,
            b't' => b'\t',
            b'n' => b'\n',
            b'f' => 12,
            b'r' => b'\r',
            b'u' => return self.unicode(text).ok_or("invalid unicode escape code"),
            _ => return Err("invalid escape code"),
        };
        text.push(byte);
        Ok(2)
    }

    fn unicode(&self, text: &mut Vec<u8>) -> Option<usize> {
        let unit = self.hex4(2)?;
        let (code, length) = if (unit & 0xF800) != 0xD800 {
            (unit, 6)
        } else {
            let low = if self.peek(6) == b'\\' && self.peek(7) == b'u' { self.hex4(8)? } else { 0 };
            if unit & 0x400 != 0 || (low & 0xFC00) != 0xDC00 {
                return None;
            }
            ((((unit & 0x3FF) << 10) | (low & 0x3FF)) + 0x1_0000, 12)
        };
        let character = char::from_u32(code)?;
        text.extend(character.encode_utf8(&mut [0; 4]).bytes());
        Some(length)
    }

    fn hex4(&self, ahead: usize) -> Option<u32> {
        (ahead..ahead + 4).try_fold(0, |code, ahead| {
            let digit = char::from(self.peek(ahead)).to_digit(16)?;
            Some(code * 16 + digit)
        })
    }

    fn broken(&self, why: &'static str) -> Token {
        Token { kind: Kind::Invalid(why), at: self.at }
    }
}

/// C's `strtod`: the number at the front of the text and how many bytes it took.
fn read_number(text: &[u8]) -> Option<(f64, usize)> {
    let sign = usize::from(matches!(text.first(), Some(b'-' | b'+')));
    let negative = text.first() == Some(&b'-');
    let body = text.get(sign..)?;
    let (size, length) = if starts_with_word(body, b"infinity") {
        (f64::INFINITY, 8)
    } else if starts_with_word(body, b"inf") {
        (f64::INFINITY, 3)
    } else if starts_with_word(body, b"nan") {
        (f64::NAN.copysign(1.0), 3)
    } else if let Some(hex) = read_hexadecimal(body) {
        hex
    } else {
        read_decimal(body)?
    };
    Some((if negative { -size } else { size }, sign + length))
}

fn starts_with_word(text: &[u8], word: &[u8]) -> bool {
    text.get(..word.len()).is_some_and(|front| front.eq_ignore_ascii_case(word))
}

fn digits(text: &[u8], from: usize, is_digit: fn(&u8) -> bool) -> usize {
    text.iter().skip(from).take_while(|byte| is_digit(byte)).count()
}

fn read_decimal(text: &[u8]) -> Option<(f64, usize)> {
    let whole = digits(text, 0, u8::is_ascii_digit);
    let mut length = whole;
    let mut fraction = 0;
    if text.get(length) == Some(&b'.') {
        fraction = digits(text, length + 1, u8::is_ascii_digit);
        length += 1 + fraction;
    }
    if whole + fraction == 0 {
        return None;
    }
    if let Some(b'e' | b'E') = text.get(length) {
        let sign = usize::from(matches!(text.get(length + 1), Some(b'-' | b'+')));
        let exponent = digits(text, length + 1 + sign, u8::is_ascii_digit);
        if exponent > 0 {
            length += 1 + sign + exponent;
        }
    }
    let number = std::str::from_utf8(text.get(..length)?).ok()?.parse().ok()?;
    Some((number, length))
}

/// `0x` with whole digits, as far as a double holds them; hexadecimal fractions are rejected by the
/// end-of-text check.
fn read_hexadecimal(text: &[u8]) -> Option<(f64, usize)> {
    let [b'0', b'x' | b'X', ..] = text else { return None };
    let count = digits(text, 2, u8::is_ascii_hexdigit);
    if count == 0 {
        return None;
    }
    let number = text.iter().skip(2).take(count).fold(0.0, |number, byte| {
        number * 16.0 + f64::from(char::from(*byte).to_digit(16).unwrap_or(0))
    });
    Some((number, 2 + count))
}
