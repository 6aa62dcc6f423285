//! Random bodies: statements that end in a return or an error.

use selvedge_sim::search::Ratio;

use super::Writer;
use crate::conformance::one_of;

/// One body of any kind.
pub(super) fn body(writer: &mut Writer) -> String {
    let kinds: [fn(&mut Writer) -> String; 11] = [
        returned, called, called, caught, raised, encoded, decoded, bits, written, global, misused,
    ];
    let kind = kinds[writer.draws.index(kinds.len())];
    kind(writer)
}

fn returned(writer: &mut Writer) -> String {
    format!("return {}", writer.value(3))
}

/// Several commands in a row; the last one's reply is returned.
fn called(writer: &mut Writer) -> String {
    let mut body = String::new();
    if writer.draws.chance(Ratio { hits: 1, of: 8 }) {
        body += "redis.setresp(3)\n";
    }
    for _ in 0..writer.draws.index(3) {
        let call = one_of(&mut writer.draws, &["redis.call", "redis.pcall"]);
        body += &format!("local r = {call}({})\n", writer.command());
    }
    let shown =
        one_of(&mut writer.draws, &["return r", "return {r, type(r)}", "return r == false"]);
    let call = one_of(&mut writer.draws, &["redis.call", "redis.call", "redis.pcall"]);
    body + &format!("local r = {call}({})\n{shown}", writer.command())
}

/// Errors that a script catches and shows.
fn caught(writer: &mut Writer) -> String {
    let risky = match writer.draws.index(4) {
        0 => format!("redis.call({})", writer.command()),
        1 => format!("error({})", writer.raisable()),
        2 => format!("local x = {} return x.y.z", writer.value(1)),
        _ => format!("return cjson.encode({})", writer.iterated(2)),
    };
    match writer.draws.index(4) {
        0 => format!("return {{pcall(function() {risky} end)}}"),
        1 => format!(
            "return {{xpcall(function() {risky} end, \
             function(e) return type(e) == 'table' and e.err or e end)}}"
        ),
        2 => format!("return {{coroutine.resume(coroutine.create(function() {risky} end))}}"),
        _ => format!("local ok, e = pcall(function() {risky} end)\nif not ok then error(e) end"),
    }
}

fn raised(writer: &mut Writer) -> String {
    let lines = "\n".repeat(writer.draws.index(4));
    match writer.draws.index(5) {
        0 => format!("{lines}error({}, 0)", writer.text()),
        1 => format!("{lines}local t = {} return t.x.y", writer.value(1)),
        2 => format!("{lines}return {} + {}", writer.value(1), writer.value(1)),
        3 => format!("{lines}return {} < {}", writer.value(1), writer.value(1)),
        _ => format!("{lines}error({})", writer.raisable()),
    }
}

fn encoded(writer: &mut Writer) -> String {
    let value = writer.iterated(3);
    match writer.draws.index(3) {
        0 => format!("return cjson.encode(cjson.decode(cjson.encode({value})))"),
        1 => format!("return {{pcall(cjson.encode, {value})}}"),
        _ => format!("return cjson.encode({value})"),
    }
}

/// Well-formed JSON, and the same with a byte changed, cut off or put in.
fn decoded(writer: &mut Writer) -> String {
    let mut json = writer.json(3).into_bytes();
    if writer.draws.chance(Ratio { hits: 1, of: 2 }) && !json.is_empty() {
        let at = writer.draws.index(json.len());
        let stray =
            *one_of(&mut writer.draws, &[&b'"', &b'\\', &b'{', &b']', &b',', &b'x', &b'0', &b' ']);
        match writer.draws.index(3) {
            0 => json.truncate(at),
            1 => json[at] = stray,
            _ => json.insert(at, stray),
        }
    }
    let literal: String = json.iter().map(|byte| format!("\\{byte:03}")).collect();
    match writer.draws.index(3) {
        0 if !json.contains(&b'{') => format!("return cjson.encode(cjson.decode('{literal}'))"),
        1 => format!("return {{pcall(cjson.decode, '{literal}')}}"),
        _ => format!("return cjson.decode('{literal}')"),
    }
}

