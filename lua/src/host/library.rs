//! Function libraries and cached scripts: the commands FUNCTION, FCALL, EVAL and SCRIPT.

use std::collections::BTreeMap;
use std::sync::Arc;

use selvedge_core::value::Value;
use sha1::{Digest, Sha1};

use super::HostConfig;
use super::command::glob;
use super::number::parse_int;
use super::shebang::{self, Shebang};
use super::store::{ScriptRules, SharedStore, Slots, common_slot};
use super::vm::{Body, Registered, Vm, VmKind, hexadecimal};

/// A loaded library: its text, and its functions as they compiled.
pub(crate) struct Library {
    pub(crate) code: Vec<u8>,
    functions: Vec<Registered>,
}

/// All libraries by name. Cloning shares what is compiled.
pub(crate) type Libraries = BTreeMap<String, Arc<Library>>;

/// Everything that runs Lua.
pub(crate) struct Scripting {
    config: HostConfig,
    store: SharedStore,
    functions: Vm,
    libraries: Libraries,
    /// Functions of all libraries by lower-case name, for the way in.
    index: BTreeMap<Vec<u8>, Registered>,
    /// Made when first needed: few hosts ever see an ad-hoc script.
    scripts: Option<Vm>,
    cache: BTreeMap<String, CachedScript>,
}

#[derive(Clone)]
struct CachedScript {
    shebang: Shebang,
    body: Body,
}

/// Whether a command of the read-only family asked.
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

    /// Exchanges the libraries for others that this very VM compiled.
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

    /// The FUNCTION command: LOAD, DELETE, LIST, FLUSH and STATS.
    pub(crate) fn function(&mut self, argv: &[Vec<u8>]) -> Value {
        let subcommand = argv.first().map(|name| name.to_ascii_lowercase()).unwrap_or_default();
        match (subcommand.as_slice(), argv.get(1..).unwrap_or_default()) {
            (b"load", options) => self.load(options).unwrap_or_else(Value::Error),
            (b"delete", [name]) => self.delete(name),
            (b"list", options) => self.list(options).unwrap_or_else(Value::Error),
            (b"stats", _) => self.stats(),
            (b"flush", mode) => self.flush(&argv[0], mode),
            _ => error("ERR syntax error"),
        }
    }

    fn load(&mut self, options: &[Vec<u8>]) -> Result<Value, String> {
        let Some((code, options)) = options.split_last() else {
            return Ok(error("ERR syntax error"));
        };
        let mut replace = false;
        for option in options {
            if !option.eq_ignore_ascii_case(b"replace") {
                let option = String::from_utf8_lossy(option);
                return Err(format!("ERR Unknown option given: {option}"));
            }
            replace = true;
        }
        let (name, length) = shebang::of_library(code)?;
        if self.libraries.contains_key(&name) && !replace {
            return Err(format!("ERR Library '{name}' already exists"));
        }
        let body = self
            .functions
            .compile("@user_function", code.get(length..).unwrap_or_default())
            .map_err(|text| one_line(&format!("ERR Error compiling function: {text}")))?;
        let functions = self.functions.load(&body).map_err(|text| one_line(&text))?;
        self.check_names(&name, &functions)?;
        let library = Library { code: code.clone(), functions };
        #[cfg_attr(
            not(feature = "send"),
            expect(clippy::arc_with_non_send_sync, reason = "with the feature it can be sent")
        )]
        self.libraries.insert(name.clone(), Arc::new(library));
        self.rebuild_index();
        Ok(Value::Bulk(name.into_bytes()))
    }

    fn check_names(&self, library: &str, functions: &[Registered]) -> Result<(), String> {
        if functions.is_empty() {
            return Err("ERR No functions registered".to_owned());
        }
        let mut seen = Vec::new();
        for function in functions {
            if !shebang::is_valid_name(&function.name) {
                return Err(format!("ERR Function {}", shebang::NAME_RULE));
            }
            let name = function.name.to_ascii_lowercase();
            if seen.contains(&name) {
                return Err("ERR Function already exists in the library".to_owned());
            }
            seen.push(name);
        }
        let others = self.libraries.iter().filter(|(name, _)| *name != library);
        for taken in others.flat_map(|(_, library)| &library.functions) {
            let clash = |function: &&Registered| function.name.eq_ignore_ascii_case(&taken.name);
            if let Some(function) = functions.iter().find(clash) {
                let name = String::from_utf8_lossy(&function.name);
                return Err(format!("ERR Function {name} already exists"));
            }
        }
        Ok(())
    }

    fn delete(&mut self, name: &[u8]) -> Value {
        match self.libraries.remove(String::from_utf8_lossy(name).as_ref()) {
            Some(_) => {
                self.rebuild_index();
                ok()
            }
            None => error("ERR Library not found"),
        }
    }

    fn flush(&mut self, as_given: &[u8], mode: &[Vec<u8>]) -> Value {
        if mode.len() > 1 {
            let name = String::from_utf8_lossy(as_given);
            return Value::Error(format!(
                "ERR unknown subcommand or wrong number of arguments for '{name}'. \
                 Try FUNCTION HELP."
            ));
        }
        if !mode.iter().all(|word| is_flush_mode(word)) {
            return error("ERR FUNCTION FLUSH only supports SYNC|ASYNC option");
        }
        self.set_libraries(Libraries::new());
        ok()
    }

    fn list(&self, options: &[Vec<u8>]) -> Result<Value, String> {
        let mut pattern: Option<&[u8]> = None;
        let mut with_code = false;
        let mut options = options.iter();
        while let Some(option) = options.next() {
            if option.eq_ignore_ascii_case(b"withcode") && !with_code {
                with_code = true;
            } else if option.eq_ignore_ascii_case(b"libraryname") && pattern.is_none() {
                let missing = || "ERR library name argument was not given".to_owned();
                pattern = Some(options.next().ok_or_else(missing)?);
            } else {
                let option = String::from_utf8_lossy(option);
                return Err(format!("ERR Unknown argument {option}"));
            }
        }
        let wanted = |name: &str| pattern.is_none_or(|pattern| glob(pattern, name.as_bytes()));
        let listed = self.libraries.iter().filter(|(name, _)| wanted(name));
        Ok(Value::Array(listed.map(|(name, library)| library.listed(name, with_code)).collect()))
    }

    fn stats(&self) -> Value {
        let functions = self.libraries.values().map(|library| library.functions.len()).sum();
        let count = |count: usize| Value::Int(i64::try_from(count).unwrap_or(i64::MAX));
        let lua = [
            bulk("libraries_count"),
            count(self.libraries.len()),
            bulk("functions_count"),
            count(functions),
        ];
        let engines = [bulk("LUA"), Value::Array(lua.into())];
        Value::Array(vec![
            bulk("running_script"),
            Value::Nil,
            bulk("engines"),
            Value::Array(engines.into()),
        ])
    }

    fn rebuild_index(&mut self) {
        let functions = self.libraries.values().flat_map(|library| &library.functions);
        self.index = functions.map(|f| (f.name.to_ascii_lowercase(), f.clone())).collect();
    }
}

