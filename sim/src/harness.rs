//! Engines on the in-process host, with a clock that the test moves. Every command is traced, and
//! an engine can crash before or after any of them.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use selvedge_core::command::{Answer, Command, Ticket};
use selvedge_core::engine::{Effect, Engine, EngineConfig, Input, Observation};
use selvedge_core::error::ServerError;
use selvedge_core::time::LocalTime;
use selvedge_core::value::Value;
use selvedge_lua::host::{Host, HostConfig, Snapshot};
use selvedge_lua::library;

/// The server time at the start, in milliseconds.
pub const EPOCH_MS: u64 = 1_700_000_000_000;

/// Where an engine crashes, counted in commands of all engines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Crash {
    /// Before the command with this number is applied.
    Before(usize),
    /// After it was applied, before its answer arrives.
    After(usize),
}

/// Answers a command in place of the server, or lets it pass.
pub type Rule = Box<dyn FnMut(&Command) -> Option<Answer>>;

/// Called with the server before each command, to act as another client.
pub type BeforeCommand = Box<dyn FnMut(&mut Host, &Command)>;

/// Selects commands that are applied but whose reply is lost.
pub type ReplyLost = Box<dyn FnMut(&Command) -> bool>;

/// The inputs and effects of the first engine, to compare with another run.
#[derive(Default)]
pub struct Recording {
    /// Its inputs, and when.
    pub inputs: Vec<(LocalTime, Input)>,
    /// Its effects, as text.
    pub effects: Vec<String>,
}

/// A server, engines, and a clock.
pub struct Harness {
    /// The server.
    pub host: Host,
    /// One line for each command except page reads: engine, call and reply.
    pub trace: Vec<String>,
    /// All observations, with the engine.
    pub facts: Vec<(usize, Observation)>,
    /// The number of commands so far, including page reads.
    pub commands: usize,
    /// The number of batches so far.
    pub batches: usize,
    /// Whether messages are pushed to the engines.
    pub push: bool,
    /// Answers commands in place of the server.
    pub rule: Option<Rule>,
    /// Acts on the server before each command.
    pub before_command: Option<BeforeCommand>,
    /// Loses replies.
    pub reply_lost: Option<ReplyLost>,
    /// Slots whose server never answers.
    pub dead_slots: BTreeSet<u16>,
    /// The inputs and effects of the first engine, if they are recorded.
    pub recording: Option<Recording>,
    /// How often any engine was woken.
    pub wakes: usize,
    engines: Vec<Option<Engine>>,
    crashes: Vec<Crash>,
    mail: VecDeque<(usize, Ticket, Vec<Answer>)>,
    names: BTreeMap<String, String>,
    now_ms: u64,
}

impl Harness {
    /// A server with the library, and no engine.
    ///
    /// # Panics
    /// When the library does not load.
    #[must_use]
    pub fn new() -> Self {
        let mut host = Host::new(HostConfig::default());
        host.set_now_us(EPOCH_MS * 1000);
        let loaded = host.call(&["FUNCTION", "LOAD", library::SOURCE]);
        assert!(!matches!(loaded, Value::Error(_)), "the library does not load: {loaded:?}");
        Self {
            host,
            trace: Vec::new(),
            facts: Vec::new(),
            commands: 0,
            batches: 0,
            push: false,
            rule: None,
            before_command: None,
            reply_lost: None,
            dead_slots: BTreeSet::new(),
            recording: None,
            wakes: 0,
            engines: Vec::new(),
            crashes: Vec::new(),
            mail: VecDeque::new(),
            names: BTreeMap::new(),
            now_ms: EPOCH_MS,
        }
    }

    /// Starts an engine. It does nothing before the clock runs.
    pub fn start(&mut self, config: EngineConfig) -> usize {
        let seed = self.engines.len() as u64 + 1;
        self.start_seeded(config, seed)
    }

    /// Starts an engine with this seed. Engines with the same seed scan at the same times.
    pub fn start_seeded(&mut self, config: EngineConfig, seed: u64) -> usize {
        self.engines.push(Some(Engine::new(config, seed, self.engine_time())));
        self.engines.len() - 1
    }

    /// Makes the engine crash that sends this command.
    pub fn crash(&mut self, at: Crash) {
        self.crashes.push(at);
    }

    /// Shows an id by a short name in the trace.
    pub fn name(&mut self, id: impl Into<String>, name: impl Into<String>) {
        self.names.insert(id.into(), name.into());
    }

    /// Server time, in milliseconds.
    #[must_use]
    pub fn now_ms(&self) -> u64 {
        self.now_ms
    }

    /// Restores the server and the clock, and removes all engines. Names stay.
    pub fn rewind(&mut self, snapshot: &Snapshot, now_ms: u64) {
        self.host.restore(snapshot);
        drop(self.host.take_published());
        self.set_now(now_ms);
        self.trace.clear();
        self.facts.clear();
        self.engines.clear();
        self.crashes.clear();
        self.mail.clear();
        (self.commands, self.batches) = (0, 0);
    }

    /// Stops an engine without notice.
    pub fn kill(&mut self, engine: usize) {
        if let Some(engine) = self.engines.get_mut(engine) {
            *engine = None;
        }
    }

    /// Gives an engine an input.
    pub fn tell(&mut self, engine: usize, input: Input) {
        self.feed(engine, input);
        self.pump();
    }

    /// An engine, if it is running.
    #[must_use]
    pub fn engine(&self, at: usize) -> Option<&Engine> {
        self.engines.get(at)?.as_ref()
    }

    /// The number of running engines.
    #[must_use]
    pub fn living(&self) -> usize {
        self.engines.iter().flatten().count()
    }

