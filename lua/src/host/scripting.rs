//! Runs functions and scripts: the commands FCALL, EVAL, EVALSHA and SCRIPT.

use std::collections::BTreeMap;
use std::sync::Arc;

use selvedge_core::value::Value;
use sha1::{Digest, Sha1};

use super::HostConfig;
use super::number::parse_int;
use super::shebang::{self, Shebang};
use super::store::{ScriptRules, SharedStore, Slots, common_slot};
use super::vm::{Body, Registered, Vm, VmKind, hexadecimal};

/// A loaded library: its text, and its functions as they compiled.
pub(crate) struct Library {
    pub(crate) code: Vec<u8>,
    pub(crate) functions: Vec<Registered>,
}

/// All libraries by name. Cloning shares what is compiled.
pub(crate) type Libraries = BTreeMap<String, Arc<Library>>;

/// Everything that runs Lua.
pub(crate) struct Scripting {
    config: HostConfig,
    store: SharedStore,
    pub(crate) functions: Vm,
    pub(crate) libraries: Libraries,
    /// Functions of all libraries by lower-case name, for calls.
    index: BTreeMap<Vec<u8>, Registered>,
    /// Created when first needed: few hosts run ad-hoc scripts.
    scripts: Option<Vm>,
    cache: BTreeMap<String, CachedScript>,
}

#[derive(Clone)]
struct CachedScript {
    shebang: Shebang,
    body: Body,
}

/// Whether the caller used a read-only command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    ReadOnly,
    ReadWrite,
}

impl Scripting {
    pub(crate) fn new(config: &HostConfig, store: &SharedStore) -> Self {
        Self {
            config: config.clone(),
            store: store.clone(),
            functions: new_vm(VmKind::Functions, config, store),
            libraries: Libraries::new(),
            index: BTreeMap::new(),
            scripts: None,
            cache: BTreeMap::new(),
        }
    }

    pub(crate) fn libraries(&self) -> &Libraries {
        &self.libraries
    }

    pub(crate) fn set_libraries(&mut self, libraries: Libraries) {
        self.libraries = libraries;
        self.rebuild_index();
    }

    /// Forgets every ad-hoc script, and the VM that ran them.
    pub(crate) fn forget_scripts(&mut self) {
        self.scripts = None;
        self.cache.clear();
    }

    /// Exchanges the libraries for others that the same VM compiled.
    pub(crate) fn swap_libraries(&mut self, with: &mut Libraries) {
        let same = self.libraries.len() == with.len()
            && self.libraries.values().zip(with.values()).all(|(ours, theirs)| {
                // One text compiled once: the index of functions is the same too.
                Arc::ptr_eq(ours, theirs)
            });
        std::mem::swap(&mut self.libraries, with);
        if !same {
            self.rebuild_index();
        }
    }

    /// FCALL and FCALL_RO, from the argument after the command's name on.
    pub(crate) fn fcall(&self, access: Access, argv: &[Vec<u8>]) -> Value {
        let [name, count, rest @ ..] = argv else { return error("ERR syntax error") };
        let Some(function) = self.index.get(&name.to_ascii_lowercase()) else {
            return error("ERR Function not found");
        };
        let Some(count) = parse_int(count) else { return error("ERR Bad number of keys provided") };
        match split_keys(count, rest) {
            Ok((keys, arguments)) => self.run_function(access, function, keys, arguments),
            Err(text) => error(text),
        }
    }

    /// FCALL with its parts already apart.
    pub(crate) fn fcall_parts(
        &self,
        name: &str,
        keys: &[impl AsRef<[u8]>],
        arguments: &[impl AsRef<[u8]>],
    ) -> Value {
        let function = match self.index.get(name.as_bytes()) {
            Some(function) => Some(function),
            None => self.index.get(&name.as_bytes().to_ascii_lowercase()),
        };
        match function {
            Some(function) => self.run_function(Access::ReadWrite, function, keys, arguments),
            None => error("ERR Function not found"),
        }
    }

    fn run_function(
        &self,
        access: Access,
        function: &Registered,
        keys: &[impl AsRef<[u8]>],
        arguments: &[impl AsRef<[u8]>],
    ) -> Value {
        let rules = Rules { flags: Some(&function.flags), access };
        if let Err(text) = self.admit(&rules, keys) {
            return Value::Error(text);
        }
        self.functions.call(&function.body, keys, arguments)
    }

    /// EVAL and EVAL_RO, from the script on.
    pub(crate) fn eval(&mut self, access: Access, argv: &[Vec<u8>]) -> Value {
        let [text, rest @ ..] = argv else { return error("ERR syntax error") };
        match self.cached(text) {
            Ok((_, script)) => self.run_script(access, &script, rest),
            Err(text) => Value::Error(text),
        }
    }

    /// EVALSHA and EVALSHA_RO, from the digest on.
    pub(crate) fn evalsha(&mut self, access: Access, argv: &[Vec<u8>]) -> Value {
        let [digest, rest @ ..] = argv else { return error("ERR syntax error") };
        let digest = String::from_utf8_lossy(digest).to_ascii_lowercase();
        match self.cache.get(&digest).cloned() {
            Some(script) => self.run_script(access, &script, rest),
            None => error("NOSCRIPT No matching script."),
        }
    }

