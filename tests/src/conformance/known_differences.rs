//! The known differences between Valkey 9 and Redis 7.0, by name. The host follows Valkey.

use selvedge_core::value::Value;

/// A text of Redis, and the one that Valkey has in its place.
struct TextDifference {
    name: &'static str,
    redis: &'static str,
    valkey: &'static str,
}

const fn text_difference(
    name: &'static str,
    redis: &'static str,
    valkey: &'static str,
) -> TextDifference {
    TextDifference { name, redis, valkey }
}

static TEXT_DIFFERENCES: &[TextDifference] = &[
    text_difference(
        "streams out of balance",
        "Unbalanced XREAD list of streams",
        "Unbalanced 'xread' list of streams",
    ),
    text_difference(
        "a script calls an unknown command",
        "Unknown Redis command called",
        "Unknown command called",
    ),
    text_difference(
        "a script calls with the wrong number of words",
        "args calling Redis command",
        "args calling command",
    ),
    text_difference(
        "a script calls what is not for scripts",
        "This Redis command is not allowed",
        "This Valkey command is not allowed",
    ),
    text_difference("a script calls nothing", "for this redis lib call", "for this call"),
    text_difference(
        "a script calls with a word that is none",
        "Lua redis lib command arguments",
        "Command arguments",
    ),
    text_difference("arguments of log", "redis.log()", "server.log()"),
    text_difference("level of log", "Invalid debug level.", "Invalid log level."),
    text_difference("arguments of setresp", "redis.setresp()", "server.setresp()"),
    text_difference(
        "arguments of set_repl",
        "redis.set_repl() requires two arguments",
        "server.set_repl() requires one argument",
    ),
];

/// The one difference in texts that is not a matter of fixed texts.
const SCRIPT_NAMES: &str = "Redis names the script in front of the place of an error";

/// A call that the two servers answer, or carry out, differently.
struct BehaviourDifference {
    name: &'static str,
    /// Whether this is such a call.
    applies: fn(&Call<'_>) -> bool,
    /// Whether the keyspaces may be different behind it.
    parts: bool,
}

/// A command with the replies of both servers.
struct Call<'a> {
    command: &'a [Vec<u8>],
    valkey: &'a Value,
    redis: &'a Value,
}

static BEHAVIOUR_DIFFERENCES: &[BehaviourDifference] = &[
    BehaviourDifference {
        name: "Redis spells scores with seventeen digits, Valkey with as few as needed",
        applies: |call| call.is_about("Z") && numbers(call.valkey) == numbers(call.redis),
        parts: false,
    },
    BehaviourDifference {
        name: "Redis takes hexadecimal scores, Valkey refuses them",
        applies: |call| {
            let hexadecimal = |word: &Vec<u8>| word.to_ascii_lowercase().starts_with(b"0x");
            call.is_about("Z") && call.command.iter().any(hexadecimal)
        },
        parts: true,
    },
    BehaviourDifference {
        name: "Redis 7.0 knows no WITHSCORE of ZRANK and ZREVRANK",
        applies: |call| call.is_about("ZRANK") || call.is_about("ZREVRANK"),
        parts: false,
    },
    BehaviourDifference {
        name: "Redis reads some cursors that Valkey refuses, and the other way round",
        applies: |call| {
            let scans = ["SCAN", "SSCAN", "HSCAN", "ZSCAN"].iter().any(|name| call.is_about(name));
            let refused = Value::Error("ERR invalid cursor".to_owned());
            scans && (*call.valkey == refused || *call.redis == refused)
        },
        parts: false,
    },
    BehaviourDifference {
        name: "Redis scans for a type that there is not, Valkey refuses",
        applies: |call| {
            let unknown = "ERR unknown type name";
            matches!(call.valkey, Value::Error(text) if text.starts_with(unknown))
        },
        parts: false,
    },
    BehaviourDifference {
        name: "Redis counts a key set with a passed expiry until it is touched",
        applies: |call| call.is_about("DBSIZE") && call.redis > call.valkey,
        parts: false,
    },
    BehaviourDifference {
        name: "Redis 7.0 says that elements are too large when the numbers of an id are used up",
        applies: |call| {
            let reason = "ERR Elements are too large to be stored";
            call.is_about("XADD") && *call.redis == Value::Error(reason.to_owned())
        },
        parts: false,
    },
    BehaviourDifference {
        name: "Redis 7.0 knows no + of XREAD",
        applies: |call| call.is_about("XREAD") && call.command.iter().any(|word| word == b"+"),
        parts: false,
    },
];

