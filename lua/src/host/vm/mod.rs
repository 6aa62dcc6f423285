//! The Lua side of the host: a sandboxed Lua 5.1 that behaves like the one inside the server.
//!
//! The server keeps one VM for functions and another for ad-hoc scripts, and so does the host:
//! [`Vm`] is one of them. Its globals are built by `sandbox.lua`.

mod args;
mod base_library;
mod bit_library;
mod cjson;
mod error;
mod memory;
mod natives;
mod number;
mod random;
mod redis_api;
mod registration;
mod to_lua;
mod to_reply;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use mlua::{Function, HookTriggers, Lua, LuaOptions, StdLib, Table, Value as LuaValue, VmState};
use selvedge_core::value::Value;

use mlua::chunk::ChunkMode;
use mlua::state::{GcIncParams, GcMode};

pub(crate) use random::LuaRandom;
pub(crate) use redis_api::hexadecimal;
pub(crate) use registration::{Registered, Registration};
pub(crate) use to_lua::Protocol;

use super::HostConfig;
use super::store::SharedStore;
use args::Raised;

/// How many instructions usually pass between two checks of the budget: few enough to stop a loop
/// at once, many enough to cost little.
const HOOK_INTERVAL: u32 = 10_000;

/// How much memory may be in use before a collection starts, in percent of what was alive after the
/// last one: each collection walks the whole library, which takes a few megabytes.
const GARBAGE_PERCENT: i32 = 400;

/// Which of the server's two VMs this one is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum VmKind {
    /// Runs the functions of loaded libraries.
    Functions,
    /// Runs the texts of `EVAL`.
    Scripts,
}

/// One sandboxed Lua.
pub(crate) struct Vm {
    lua: Lua,
    contents: Table,
    globals: Table,
    run: Function,
    load: Function,
    registration: Registration,
    budget: Arc<Budget>,
    /// How many instructions pass between two checks of the budget.
    interval: u32,
    memory_max: usize,
    store: SharedStore,
}

/// A compiled text or a registered function, ready to run any number of times.
#[derive(Clone)]
pub(crate) struct Body(Function);

impl Vm {
    pub(crate) fn new(
        kind: VmKind,
        config: &HostConfig,
        store: &SharedStore,
    ) -> mlua::Result<Self> {
        let libraries = StdLib::TABLE | StdLib::STRING | StdLib::MATH;
        let lua = Lua::new_with(libraries, LuaOptions::new())?;
        lua.gc_set_mode(GcMode::Incremental(GcIncParams::default().pause(GARBAGE_PERCENT)));
        let registration = Registration::default();
        let native = natives::natives(&lua, kind, store, &registration)?;
        let name = match kind {
            VmKind::Functions => "functions",
            VmKind::Scripts => "scripts",
        };
        let built: Table = lua
            .load(include_str!("sandbox.lua"))
            .set_name(error::SANDBOX)
            .into_function()?
            .call((native, name))?;
        let globals: Table = built.raw_get("globals")?;
        lua.set_globals(globals.clone())?;
        let budget = Arc::new(Budget::new(config.instruction_budget));
        let vm = Self {
            contents: built.raw_get("contents")?,
            run: built.raw_get("run")?,
            load: built.raw_get("load")?,
            globals,
            registration,
            budget,
            interval: if config.exact_instructions { 1 } else { HOOK_INTERVAL },
            memory_max: config.lua_memory_max,
            store: store.clone(),
            lua,
        };
        if config.instruction_budget < u64::MAX {
            vm.watch()?;
        }
        Ok(vm)
    }

    /// How many instructions the last call took.
    pub(crate) fn last_instructions(&self) -> u64 {
        self.budget.whole - self.budget.left.load(Ordering::Relaxed)
    }

    /// Compiles a text; the error is Lua's own, with the place.
    pub(crate) fn compile(&self, name: &str, text: &[u8]) -> Result<Body, String> {
        let chunk = self.lua.load(text).set_name(name).set_mode(ChunkMode::Text);
        match chunk.set_environment(self.globals.clone()).into_function() {
            Ok(function) => Ok(Body(function)),
            Err(mlua::Error::SyntaxError { message, .. }) => Err(message),
            Err(error) => Err(error.to_string()),
        }
    }

