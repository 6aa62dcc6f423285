//! Passes a client's command to what carries it out: the session, the scripts or the keyspace.

use selvedge_core::value::Value;

use super::Host;
use super::command::{self, Failure};
use super::number::parse_int;
use super::scripting::Access;
use super::session::{Session, Transaction};

/// The commands that are not the keyspace's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outer {
    Multi,
    Exec,
    Discard,
    Asking,
    Fcall(Access),
    Eval(Access),
    Evalsha(Access),
    Function,
    Script,
}

/// Name, fewest words and most words of each command, its own name included.
const OUTER: [(&str, usize, usize, Outer); 12] = [
    ("multi", 1, 1, Outer::Multi),
    ("exec", 1, 1, Outer::Exec),
    ("discard", 1, 1, Outer::Discard),
    ("asking", 1, 1, Outer::Asking),
    ("fcall", 3, usize::MAX, Outer::Fcall(Access::ReadWrite)),
    ("fcall_ro", 3, usize::MAX, Outer::Fcall(Access::ReadOnly)),
    ("eval", 3, usize::MAX, Outer::Eval(Access::ReadWrite)),
    ("eval_ro", 3, usize::MAX, Outer::Eval(Access::ReadOnly)),
    ("evalsha", 3, usize::MAX, Outer::Evalsha(Access::ReadWrite)),
    ("evalsha_ro", 3, usize::MAX, Outer::Evalsha(Access::ReadOnly)),
    ("function", 2, usize::MAX, Outer::Function),
    ("script", 2, usize::MAX, Outer::Script),
];