    /// The SCRIPT command: LOAD, EXISTS and FLUSH.
    pub(crate) fn script(&mut self, argv: &[Vec<u8>]) -> Value {
        let subcommand = argv.first().map(|name| name.to_ascii_lowercase()).unwrap_or_default();
        match (subcommand.as_slice(), argv.get(1..).unwrap_or_default()) {
            (b"load", [text]) => match self.cached(text) {
                Ok((digest, _)) => Value::Bulk(digest.into_bytes()),
                Err(text) => Value::Error(text),
            },
            (b"exists", [_, ..]) => {
                let known = |digest: &Vec<u8>| {
                    let digest = String::from_utf8_lossy(digest).to_ascii_lowercase();
                    Value::Int(i64::from(self.cache.contains_key(&digest)))
                };
                Value::Array(argv[1..].iter().map(known).collect())
            }
            (b"flush", mode) => {
                if !matches!(mode, [] | [_]) || !mode.iter().all(|word| is_flush_mode(word)) {
                    return error("ERR SCRIPT FLUSH only support SYNC|ASYNC option");
                }
                self.cache.clear();
                ok()
            }
            _ => error("ERR syntax error"),
        }
    }

    fn run_script(&mut self, access: Access, script: &CachedScript, rest: &[Vec<u8>]) -> Value {
        let [count, rest @ ..] = rest else { return error("ERR syntax error") };
        let Some(count) = parse_int(count) else {
            return error("ERR value is not an integer or out of range");
        };
        let (keys, arguments) = match split_keys(count, rest) {
            Ok(parts) => parts,
            Err(text) => return error(text),
        };
        let rules = Rules { flags: script.shebang.flags.as_deref(), access };
        if let Err(text) = self.admit(&rules, keys) {
            return Value::Error(text);
        }
        self.scripts_vm().call_with_globals(&script.body, keys, arguments)
    }

    /// Checks that a body may run at all, and sets the rules for what it does inside.
    fn admit(&self, rules: &Rules<'_>, keys: &[impl AsRef<[u8]>]) -> Result<(), String> {
        let refuse = |text: &str| Err(format!("ERR {text}"));
        if self.config.cluster && rules.has("no-cluster") {
            return refuse("Can not run script on cluster, 'no-cluster' flag is set.");
        }
        let mut store = self.store.lock();
        if rules.declares_writes() {
            if rules.access == Access::ReadOnly {
                return refuse("Can not execute a script with write flag using *_ro command.");
            }
            if let Some(text) = &store.write_refusal {
                return Err(text.clone());
            }
        }
        store.script = ScriptRules {
            read_only: rules.access == Access::ReadOnly || rules.has("no-writes"),
            // Scripts without a shebang are older than the rule of one slot.
            any_slot: rules.flags.is_none() || rules.has("allow-cross-slot-keys"),
            ..ScriptRules::default()
        };
        if self.config.cluster
            && let Slots::One(slot) = common_slot(keys.iter().map(AsRef::as_ref))
        {
            store.script.slot = Some(slot);
        }
        Ok(())
    }

    /// The script of a text, compiled now or before, and its digest.
    fn cached(&mut self, text: &[u8]) -> Result<(String, CachedScript), String> {
        let digest = hexadecimal(&Sha1::digest(text));
        if let Some(script) = self.cache.get(&digest) {
            return Ok((digest, script.clone()));
        }
        let shebang = shebang::of_script(text)?;
        let body = self
            .scripts_vm()
            .compile("@user_script", text.get(shebang.length..).unwrap_or_default())
            .map_err(|text| {
                one_line(&format!("ERR Error compiling script (new function): {text}"))
            })?;
        let script = CachedScript { shebang, body };
        self.cache.insert(digest.clone(), script.clone());
        Ok((digest, script))
    }

    fn scripts_vm(&mut self) -> &Vm {
        let (config, store) = (&self.config, &self.store);
        self.scripts.get_or_insert_with(|| new_vm(VmKind::Scripts, config, store))
    }

    pub(crate) fn rebuild_index(&mut self) {
        let functions = self.libraries.values().flat_map(|library| &library.functions);
        self.index = functions.map(|f| (f.name.to_ascii_lowercase(), f.clone())).collect();
    }
}

/// The flags of a body and the access of its caller. A script without a shebang has no flags.
struct Rules<'a> {
    flags: Option<&'a [&'static str]>,
    access: Access,
}

impl Rules<'_> {
    fn has(&self, flag: &str) -> bool {
        self.flags.is_some_and(|flags| flags.contains(&flag))
    }

    fn declares_writes(&self) -> bool {
        self.flags.is_some() && !self.has("no-writes")
    }
}

fn new_vm(kind: VmKind, config: &HostConfig, store: &SharedStore) -> Vm {
    Vm::new(kind, config, store).expect("an empty VM fits into memory")
}

/// The keys, and the arguments behind them.
type KeysAndArguments<'a> = (&'a [Vec<u8>], &'a [Vec<u8>]);

fn split_keys(count: i64, rest: &[Vec<u8>]) -> Result<KeysAndArguments<'_>, &'static str> {
    match usize::try_from(count) {
        Ok(count) => rest
            .split_at_checked(count)
            .ok_or("ERR Number of keys can't be greater than number of args"),
        Err(_) => Err("ERR Number of keys can't be negative"),
    }
}

pub(crate) fn is_flush_mode(word: &[u8]) -> bool {
    word.eq_ignore_ascii_case(b"sync") || word.eq_ignore_ascii_case(b"async")
}

pub(crate) fn error(text: &str) -> Value {
    Value::Error(text.to_owned())
}

pub(crate) fn ok() -> Value {
    Value::Status("OK".to_owned())
}

/// Errors travel in one line.
pub(crate) fn one_line(text: &str) -> String {
    text.replace(['\r', '\n'], " ")
}