    /// Runs the text of a library and answers the functions that it registered.
    pub(crate) fn load(&self, body: &Body) -> Result<Vec<Registered>, String> {
        self.registration.begin();
        let outcome = self.protected(|| self.load.call::<Outcome>(body.0.clone()));
        let registered = self.registration.finish();
        match outcome {
            Ok(Ok(_)) => Ok(registered),
            Ok(Err(text)) | Err(text) => Err(format!("ERR Error registering functions: {text}")),
        }
    }

    /// Runs a body with its keys and arguments as parameters.
    pub(crate) fn call(
        &self,
        body: &Body,
        keys: &[impl AsRef<[u8]>],
        arguments: &[impl AsRef<[u8]>],
    ) -> Value {
        let prepared = self.strings(keys).and_then(|keys| Ok((keys, self.strings(arguments)?)));
        self.finish(prepared.map(|(keys, arguments)| (&body.0, keys, arguments)))
    }

    /// Runs a body that finds its keys and arguments in the globals `KEYS` and `ARGV`.
    pub(crate) fn call_with_globals(
        &self,
        body: &Body,
        keys: &[impl AsRef<[u8]>],
        arguments: &[impl AsRef<[u8]>],
    ) -> Value {
        let prepared = self.strings(keys).and_then(|keys| {
            self.contents.raw_set("KEYS", keys)?;
            self.contents.raw_set("ARGV", self.strings(arguments)?)?;
            Ok((&body.0, LuaValue::Nil, LuaValue::Nil))
        });
        self.finish(prepared)
    }

    fn finish(&self, prepared: mlua::Result<impl mlua::IntoLuaMulti>) -> Value {
        let outcome = self.protected(|| self.run.call::<Outcome>(prepared?));
        match outcome {
            Ok(Ok((value, is_plain))) => {
                let protocol = self.store.lock().script.protocol;
                to_reply::to_reply(value, protocol, is_plain)
                    .unwrap_or_else(|error| Value::Error(error::of_the_host(&error)))
            }
            Ok(Err(text)) | Err(text) => Value::Error(text),
        }
    }

    /// Runs Lua within the budget. The outer error is the VM's, the inner one the script's.
    fn protected(
        &self,
        run: impl FnOnce() -> mlua::Result<Outcome>,
    ) -> Result<Result<(LuaValue, bool), String>, String> {
        if self.budget.refill() {
            self.watch().map_err(|error| error::of_the_host(&error))?;
        }
        match memory::limited(&self.lua, self.memory_max, run) {
            Ok((true, value, is_plain)) => Ok(Ok((value, is_plain))),
            Ok((false, raised, _)) => Ok(Err(error::settled(&raised))),
            Err(error) => Err(error::of_the_host(&error)),
        }
    }

    /// Sets the hook that stops a script whose budget is used up.
    ///
    /// After that every instruction raises, so that no `pcall` can continue the script.
    fn watch(&self) -> mlua::Result<()> {
        let budget = Arc::clone(&self.budget);
        let interval = self.interval;
        let every = HookTriggers::new().every_nth_instruction(interval);
        self.lua.set_global_hook(every, move |lua, _| {
            if budget.spend(u64::from(interval)) {
                return Ok(VmState::Continue);
            }
            let always = HookTriggers::new().every_nth_instruction(1);
            lua.set_global_hook(always, |_, _| Err(Raised::Stop.into()))?;
            Err(Raised::Stop.into())
        })
    }

    fn strings(&self, items: &[impl AsRef<[u8]>]) -> mlua::Result<Table> {
        self.lua.create_sequence_from(items.iter().map(|item| to_lua::text(item.as_ref())))
    }
}

/// Whether a body ran to its end; what it returned or raised; whether that is a plain list.
type Outcome = (bool, LuaValue, bool);

/// Instructions left for the running call.
struct Budget {
    whole: u64,
    left: AtomicU64,
    exhausted: AtomicBool,
}

impl Budget {
    fn new(whole: u64) -> Self {
        Self { whole, left: AtomicU64::new(whole), exhausted: AtomicBool::new(false) }
    }

    /// Gives the next call its whole budget; tells whether the last one had used it up.
    fn refill(&self) -> bool {
        self.left.store(self.whole, Ordering::Relaxed);
        self.exhausted.swap(false, Ordering::Relaxed)
    }

    /// Takes from the budget; false when nothing is left.
    fn spend(&self, instructions: u64) -> bool {
        let left = self.left.load(Ordering::Relaxed).saturating_sub(instructions);
        self.left.store(left, Ordering::Relaxed);
        if left == 0 {
            self.exhausted.store(true, Ordering::Relaxed);
        }
        left > 0
    }
}
