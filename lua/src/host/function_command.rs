//! The FUNCTION command: loading, listing and dropping libraries.

use std::sync::Arc;

use selvedge_core::value::Value;

use super::command::glob;
use super::scripting::{Libraries, Library, Scripting, error, is_flush_mode, ok, one_line};
use super::shebang;
use super::vm::Registered;

impl Scripting {
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

fn bulk(text: &str) -> Value {
    Value::Bulk(text.as_bytes().to_vec())
}