fn bits(writer: &mut Writer) -> String {
    let names = [
        "tobit", "tohex", "bnot", "band", "bor", "bxor", "lshift", "rshift", "arshift", "rol",
        "ror", "bswap",
    ];
    let name = one_of(&mut writer.draws, &names);
    let mut operands = Vec::new();
    for _ in 0..1 + writer.draws.index(3) {
        operands.push(match writer.draws.index(8) {
            0 => writer.value(1),
            1 => format!("'{}'", writer.draws.index(1 << 20)),
            2 => writer.number(),
            _ => format!("{}", writer.draws.index(1 << 33)),
        });
    }
    format!("return {{bit.{name}({})}}", operands.join(", "))
}

/// Numbers as text and back.
fn written(writer: &mut Writer) -> String {
    let number = writer.number();
    match writer.draws.index(8) {
        0 => format!("return tostring({number})"),
        1 => format!("return ({number}) .. ''"),
        2 => {
            let format =
                one_of(&mut writer.draws, &["%d", "%5.2f", "%g", "%x", "%.17g", "%e", "%s", "%i"]);
            format!("return string.format('{format}', {number})")
        }
        3 => format!("return tostring(tonumber({}))", writer.text()),
        4 => {
            let digits = one_of(
                &mut writer.draws,
                &["'0x1F'", "' 12 '", "'1e2'", "'1e'", "''", "'0x'", "'1 2'"],
            );
            format!("return tostring(tonumber({digits}))")
        }
        5 => format!(
            "return tostring(tonumber('{}', {}))",
            one_of(&mut writer.draws, &["ff", "101", "z", "-7", "8"]),
            2 + writer.draws.index(35)
        ),
        6 => format!("return {{math.floor({number}), math.ceil({number}), ({number}) % 7}}"),
        _ => format!(
            "math.randomseed({}) return {{tostring(math.random()), math.random(10), \
             math.random(-5, 5)}}",
            writer.whole()
        ),
    }
}

fn global(writer: &mut Writer) -> String {
    let name =
        one_of(&mut writer.draws, &["nope", "print", "io", "require", "x1", "dofile", "getfenv"]);
    match writer.draws.index(7) {
        0 => format!("return {name}"),
        1 => format!("{name} = 1"),
        2 => format!("return _G.{name}"),
        3 => "string.format = nil".to_owned(),
        4 => "redis.call = nil".to_owned(),
        5 => format!("return loadstring('return {name}')()"),
        _ => format!("return {{pcall(function() {name} = 1 end)}}"),
    }
}

/// Library functions with arguments that they may not like.
fn misused(writer: &mut Writer) -> String {
    let names = [
        "redis.sha1hex",
        "redis.status_reply",
        "redis.log",
        "redis.setresp",
        "redis.set_repl",
        "redis.call",
        "redis.pcall",
        "cjson.encode",
        "cjson.decode",
        "tonumber",
        "string.rep",
        "string.sub",
        "table.concat",
        "math.floor",
        "ipairs",
        "unpack",
        "select",
        "string.byte",
        "string.upper",
        "table.sort",
        "next",
        "string.len",
        "type",
        "rawget",
        "string.find",
        "setmetatable",
        "assert",
        "loadstring",
    ];
    let name = one_of(&mut writer.draws, &names);
    let arguments: Vec<_> = (0..writer.draws.index(3)).map(|_| writer.small(1)).collect();
    let call = format!("{name}({})", arguments.join(", "));
    if writer.draws.chance(Ratio { hits: 1, of: 2 }) {
        format!("return {call}")
    } else {
        format!("return {{{call}}}")
    }
}

impl Writer {
    /// A value whose tables are gone through.
    fn iterated(&mut self, depth: usize) -> String {
        self.one_text_key = true;
        let value = self.value(depth);
        self.one_text_key = false;
        value
    }

