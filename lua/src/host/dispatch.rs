//! From a client's command to whoever carries it out: the session, the scripts or the keyspace.

use selvedge_core::value::Value;

use super::Host;
use super::command::{self, Failure};
use super::library::Access;
use super::number::parse_int;
use super::session::{Session, Transaction};
use super::store::{Slots, common_slot};

/// The commands that are not the keyspace's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outer {
    Multi,
    Exec,
    Discard,
    Fcall(Access),
    Eval(Access),
    Evalsha(Access),
    Function,
    Script,
}

/// Name, fewest words and most words of each command, its own name included.
const OUTER: [(&str, usize, usize, Outer); 11] = [
    ("multi", 1, 1, Outer::Multi),
    ("exec", 1, 1, Outer::Exec),
    ("discard", 1, 1, Outer::Discard),
    ("fcall", 3, usize::MAX, Outer::Fcall(Access::ReadWrite)),
    ("fcall_ro", 3, usize::MAX, Outer::Fcall(Access::ReadOnly)),
    ("eval", 3, usize::MAX, Outer::Eval(Access::ReadWrite)),
    ("eval_ro", 3, usize::MAX, Outer::Eval(Access::ReadOnly)),
    ("evalsha", 3, usize::MAX, Outer::Evalsha(Access::ReadWrite)),
    ("evalsha_ro", 3, usize::MAX, Outer::Evalsha(Access::ReadOnly)),
    ("function", 2, usize::MAX, Outer::Function),
    ("script", 2, usize::MAX, Outer::Script),
];

/// Whether this is one of the commands that only a client may send.
pub(crate) fn is_known(name: &[u8]) -> bool {
    outer(name).is_some()
}

fn outer(name: &[u8]) -> Option<&'static (&'static str, usize, usize, Outer)> {
    OUTER.iter().find(|(known, ..)| name.eq_ignore_ascii_case(known.as_bytes()))
}

/// A command that exists and has the right number of words.
enum Checked {
    Outer(Outer),
    Keyspace,
}

impl Host {
    pub(crate) fn dispatch(&mut self, session: &mut Session, argv: Vec<Vec<u8>>) -> Value {
        let checked = match self.check(&argv) {
            Ok(checked) => checked,
            Err(refusal) => {
                return match &mut session.transaction {
                    Some(transaction) => {
                        transaction.broken = true;
                        refusal
                    }
                    None => refusal,
                };
            }
        };
        match (checked, session.transaction.take()) {
            (Checked::Outer(Outer::Exec), Some(transaction)) => self.exec(transaction),
            (Checked::Outer(Outer::Discard), Some(_)) => Value::Status("OK".to_owned()),
            (Checked::Outer(Outer::Multi), Some(mut transaction)) => {
                transaction.broken = true;
                session.transaction = Some(transaction);
                Value::Error("ERR Command 'multi' not allowed inside a transaction".to_owned())
            }
            (_, Some(mut transaction)) => {
                transaction.queue.push(argv);
                session.transaction = Some(transaction);
                Value::Status("QUEUED".to_owned())
            }
            (Checked::Outer(Outer::Multi), None) => {
                session.transaction = Some(Transaction::default());
                Value::Status("OK".to_owned())
            }
            (Checked::Outer(Outer::Exec), None) => {
                Value::Error("ERR EXEC without MULTI".to_owned())
            }
            (Checked::Outer(Outer::Discard), None) => {
                Value::Error("ERR DISCARD without MULTI".to_owned())
            }
            (Checked::Outer(_) | Checked::Keyspace, None) => self.run(&argv),
        }
    }

    /// Refuses what the server refuses before it looks at the keyspace.
    fn check(&self, argv: &[Vec<u8>]) -> Result<Checked, Value> {
        let Some(name) = argv.first() else { return Err(Failure::unknown_command(argv).into()) };
        if argv.iter().any(|word| word.len() > self.config.value_bytes_max) {
            return Err(Value::Error("ERR Protocol error: invalid bulk length".to_owned()));
        }
        let checked = if let Some((known, fewest, most, outer)) = outer(name) {
            if !(*fewest..=*most).contains(&argv.len()) {
                return Err(Failure::arity(known).into());
            }
            Checked::Outer(*outer)
        } else {
            let spec = command::lookup(name).ok_or_else(|| Failure::unknown_command(argv))?;
            if !spec.accepts(argv.len()) {
                return Err(Failure::arity(spec.name).into());
            }
            if spec.flags.write
                && let Some(text) = &self.store.lock().write_refusal
            {
                return Err(Value::Error(text.clone()));
            }
            Checked::Keyspace
        };
        if self.config.cluster && common_slot(keys_of(argv)) == Slots::Several {
            return Err(cross_slot());
        }
        Ok(checked)
    }

    /// Carries out a checked command outside any transaction.
    fn run(&mut self, argv: &[Vec<u8>]) -> Value {
        let [name, arguments @ ..] = argv else {
            return Failure::unknown_command(argv).into();
        };
        let Some((.., outer)) = outer(name) else { return self.store.lock().execute(argv) };
        match outer {
            Outer::Fcall(access) => self.scripting.fcall(*access, arguments),
            Outer::Eval(access) => self.scripting.eval(*access, arguments),
            Outer::Evalsha(access) => self.scripting.evalsha(*access, arguments),
            Outer::Function => self.scripting.function(arguments),
            Outer::Script => self.scripting.script(arguments),
            Outer::Multi | Outer::Exec | Outer::Discard => {
                let name = String::from_utf8_lossy(name).to_lowercase();
                Value::Error(format!("ERR Command '{name}' not allowed inside a transaction"))
            }
        }
    }

    /// Runs the queue. A command that fails does not keep the others from running.
    fn exec(&mut self, transaction: Transaction) -> Value {
        if transaction.broken {
            let text = "EXECABORT Transaction discarded because of previous errors.";
            return Value::Error(text.to_owned());
        }
        let keys = transaction.queue.iter().flat_map(|argv| keys_of(argv));
        if self.config.cluster && common_slot(keys) == Slots::Several {
            return cross_slot();
        }
        Value::Array(transaction.queue.iter().map(|argv| self.run(argv)).collect())
    }
}

/// The keys that a command names, as far as it can be told without running it.
fn keys_of(argv: &[Vec<u8>]) -> Vec<&[u8]> {
    let Some(name) = argv.first() else { return Vec::new() };
    match outer(name) {
        Some((.., Outer::Fcall(_) | Outer::Eval(_) | Outer::Evalsha(_))) => {
            let count = argv.get(2).and_then(|count| parse_int(count)).unwrap_or(0);
            let count = usize::try_from(count).unwrap_or(0);
            argv.iter().skip(3).take(count).map(Vec::as_slice).collect()
        }
        Some(_) => Vec::new(),
        None => command::lookup(name).map(|spec| spec.keys(argv)).unwrap_or_default(),
    }
}

fn cross_slot() -> Value {
    Value::Error("CROSSSLOT Keys in request don't hash to the same slot".to_owned())
}
