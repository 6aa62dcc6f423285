//! Why a command was refused, in the server's own words.

use std::borrow::Cow;

use selvedge_core::value::Value;

/// A refusal: nothing was changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure(Cow<'static, str>);

impl Failure {
    pub(crate) const WRONG_TYPE: Self =
        Self::text("WRONGTYPE Operation against a key holding the wrong kind of value");
    pub(crate) const NOT_AN_INTEGER: Self =
        Self::text("ERR value is not an integer or out of range");
    pub(crate) const NOT_A_FLOAT: Self = Self::text("ERR value is not a valid float");
    pub(crate) const NOT_POSITIVE: Self = Self::text("ERR value is out of range, must be positive");
    pub(crate) const SYNTAX: Self = Self::text("ERR syntax error");
    pub(crate) const NO_SUCH_KEY: Self = Self::text("ERR no such key");
    pub(crate) const TOO_LONG: Self =
        Self::text("ERR string exceeds maximum allowed size (proto-max-bulk-len)");

    pub(crate) const fn text(text: &'static str) -> Self {
        Self(Cow::Borrowed(text))
    }

    /// A reply is one line: line breaks at its end go, others become blanks.
    pub(crate) fn owned(text: String) -> Self {
        let line = text.trim_end_matches(['\r', '\n']).replace(['\r', '\n'], " ");
        Self(Cow::Owned(line))
    }

    pub(crate) fn arity(command: &str) -> Self {
        Self::owned(format!("ERR wrong number of arguments for '{command}' command"))
    }

    pub(crate) fn expire_time(command: &str) -> Self {
        Self::owned(format!("ERR invalid expire time in '{command}' command"))
    }

    /// Names a stranger's word behind a text of ours.
    pub(crate) fn naming(text: &str, word: &[u8]) -> Self {
        Self::owned(format!("{text} {}", printed(word, word.len())))
    }

    /// Names the command and the first of its arguments, 128 bytes of either at most.
    pub(crate) fn unknown_command(argv: &[Vec<u8>]) -> Self {
        let name = argv.first().map_or(&[][..], Vec::as_slice);
        let mut arguments = String::new();
        for argument in argv.iter().skip(1) {
            if arguments.len() >= QUOTED_BYTES_MAX {
                break;
            }
            let room = QUOTED_BYTES_MAX - arguments.len();
            arguments.push_str(&format!("'{}' ", printed(argument, room)));
        }
        let name = printed(name, QUOTED_BYTES_MAX);
        Self::owned(format!("ERR unknown command '{name}', with args beginning with: {arguments}"))
    }
}

impl From<Failure> for Value {
    fn from(failure: Failure) -> Self {
        Value::Error(failure.0.into_owned())
    }
}

/// How much of a stranger's words an error repeats.
const QUOTED_BYTES_MAX: usize = 128;

/// A stranger's word as C prints it, which stops at a zero byte, and as text.
fn printed(bytes: &[u8], room: usize) -> String {
    let cut = &bytes[..bytes.len().min(room)];
    let text = cut.split(|byte| *byte == 0).next().unwrap_or_default();
    String::from_utf8_lossy(text).into_owned()
}
