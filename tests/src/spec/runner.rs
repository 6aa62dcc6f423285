//! Runs cases on a store.

use selvedge_core::push::Channel;
use selvedge_core::value::Value;

use crate::connection::Message;
use crate::spec::expect::{Outcome, judge, judge_messages};
use crate::spec::keyspace::{Keyspace, ask};
use crate::spec::matcher::Matcher;
use crate::spec::report::{Failure, show_reply};
use crate::spec::scope::Scope;
use crate::spec::store::{SpecStore, clock_ms};
use crate::spec::suite::Suite;
use crate::spec::syntax::{Act, Action, Case, Changes, Expectation, Pattern, Positions, SpecFile};
use crate::spec::word::Word;

/// Runs the cases of one file that the filter selects: by a part of the function's name, of the
/// path below the suite's folder, or of the case's name.
pub fn run_file(
    suite: &Suite,
    file: &SpecFile,
    filter: &str,
    store: &mut dyn SpecStore,
    tally: &mut Tally,
) {
    let path = file.path.strip_prefix(suite.folder()).unwrap_or(&file.path);
    let function = file.function.as_deref().unwrap_or_default();
    let all = function.contains(filter) || path.to_string_lossy().contains(filter);
    for case in file.cases.iter().filter(|case| all || case.name.contains(filter)) {
        let mut run = Run { suite, file, case, store: &mut *store, failures: Vec::new() };
        if let Err(stop) = run.case() {
            run.fail(stop);
        }
        tally.cases += 1;
        tally.failed += usize::from(!run.failures.is_empty());
        tally.failures.append(&mut run.failures);
    }
}

/// What came of a run.
#[derive(Debug, Default)]
pub struct Tally {
    /// Cases run.
    pub cases: usize,
    /// Cases with a failure.
    pub failed: usize,
    /// Everything that did not hold.
    pub failures: Vec<Failure>,
}

/// What ends a case, or fails one expectation of it: the line, its text, and what came instead.
struct Fault {
    line: usize,
    expected: String,
    got: String,
}

struct Run<'a> {
    suite: &'a Suite,
    file: &'a SpecFile,
    case: &'a Case,
    store: &'a mut dyn SpecStore,
    failures: Vec<Failure>,
}

impl<'a> Run<'a> {
    /// Starts from an empty keyspace and does one act after the other.
    fn case(&mut self) -> Result<(), Fault> {
        let now_ms = self.fresh().map_err(|got| Fault {
            line: self.case.line,
            expected: "an empty store".to_owned(),
            got,
        })?;
        let mut scope = Scope::new(self.suite, self.file, now_ms);
        self.acts(&mut scope, &self.case.acts, 0)
    }

    fn fresh(&mut self) -> Result<i64, String> {
        ask(self.store, &[b"FLUSHALL"])?;
        self.store.published().map_err(|error| error.to_string())?;
        clock_ms(self.store)
    }

    fn acts(&mut self, scope: &mut Scope<'a>, acts: &'a [Act], depth: usize) -> Result<(), Fault> {
        for act in acts {
            let fault = |got| Fault { line: act.line, expected: act.text.clone(), got };
            match &act.action {
                Action::Perform(name) => {
                    let setup = self.suite.setup(self.file, name);
                    let setup = setup.ok_or_else(|| fault("no such setup".to_owned()))?;
                    if depth > SETUP_DEPTH_MAX {
                        return Err(fault("setups that perform each other".to_owned()));
                    }
                    // The report names the line of this case, and then that of the setup.
                    self.acts(scope, &setup.acts, depth + 1).map_err(|inner| {
                        let Fault { line, expected, got } = inner;
                        fault(format!("in the setup, line {line}: {expected}: {got}"))
                    })?;
                }
                Action::Set(name, word) => {
                    let value = scope.value(word).map_err(fault)?;
                    scope.set(name, value);
                }
                Action::Default(name, _) if scope.is_set(name) => {}
                Action::Default(name, word) => {
                    let value = scope.value(word).map_err(fault)?;
                    scope.set(name, value);
                }
                Action::Run(_) | Action::Read(..) | Action::Call(..) | Action::Fcall { .. } => {
                    self.command(scope, act).map_err(fault)?;
                }
            }
        }
        Ok(())
    }

