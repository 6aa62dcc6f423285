//! Random values as Lua expressions.

use selvedge_sim::search::Ratio;

use super::Writer;
use crate::conformance::one_of;

impl Writer {
    /// Any value that a script may return: plain, tagged or nested, with holes.
    pub(super) fn value(&mut self, depth: usize) -> String {
        match self.draws.index(if depth == 0 { 6 } else { 12 }) {
            0 => "nil".to_owned(),
            1 => one_of(&mut self.draws, &["true", "false"]).to_owned(),
            2 | 3 => self.number(),
            4 | 5 => self.text(),
            6..=8 => self.list(depth - 1),
            9 => self.tagged(depth - 1),
            10 => self.record(depth - 1),
            _ => one_of(&mut self.draws, &["function() end", "cjson.null", "ARGV", "KEYS[1]"])
                .to_owned(),
        }
    }

    /// A number of any size, also those that are none.
    pub(super) fn number(&mut self) -> String {
        match self.draws.index(9) {
            0 => self.whole(),
            1 => format!("{}.{}", self.whole(), self.draws.index(1000)),
            2 => one_of(&mut self.draws, &["1/0", "-1/0", "0/0", "-(0/0)", "-0", "0"]).to_owned(),
            3 => format!("2^{}", self.draws.index(70)),
            4 => format!("-2^{}", self.draws.index(70)),
            5 => format!("{}e{}", self.draws.index(1000), self.draws.index(40)),
            6 => format!("{}e-{}", self.draws.index(1000), self.draws.index(40)),
            7 => format!("{}/{}", self.draws.index(1000), 1 + self.draws.index(1000)),
            _ => format!("({} - 0.5)", self.whole()),
        }
    }

    /// A whole number that every store writes in full.
    pub(super) fn whole(&mut self) -> String {
        let size = 10_usize.pow(u32::try_from(self.draws.index(13)).expect("small") + 1);
        let sign = if self.draws.chance(Ratio { hits: 1, of: 3 }) { "-" } else { "" };
        match self.draws.index(size) {
            0 => "0".to_owned(),
            number => format!("{sign}{number}"),
        }
    }

    /// Text with every kind of byte, as a literal.
    pub(super) fn text(&mut self) -> String {
        if self.draws.chance(Ratio { hits: 1, of: 4 }) {
            let choices = ["''", "'OK'", "'a/b\"c'", "'12'", "'ERR x'", "'1e5'"];
            return one_of(&mut self.draws, &choices).to_owned();
        }
        let mut literal = "'".to_owned();
        for _ in 0..self.draws.index(12) {
            match self.draws.index(4) {
                0 => literal += &format!("\\{:03}", self.draws.index(256)),
                1 => {
                    literal +=
                        one_of(&mut self.draws, &["\\n", "\\r", "\\\\", "\\'", "\\0", "/", "\""])
                }
                _ => literal
                    .push(char::from(b'a' + u8::try_from(self.draws.index(26)).expect("a letter"))),
            }
        }
        literal + "'"
    }

    /// Text that Redis does not cut or trim where Valkey leaves it alone: in big numbers and error
    /// replies the two differ in what they take for the end of a text.
    pub(super) fn line(&mut self) -> String {
        match (self.for_redis, self.draws.chance(Ratio { hits: 1, of: 5 })) {
            (_, true) => self.value(0).replace(['\\'], ""),
            (true, false) => {
                one_of(&mut self.draws, &["''", "'x'", "'MY code'", "'-MY code'"]).to_owned()
            }
            (false, false) => self.text(),
        }
    }

    /// A table without keys; some of its places may be empty.
    fn list(&mut self, depth: usize) -> String {
        let items: Vec<_> = (0..self.draws.index(6)).map(|_| self.value(depth)).collect();
        format!("{{{}}}", items.join(", "))
    }

    /// A table with keys of several kinds.
    fn record(&mut self, depth: usize) -> String {
        if self.one_text_key {
            let (key, value) = (self.text(), self.value(depth));
            return format!("{{[{key}] = {value}}}");
        }
        let mut fields = Vec::new();
        for _ in 0..self.draws.index(5) {
            let key = match self.draws.index(5) {
                0 => self.draws.index(14).to_string(),
                1 => format!("{}.5", self.draws.index(3)),
                2 => one_of(&mut self.draws, &["-1", "0", "1e10", "true"]).to_owned(),
                _ => self.text(),
            };
            fields.push(format!("[{key}] = {}", self.value(depth)));
        }
        format!("{{{}}}", fields.join(", "))
    }

    /// The tables that stand for other kinds of replies.
    fn tagged(&mut self, depth: usize) -> String {
        match self.draws.index(9) {
            6 if self.one_text_key => "redis.error_reply('x')".to_owned(),
            0 => format!("{{ok = {}}}", self.text()),
            1 => format!("{{err = {}}}", self.text()),
            2 => format!("{{double = {}}}", self.quarter()),
            3 => format!("{{map = {{[{}] = {}}}}}", self.text(), self.value(depth)),
            4 => format!("{{set = {{[{}] = true}}}}", self.text()),
            5 => format!("{{big_number = {}}}", self.line()),
            6 => format!("{{verbatim_string = {{format = 'txt', string = {}}}}}", self.text()),
            7 => format!("redis.status_reply({})", self.value(0)),
            _ => format!("redis.error_reply({})", self.line()),
        }
    }

    /// A number with a fraction, unless Redis would write it otherwise.
    pub(super) fn quarter(&mut self) -> String {
        if self.for_redis { format!("{}/4", self.draws.index(10_000)) } else { self.number() }
    }
}
