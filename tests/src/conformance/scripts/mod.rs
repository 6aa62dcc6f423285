//! Random Lua bodies, run as functions and as scripts.
//!
//! They exercise what crosses the boundary between Lua and the store: values of every kind in
//! either direction, errors however they are raised and caught, JSON, bits and the writing of
//! numbers.

mod bodies;
mod values;

use selvedge_sim::search::{Draws, Ratio};

use super::{Sequence, Step, one_of};

/// How many functions the library of a sequence has.
const FUNCTIONS: usize = 20;

/// What a generator of Lua text draws from.
struct Writer {
    draws: Draws,
    /// Keep to what Redis stores the same way.
    for_redis: bool,
    /// Keep to tables of one text key: in which order a table yields several is the server's own
    /// affair, since Valkey hashes texts unlike Redis and plain Lua.
    one_text_key: bool,
}

/// The sequence of a seed: a library is loaded, then its functions and other scripts are called.
#[must_use]
pub fn sequence(seed: u64, steps: usize) -> Sequence {
    drawn(Draws::seeded(seed, 0), steps)
}

/// The sequence that these draws choose.
#[must_use]
pub fn drawn(mut draws: Draws, steps: usize) -> Sequence {
    let on_redis = draws.chance(Ratio { hits: 3, of: 4 });
    let mut writer = Writer { draws, for_redis: on_redis, one_text_key: false };
    let bodies: Vec<_> = (0..FUNCTIONS).map(|_| bodies::body(&mut writer)).collect();
    let mut all = vec![Step::exact(&["FUNCTION", "LOAD", &library(&bodies)])];
    while all.len() < steps {
        all.push(step(&mut writer));
    }
    Sequence { steps: all, on_redis }
}

/// Functions with and without the right to write, registered in either form.
fn library(bodies: &[String]) -> String {
    let mut text = "#!lua name=conformance\n".to_owned();
    for (number, body) in bodies.iter().enumerate() {
        let callback = format!("function(KEYS, ARGV)\n{body}\nend");
        text += &match number % 3 {
            0 => format!("redis.register_function('f{number}', {callback})\n"),
            1 => format!(
                "redis.register_function{{function_name='f{number}', callback={callback}}}\n"
            ),
            _ => format!(
                "redis.register_function{{function_name='f{number}', flags={{'no-writes'}}, \
                 callback={callback}}}\n"
            ),
        };
    }
    text
}

fn step(writer: &mut Writer) -> Step {
    let draws = &mut writer.draws;
    let mut command = if draws.chance(Ratio { hits: 1, of: 2 }) {
        let call = if draws.chance(Ratio { hits: 1, of: 5 }) { "FCALL_RO" } else { "FCALL" };
        vec![call.to_owned(), format!("f{}", draws.index(FUNCTIONS))]
    } else {
        let call = if draws.chance(Ratio { hits: 1, of: 5 }) { "EVAL_RO" } else { "EVAL" };
        vec![call.to_owned(), bodies::body(writer)]
    };
    command.push("2".to_owned());
    command.extend([writer.key(), writer.key()]);
    command.extend((0..writer.draws.index(3)).map(|_| writer.argument()));
    Step::exact(&command)
}

impl Writer {
    fn key(&mut self) -> String {
        one_of(&mut self.draws, &["a", "b", "c", "d"]).to_owned()
    }

    fn argument(&mut self) -> String {
        match self.draws.index(4) {
            0 => self.draws.index(100).to_string(),
            1 => "-7".to_owned(),
            2 => "1.5".to_owned(),
            _ => one_of(&mut self.draws, &["", "x", "hello world", "1e3", "nil"]).to_owned(),
        }
    }
}