    /// Carries out an act that sends a command, and judges what must hold after it.
    fn command(&mut self, scope: &mut Scope<'a>, act: &Act) -> Result<(), String> {
        let command = self.spell(scope, &act.action)?;
        let wants = |wanted: fn(&Expectation) -> bool| {
            act.expectations.iter().any(|expect| wanted(&expect.expectation))
        };
        let before = if wants(|wanted| matches!(wanted, Expectation::Unchanged(_))) {
            Some(Keyspace::read(self.store)?)
        } else {
            None
        };
        let began_ms = clock_ms(self.store)?;
        let reply = self.store.call(&command).map_err(|error| format!("no reply: {error}"))?;
        let window = (began_ms, clock_ms(self.store)?);
        if let Action::Read(name, _) = &act.action {
            scope.set(name, bare_text(&reply)?);
        } else if !wants(judges_reply) && is_refusal(&act.action, &reply) {
            return Err(show_reply(&reply));
        }
        let outcome = Outcome { reply, before };
        let mut matcher = Matcher { scope, window };
        for expect in &act.expectations {
            match judge(self.store, &mut matcher, &outcome, &expect.expectation) {
                Ok(None) => {}
                Ok(Some(got)) | Err(got) => {
                    let (line, expected) = (expect.line, expect.text.clone());
                    self.fail(Fault { line, expected, got });
                }
            }
        }
        self.messages(&mut matcher, act)
    }

    /// The contract says of every function what it publishes, so a `call` without a `published`
    /// line must publish nothing. Preparations may publish what they like. Our own hints are judged
    /// where a line names them: they follow from the moves that the cases show anyway.
    fn messages(&mut self, matcher: &mut Matcher<'_, '_>, act: &Act) -> Result<(), String> {
        let messages = self.store.published().map_err(|error| error.to_string())?;
        let (hints, messages): (Vec<_>, Vec<_>) =
            messages.into_iter().partition(|message| Channel::is_ours(&message.channel));
        let strict = matches!(act.action, Action::Call(None, _));
        self.compare(matcher, act, &messages, strict, |wanted| {
            if let Expectation::Published(message) = wanted { Some(message.as_ref()) } else { None }
        })?;
        self.compare(matcher, act, &hints, false, |wanted| {
            if let Expectation::Hinted(message) = wanted { Some(message.as_ref()) } else { None }
        })
    }

    /// Compares messages with the lines that `of` selects; without such lines, nothing may have
    /// come when that is asked for.
    fn compare(
        &mut self,
        matcher: &mut Matcher<'_, '_>,
        act: &Act,
        messages: &[Message],
        strict: bool,
        of: impl Fn(&Expectation) -> Option<Option<&(Word, Pattern)>>,
    ) -> Result<(), String> {
        let lines: Vec<_> = act
            .expectations
            .iter()
            .filter_map(|expect| Some((expect, of(&expect.expectation)?)))
            .collect();
        if lines.is_empty() && !strict {
            return Ok(());
        }
        let expected: Vec<_> = lines.iter().filter_map(|(_, message)| *message).collect();
        if let Some(got) = judge_messages(matcher, &expected, messages)? {
            let (line, expected) = match lines.first() {
                Some((expect, _)) => (expect.line, expect.text.clone()),
                None => (act.line, format!("{} (publishing nothing)", act.text)),
            };
            self.fail(Fault { line, expected, got });
        }
        Ok(())
    }