/// Command, subcommand, fewest words and most words, both names included.
const SUBCOMMANDS: [(&str, &str, usize, usize); 8] = [
    ("function", "delete", 3, 3),
    ("function", "flush", 2, usize::MAX),
    ("function", "list", 2, usize::MAX),
    ("function", "load", 3, usize::MAX),
    ("function", "stats", 2, 2),
    ("script", "exists", 3, usize::MAX),
    ("script", "flush", 2, usize::MAX),
    ("script", "load", 3, 3),
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
    /// As [`Host::call`], for words that are bytes already: a call of a function copies none.
    pub fn call_words(&mut self, argv: &[Vec<u8>]) -> Value {
        let is_function = argv.first().is_some_and(|name| name.eq_ignore_ascii_case(b"fcall"));
        if !is_function || self.session.transaction.is_some() || self.session.asking {
            return self.call(argv);
        }
        let mut store = self.store.lock();
        store.begin_call();
        store.asking = false;
        drop(store);
        match self.check(argv, None) {
            Ok(_) => self.scripting.fcall(Access::ReadWrite, &argv[1..]),
            Err(refusal) => refusal,
        }
    }

    pub(crate) fn dispatch(&mut self, session: &mut Session, argv: Vec<Vec<u8>>) -> Value {
        self.store.lock().asking = session.asking;
        let asks = argv.len() == 1 && argv[0].eq_ignore_ascii_case(b"asking");
        let reply = self.dispatch_checked(session, argv);
        // It lasts for one command, or for one transaction.
        session.asking &= session.in_transaction();
        session.asking |= asks && !session.in_transaction() && self.config.cluster;
        reply
    }

    fn dispatch_checked(&mut self, session: &mut Session, argv: Vec<Vec<u8>>) -> Value {
        let checked = match self.check(&argv, session.transaction.as_ref()) {
            Ok(checked) => checked,
            Err(refusal) => return refused(session, &argv, refusal),
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
            (Checked::Outer(_) | Checked::Keyspace, None) => self.run(argv),
        }
    }

    /// Refuses what the server refuses before it carries out or queues a command.
    fn check(&self, argv: &[Vec<u8>], open: Option<&Transaction>) -> Result<Checked, Value> {
        let Some(name) = argv.first() else { return Err(Failure::unknown_command(argv).into()) };
        if argv.iter().any(|word| word.len() > self.config.value_bytes_max) {
            return Err(Value::Error("ERR Protocol error: invalid bulk length".to_owned()));
        }
        let checked = if let Some((known, fewest, most, outer)) = outer(name) {
            if !(*fewest..=*most).contains(&argv.len()) {
                return Err(Failure::arity(known).into());
            }
            if matches!(outer, Outer::Function | Outer::Script) {
                check_subcommand(known, argv)?;
            }
            Checked::Outer(*outer)
        } else {
            let spec = command::lookup(name).ok_or_else(|| Failure::unknown_command(argv))?;
            if !spec.accepts(argv.len()) {
                return Err(Failure::arity(spec.name).into());
            }
            Checked::Keyspace
        };
        let store = self.store.lock();
        match open {
            Some(_) => store.judge_queued_keys(&keys_of(argv))?,
            None => store.judge_keys(&keys_of(argv))?,
        }
        let writes = command::lookup(name).is_some_and(|spec| spec.flags.write);
        match &store.write_refusal {
            Some(text) if writes => Err(Value::Error(text.clone())),
            _ => Ok(checked),
        }
    }

    /// Carries out a checked command outside any transaction.
    fn run(&mut self, argv: Vec<Vec<u8>>) -> Value {
        let [name, arguments @ ..] = &argv[..] else {
            return Failure::unknown_command(&argv).into();
        };
        let Some((.., outer)) = outer(name) else { return self.store.lock().execute(argv) };
        match outer {
            Outer::Fcall(access) => self.scripting.fcall(*access, arguments),
            Outer::Eval(access) => self.scripting.eval(*access, arguments),
            Outer::Evalsha(access) => self.scripting.evalsha(*access, arguments),
            Outer::Function => self.scripting.function(arguments),
            Outer::Script => self.scripting.script(arguments),
            Outer::Asking if self.config.cluster => Value::Status("OK".to_owned()),
            Outer::Asking => {
                Value::Error("ERR This instance has cluster support disabled".to_owned())
            }
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
        let keys: Vec<&[u8]> = transaction.queue.iter().flat_map(|argv| keys_of(argv)).collect();
        if let Err(refusal) = self.store.lock().judge_keys(&keys) {
            return refusal;
        }
        Value::Array(transaction.queue.into_iter().map(|argv| self.run(argv)).collect())
    }
}

/// Refuses a subcommand that there is not, or that has too few or too many words.
fn check_subcommand(command: &str, argv: &[Vec<u8>]) -> Result<(), Failure> {
    let given = argv.get(1).map_or(&[][..], Vec::as_slice);
    let known = SUBCOMMANDS.iter().find(|(parent, name, ..)| {
        *parent == command && given.eq_ignore_ascii_case(name.as_bytes())
    });
    match known {
        Some((_, _, fewest, most)) if (*fewest..=*most).contains(&argv.len()) => Ok(()),
        Some((_, name, ..)) => Err(Failure::arity(&format!("{command}|{name}"))),
        None => {
            let (given, command) = (String::from_utf8_lossy(given), command.to_uppercase());
            let text = format!("ERR unknown subcommand '{given}'. Try {command} HELP.");
            Err(Failure::owned(text))
        }
    }
}

/// A refusal breaks the open transaction; that of EXEC ends it.
fn refused(session: &mut Session, argv: &[Vec<u8>], refusal: Value) -> Value {
    let is_exec = argv.first().is_some_and(|name| name.eq_ignore_ascii_case(b"exec"));
    if let (true, Value::Error(text)) = (is_exec, &refusal) {
        session.transaction = None;
        let reason = text.strip_prefix("ERR ").unwrap_or(text);
        return Value::Error(format!("EXECABORT Transaction discarded because of: {reason}"));
    }
    if let Some(transaction) = &mut session.transaction {
        transaction.broken = true;
    }
    refusal
}

/// The keys that a command names, as far as it can be told without running it.
pub(super) fn keys_of(argv: &[Vec<u8>]) -> Vec<&[u8]> {
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

#[cfg(test)]
mod tests {
    use crate::host::{Host, HostConfig};

    /// The replies to these lines in order, as they print.
    fn replies(lines: &[&str]) -> Vec<String> {
        let mut host = Host::new(HostConfig::default());
        let call = |line: &&str| host.call(&line.split(' ').collect::<Vec<_>>());
        lines.iter().map(call).map(|reply| format!("{reply:?}")).collect()
    }

    fn last(lines: &[&str]) -> String {
        replies(lines).pop().unwrap_or_default()
    }

    #[test]
    fn a_bad_subcommand_is_refused_while_queueing_and_breaks_the_transaction() {
        let bad =
            ["FUNCTION NOPE", "FUNCTION LOAD", "FUNCTION STATS x", "SCRIPT NOPE", "SCRIPT LOAD"];
        for line in bad {
            let [_, refused, end] = &replies(&["MULTI", line, "EXEC"])[..] else { panic!() };
            assert!(refused.starts_with("Error("), "{line}: {refused}");
            assert!(end.contains("EXECABORT"), "{line}: {end}");
        }
        assert!(last(&["MULTI", "FUNCTION LIST", "SCRIPT FLUSH", "EXEC"]).starts_with("Array("));
    }

    #[test]
    fn an_exec_with_a_word_too_many_ends_the_transaction() {
        let [_, end, after] = &replies(&["MULTI", "EXEC x", "EXEC"])[..] else { panic!() };
        let reason = "EXECABORT Transaction discarded because of: \
                      wrong number of arguments for 'exec' command";
        assert!(end.contains(reason), "{end}");
        assert!(after.contains("EXEC without MULTI"), "{after}");
        assert!(last(&["EXEC x"]).contains(reason));
        assert!(last(&["MULTI", "DISCARD x", "EXEC"]).contains("previous errors"));
    }

    #[test]
    fn subcommands_of_script_say_what_is_wrong_with_their_words() {
        let mode = "SCRIPT FLUSH only support SYNC|ASYNC option";
        assert_eq!(last(&["SCRIPT FLUSH SYNC"]), "Status(\"OK\")");
        assert_eq!(last(&["SCRIPT FLUSH async"]), "Status(\"OK\")");
        assert!(last(&["SCRIPT FLUSH NO"]).contains(mode));
        assert!(last(&["SCRIPT FLUSH SYNC x"]).contains(mode));
        let arity = "wrong number of arguments for 'script|load' command";
        assert!(last(&["SCRIPT LOAD"]).contains(arity));
        assert!(last(&["script Load a b"]).contains(arity));
        assert!(last(&["SCRIPT NOPE"]).contains("unknown subcommand 'NOPE'. Try SCRIPT HELP."));
    }
}