impl Library {
    fn listed(&self, name: &str, with_code: bool) -> Value {
        let functions = self.functions.iter().map(|function| {
            let flags = function.flags.iter().map(|flag| Value::Status((*flag).to_owned()));
            Value::Array(vec![
                bulk("name"),
                Value::Bulk(function.name.clone()),
                bulk("description"),
                function.description.clone().map_or(Value::Nil, Value::Bulk),
                bulk("flags"),
                Value::Array(flags.collect()),
            ])
        });
        let mut fields = vec![
            bulk("library_name"),
            bulk(name),
            bulk("engine"),
            bulk("LUA"),
            bulk("functions"),
            Value::Array(functions.collect()),
        ];
        if with_code {
            fields.extend([bulk("library_code"), Value::Bulk(self.code.clone())]);
        }
        Value::Array(fields)
    }
}

/// What a body says about itself, and who calls it. Without flags it is a script without a
/// shebang, which says nothing.
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

fn is_flush_mode(word: &[u8]) -> bool {
    word.eq_ignore_ascii_case(b"sync") || word.eq_ignore_ascii_case(b"async")
}

fn error(text: &str) -> Value {
    Value::Error(text.to_owned())
}

fn ok() -> Value {
    Value::Status("OK".to_owned())
}

fn bulk(text: &str) -> Value {
    Value::Bulk(text.as_bytes().to_vec())
}

/// Errors travel in one line.
pub(crate) fn one_line(text: &str) -> String {
    text.replace(['\r', '\n'], " ")
}