    /// The command of an action, with all values filled in.
    fn spell(&self, scope: &Scope<'_>, action: &Action) -> Result<Vec<Vec<u8>>, String> {
        match action {
            Action::Run(words) | Action::Read(_, words) => scope.values(words),
            Action::Fcall { function, keys, args } => {
                Ok(fcall(function, scope.values(keys)?, scope.values(args)?))
            }
            Action::Call(function, changes) => {
                let file = match function {
                    None => self.file,
                    Some(name) => self.suite.function(name).ok_or("that has no spec file")?,
                };
                let function = file.function.as_deref().ok_or("which function?")?;
                changes.check(file)?;
                let keys = changes.apply(scope, file, &file.keys, changes.extra_keys.as_deref())?;
                let args = changes.apply(scope, file, &file.args, changes.extra_args.as_deref())?;
                Ok(fcall(function, keys, args))
            }
            Action::Perform(_) | Action::Set(..) | Action::Default(..) => {
                Err("sends no command".to_owned())
            }
        }
    }

    fn fail(&mut self, fault: Fault) {
        let Fault { line, expected, got } = fault;
        let (path, case, store) =
            (self.file.path.clone(), self.case.name.clone(), self.store.name());
        self.failures.push(Failure { path, line, case, store, expected, got });
    }
}

impl Changes {
    /// Refuses a name that is neither a key nor an argument: a misspelt one would change nothing.
    fn check(&self, file: &SpecFile) -> Result<(), String> {
        let known = |name: &String| {
            file.keys.named.iter().chain(&file.args.named).any(|(known, _)| known == name)
        };
        let names = self.values.iter().map(|(name, _)| name).chain(&self.omitted);
        match names.into_iter().find(|name| !known(name)) {
            Some(unknown) => Err(format!("{unknown} is no key or argument")),
            None => Ok(()),
        }
    }

    fn apply(
        &self,
        scope: &Scope<'_>,
        file: &SpecFile,
        positions: &Positions,
        extra: Option<&[Word]>,
    ) -> Result<Vec<Vec<u8>>, String> {
        let is_omitted = |name: &String| self.omitted.contains(name);
        let sent = positions.named.iter().take_while(|(name, _)| !is_omitted(name)).count();
        if let Some((name, _)) = positions.named[sent..].iter().find(|(name, _)| !is_omitted(name))
        {
            return Err(format!("{name} cannot stay when one before it is omitted"));
        }
        let mut values = Vec::new();
        for (name, default) in &positions.named[..sent] {
            values.push(match self.values.iter().rfind(|(changed, _)| changed == name) {
                Some((_, word)) => scope.value(word)?,
                None => scope.position(file, name, default)?,
            });
        }
        // Values behind the named ones would take the positions of those that are omitted.
        let usual: &[_] = if sent < positions.named.len() { &[] } else { &positions.rest };
        for word in extra.unwrap_or(usual) {
            values.push(scope.value_in(file, word)?);
        }
        Ok(values)
    }
}

fn fcall(function: &str, keys: Vec<Vec<u8>>, args: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
    let count = keys.len().to_string().into_bytes();
    let mut command = vec![b"FCALL".to_vec(), function.as_bytes().to_vec(), count];
    command.extend(keys);
    command.extend(args);
    command
}

fn judges_reply(expectation: &Expectation) -> bool {
    matches!(expectation, Expectation::Reply(_) | Expectation::Raw(_) | Expectation::Error(_))
}

/// A call whose reply is not checked prepares the case, and must succeed.
fn is_refusal(action: &Action, reply: &Value) -> bool {
    match reply {
        Value::Error(_) => true,
        Value::Array(elements) => {
            !matches!(action, Action::Run(_)) && elements.first() == Some(&Value::Int(0))
        }
        Value::Nil | Value::Int(_) | Value::Bulk(_) | Value::Status(_) => false,
    }
}

fn bare_text(reply: &Value) -> Result<Vec<u8>, String> {
    match reply {
        Value::Bulk(text) => Ok(text.clone()),
        Value::Int(number) => Ok(number.to_string().into_bytes()),
        Value::Status(text) => Ok(text.clone().into_bytes()),
        other @ (Value::Nil | Value::Error(_) | Value::Array(_)) => Err(show_reply(other)),
    }
}

/// Setups build on a few others at most; more is a circle.
const SETUP_DEPTH_MAX: usize = 16;