    /// A value without large numbers: some functions would be busy with those for long.
    fn small(&mut self, depth: usize) -> String {
        match self.draws.index(4) {
            0 => self.draws.index(9).to_string(),
            1 => self.text(),
            2 => "{1, 'b', 2}".to_owned(),
            _ => match self.value(depth) {
                large if large.contains(['e', '^', '.']) => "nil".to_owned(),
                value => value,
            },
        }
    }

    /// What may be raised without harm. Redis ends when a raised table says nothing.
    fn raisable(&mut self) -> String {
        match self.draws.index(4) {
            0 => self.text(),
            1 => self.number(),
            2 => format!("{{err = {}}}", self.text()),
            _ => one_of(&mut self.draws, &["nil", "true", "false"]).to_owned(),
        }
    }

    /// The words of a command: mostly good, now and then with something wrong.
    fn command(&mut self) -> String {
        let key = match self.draws.index(4) {
            0 => "KEYS[1]".to_owned(),
            1 => "KEYS[2]".to_owned(),
            _ => format!("'{}'", self.key()),
        };
        match self.draws.index(16) {
            0 => format!("'GET', {key}"),
            1 | 2 => format!("'SET', {key}, {}", self.word()),
            3 => format!("'INCRBY', {key}, {}", self.word()),
            4 => format!("'APPEND', {key}, {}", self.word()),
            5 => format!("'DEL', {key}, 'a'"),
            6 => format!("'MGET', {key}, 'a', 'b', 'nokey'"),
            7 => format!("'TYPE', {key}"),
            8 => format!("'STRLEN', {key}"),
            9 => format!("'EXISTS', {key}, {key}"),
            10 => format!("'SET', {key}, {}, 'NX', 'GET'", self.word()),
            11 => format!("'GET', {}", self.value(1)),
            12 => {
                one_of(&mut self.draws, &["'nope'", "'NOPE', 1", "'get'", "'set', 'a'"]).to_owned()
            }
            13 => {
                one_of(&mut self.draws, &["'multi'", "'eval', 'return 1', 0", "'exec'"]).to_owned()
            }
            14 => one_of(&mut self.draws, &["", "nil", "{}", "1", "true", "'ping'"]).to_owned(),
            _ => format!("'PUBLISH', {key}, {}", self.word()),
        }
    }

    /// An argument of a command, as a number or as text.
    fn word(&mut self) -> String {
        match self.draws.index(4) {
            0 => self.text(),
            1 => self.whole(),
            2 => self.quarter(),
            _ => "ARGV[1] or 'none'".to_owned(),
        }
    }

    fn json(&mut self, depth: usize) -> String {
        match self.draws.index(if depth == 0 { 5 } else { 8 }) {
            0 => one_of(&mut self.draws, &["true", "false", "null"]).to_owned(),
            1 => self.whole(),
            2 => {
                let odd = ["1.5", "-0", "1e5", "0x1f", "1e400", "+1", ".5", "nan", "-inf", "01"];
                one_of(&mut self.draws, &odd).to_owned()
            }
            3 => "\"a\\u00e9\\n\\/\\ud83d\\ude00\"".to_owned(),
            4 => format!("\"{}\"", one_of(&mut self.draws, &["", "x", "a b", "\\\\", "\\\""])),
            5 | 6 => {
                let items: Vec<_> =
                    (0..self.draws.index(4)).map(|_| self.json(depth - 1)).collect();
                format!("[{}]", items.join(one_of(&mut self.draws, &[",", " , "])))
            }
            _ => {
                let mut fields = Vec::new();
                for _ in 0..self.draws.index(4) {
                    let name = one_of(&mut self.draws, &["a", "b", "c", "1", ""]);
                    fields.push(format!("\"{name}\":{}", self.json(depth - 1)));
                }
                format!("{{{}}}", fields.join(","))
            }
        }
    }
}