    /// Runs for this many milliseconds of virtual time.
    pub fn run_for(&mut self, ms: u64) {
        let end = self.now_ms + ms;
        self.wake_all();
        while let Some(next) = self.engines.iter().flatten().filter_map(Engine::deadline).min() {
            let next_ms = (EPOCH_MS + next.0).max(self.now_ms + 1);
            if next_ms > end {
                break;
            }
            self.set_now(next_ms);
            self.wake_all();
        }
        self.set_now(end);
    }

    /// Calls a function or command as a client would.
    pub fn call(&mut self, argv: &[impl AsRef<[u8]>]) -> Value {
        let reply = self.host.call(argv);
        self.deliver_pushes();
        reply
    }

    fn engine_time(&self) -> LocalTime {
        LocalTime(self.now_ms - EPOCH_MS)
    }

    fn set_now(&mut self, now_ms: u64) {
        self.now_ms = now_ms;
        self.host.set_now_us(now_ms * 1000);
    }

    fn wake_all(&mut self) {
        for at in 0..self.engines.len() {
            self.wakes += 1;
            self.feed(at, Input::Wake);
        }
        self.pump();
    }

    /// Carries out effects and delivers answers until no engine has anything left to do at this
    /// time.
    fn pump(&mut self) {
        loop {
            for at in 0..self.engines.len() {
                self.carry_out(at);
            }
            let Some((at, ticket, answers)) = self.mail.pop_front() else { return };
            self.feed(at, Input::Settled { ticket, answers });
        }
    }

    fn feed(&mut self, at: usize, input: Input) {
        let now = self.engine_time();
        if let Some(Some(engine)) = self.engines.get_mut(at) {
            if let (0, Some(recording)) = (at, &mut self.recording) {
                recording.inputs.push((now, input.clone()));
            }
            engine.handle(now, input);
        }
    }

    fn carry_out(&mut self, at: usize) {
        while let Some(effect) = self.engines[at].as_mut().and_then(Engine::next_effect) {
            if let (0, Some(recording)) = (at, &mut self.recording) {
                recording.effects.push(format!("{effect:?}"));
            }
            match effect {
                Effect::Send { slot, .. } if self.dead_slots.contains(&slot) => self.batches += 1,
                Effect::Observe(fact) => self.facts.push((at, fact)),
                Effect::Send { ticket, batch, .. } => {
                    self.batches += 1;
                    let mut answers = Vec::new();
                    for command in batch {
                        match self.command(at, &command) {
                            Some(answer) => answers.push(answer),
                            None => {
                                self.engines[at] = None;
                                return;
                            }
                        }
                    }
                    self.mail.push_back((at, ticket, answers));
                }
            }
        }
    }

    /// Carries out a command; none if its engine crashed.
    fn command(&mut self, at: usize, command: &Command) -> Option<Answer> {
        let number = self.commands;
        self.commands += 1;
        if self.crashes.contains(&Crash::Before(number)) {
            self.trace.push(format!("engine-{} dies", at + 1));
            return None;
        }
        if let Some(meddle) = &mut self.before_command {
            meddle(&mut self.host, command);
        }
        if let Some(answer) = self.rule.as_mut().and_then(|rule| rule(command)) {
            return Some(answer);
        }
        let reply = self.host.call(&command.argv);
        self.note(at, command, &reply);
        self.deliver_pushes();
        if self.crashes.contains(&Crash::After(number)) {
            self.trace.push(format!("engine-{} dies", at + 1));
            return None;
        }
        if self.reply_lost.as_mut().is_some_and(|lost| lost(command)) {
            return Some(silence());
        }
        Some(Answer::Applied(reply))
    }

    fn deliver_pushes(&mut self) {
        for message in self.host.take_published() {
            if !self.push {
                continue;
            }
            let channel = String::from_utf8_lossy(&message.channel);
            if let Ok(Some(input)) = Input::pushed(&channel, &message.payload) {
                for at in 0..self.engines.len() {
                    self.feed(at, input.clone());
                }
            }
        }
    }

    /// Adds a command to the trace, unless it only reads.
    fn note(&mut self, at: usize, command: &Command, reply: &Value) {
        let word =
            |at: usize| command.argv.get(at).map(|word| String::from_utf8_lossy(word).into_owned());
        let (Some(verb), Some(function)) = (word(0), word(1)) else { return };
        let reads = ["ff_scan_partition", "ff_audit_executions"];
        if verb != "FCALL" || reads.contains(&function.as_str()) {
            return;
        }
        let keys: usize = word(2).and_then(|count| count.parse().ok()).unwrap_or(0);
        let subject = word(3 + keys).unwrap_or_default();
        self.trace.push(format!(
            "engine-{} {} {} -> {}",
            at + 1,
            function.trim_start_matches("ff_"),
            self.short(&subject),
            self.short(&words(reply)),
        ));
    }

    fn short(&self, text: &str) -> String {
        self.names.iter().fold(text.to_owned(), |text, (id, name)| text.replace(id, name))
    }
}

impl Default for Harness {
    fn default() -> Self {
        Self::new()
    }
}

/// No answer: whether the command was applied is unknown.
#[must_use]
pub fn silence() -> Answer {
    Answer::PerhapsApplied(ServerError::silence("no reply, by the test"))
}

/// The words of a reply, without the status in front.
fn words(reply: &Value) -> String {
    match reply {
        Value::Array(elements) => elements
            .iter()
            .filter(|element| !matches!(element, Value::Int(1)))
            .map(words)
            .filter(|word| !word.is_empty() && word != "OK")
            .collect::<Vec<_>>()
            .join(" "),
        Value::Bulk(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        Value::Status(text) | Value::Error(text) => text.clone(),
        Value::Int(number) => number.to_string(),
        Value::Nil => String::new(),
    }
}