/// Differences that no sequence goes near while Redis takes part: what they leave behind could
/// not be told from a mistake.
static AVOIDED: &[&str] = &[
    "Redis writes numbers that scripts pass on or return with seventeen digits",
    "Valkey yields the text keys of a Lua table, and so of an encoded one, in another order",
    "Redis cuts and trims error replies and big numbers of scripts at other places",
    "Redis has no `server` and no `os` for scripts",
    "Redis 7.0 ends when a script raises a table without a text",
];

impl Call<'_> {
    /// Whether the name of the command begins so.
    fn is_about(&self, name: &str) -> bool {
        let said = self.command.first().map_or(&[][..], Vec::as_slice);
        said.len() >= name.len() && said[..name.len()].eq_ignore_ascii_case(name.as_bytes())
    }
}

/// A reply with every number in one spelling.
fn numbers(value: &Value) -> Value {
    match value {
        Value::Bulk(bytes) => {
            let number = std::str::from_utf8(bytes).ok().and_then(|text| text.parse::<f64>().ok());
            Value::Bulk(number.map_or(bytes.clone(), |number| number.to_string().into_bytes()))
        }
        Value::Array(items) => Value::Array(items.iter().map(numbers).collect()),
        Value::Nil | Value::Int(_) | Value::Status(_) | Value::Error(_) => value.clone(),
    }
}

/// How two replies to the same command compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DifferenceKind {
    /// The replies differ, and nothing in the tables says why.
    Unknown,
    /// Known, and the keyspaces are still the same.
    Known,
    /// Known, and from here on the keyspaces are different.
    Parted,
}

/// The names of all known differences.
pub fn names() -> impl Iterator<Item = &'static str> {
    let wordings =
        TEXT_DIFFERENCES.iter().map(|text_difference| text_difference.name).chain([SCRIPT_NAMES]);
    wordings
        .chain(BEHAVIOUR_DIFFERENCES.iter().map(|conduct| conduct.name))
        .chain(AVOIDED.iter().copied())
}

/// What Valkey would have said in place of this reply of Redis.
#[must_use]
pub fn reconcile(reply: Value) -> Value {
    match reply {
        Value::Error(text) => Value::Error(reworded(text)),
        // A script may catch an error and return its text.
        Value::Bulk(bytes) => match String::from_utf8(bytes) {
            Ok(text) => Value::Bulk(reworded(text).into_bytes()),
            Err(error) => Value::Bulk(error.into_bytes()),
        },
        Value::Array(items) => Value::Array(items.into_iter().map(reconcile).collect()),
        other @ (Value::Nil | Value::Int(_) | Value::Status(_)) => other,
    }
}

fn reworded(text: String) -> String {
    let text = without_script_name(text);
    TEXT_DIFFERENCES.iter().fold(text, |text, text_difference| {
        text.replace(text_difference.redis, text_difference.valkey)
    })
}

fn without_script_name(text: String) -> String {
    const MARK: &str = " script: ";
    let Some(at) = text.rfind(MARK) else { return text };
    let (front, back) = text.split_at(at + MARK.len());
    match back.split_once(", on ") {
        Some((_, place)) => format!("{front}on {place}"),
        None => text,
    }
}

/// Judges two replies that are not equal.
#[must_use]
pub fn judge(command: &[Vec<u8>], valkey: &Value, redis: &Value) -> DifferenceKind {
    let call = Call { command, valkey, redis };
    match BEHAVIOUR_DIFFERENCES.iter().find(|conduct| (conduct.applies)(&call)) {
        None => DifferenceKind::Unknown,
        Some(conduct) if conduct.parts => DifferenceKind::Parted,
        Some(_) => DifferenceKind::Known,
    }
}
