//! The known differences between Valkey 9 and Redis 7.0. The host follows Valkey; everything
//! that Redis says or does otherwise is listed here, by name.

use selvedge_core::value::Value;

/// A text of Redis, and the one that Valkey has in its place.
struct Wording {
    name: &'static str,
    redis: &'static str,
    valkey: &'static str,
}

static WORDINGS: &[Wording] = &[Wording {
    name: "streams out of balance",
    redis: "Unbalanced XREAD list of streams",
    valkey: "Unbalanced 'xread' list of streams",
}];

/// A call that the two servers answer, or carry out, differently.
struct Conduct {
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

static CONDUCTS: &[Conduct] = &[
    Conduct {
        name: "Redis spells scores with seventeen digits, Valkey with as few as needed",
        applies: |call| call.is_about("Z") && numbers(call.valkey) == numbers(call.redis),
        parts: false,
    },
    Conduct {
        name: "Redis takes hexadecimal scores, Valkey refuses them",
        applies: |call| {
            let hexadecimal = |word: &Vec<u8>| word.to_ascii_lowercase().starts_with(b"0x");
            call.is_about("Z") && call.command.iter().any(hexadecimal)
        },
        parts: true,
    },
    Conduct {
        name: "Redis 7.0 knows no WITHSCORE of ZRANK and ZREVRANK",
        applies: |call| call.is_about("ZRANK") || call.is_about("ZREVRANK"),
        parts: false,
    },
    Conduct {
        name: "Redis reads some cursors that Valkey refuses, and the other way round",
        applies: |call| {
            let scans = ["SCAN", "SSCAN", "HSCAN", "ZSCAN"].iter().any(|name| call.is_about(name));
            let refused = Value::Error("ERR invalid cursor".to_owned());
            scans && (*call.valkey == refused || *call.redis == refused)
        },
        parts: false,
    },
    Conduct {
        name: "Redis scans for a type that there is not, Valkey refuses",
        applies: |call| {
            let unknown = "ERR unknown type name";
            matches!(call.valkey, Value::Error(text) if text.starts_with(unknown))
        },
        parts: false,
    },
    Conduct {
        name: "Redis 7.0 knows no + of XREAD",
        applies: |call| call.is_about("XREAD") && call.command.iter().any(|word| word == b"+"),
        parts: false,
    },
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
pub enum Verdict {
    /// The replies differ, and nothing in the tables says why.
    Unknown,
    /// Known, and the keyspaces are still the same.
    Known,
    /// Known, and from here on the keyspaces are different.
    Parted,
}

/// The names of all known differences.
pub fn names() -> impl Iterator<Item = &'static str> {
    let wordings = WORDINGS.iter().map(|wording| wording.name);
    wordings.chain(CONDUCTS.iter().map(|conduct| conduct.name))
}

/// What Valkey would have said in place of this reply of Redis.
#[must_use]
pub fn reconcile(reply: Value) -> Value {
    match reply {
        Value::Error(text) => Value::Error(reworded(text)),
        Value::Array(items) => Value::Array(items.into_iter().map(reconcile).collect()),
        other @ (Value::Nil | Value::Int(_) | Value::Status(_) | Value::Bulk(_)) => other,
    }
}

fn reworded(text: String) -> String {
    WORDINGS.iter().fold(text, |text, wording| text.replace(wording.redis, wording.valkey))
}

/// Judges two replies that are not equal.
#[must_use]
pub fn judge(command: &[Vec<u8>], valkey: &Value, redis: &Value) -> Verdict {
    let call = Call { command, valkey, redis };
    match CONDUCTS.iter().find(|conduct| (conduct.applies)(&call)) {
        None => Verdict::Unknown,
        Some(conduct) if conduct.parts => Verdict::Parted,
        Some(_) => Verdict::Known,
    }
}
