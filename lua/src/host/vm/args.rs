//! What the native functions of the VM share: reading arguments and raising errors with the
//! texts that the server's own C functions give.

use mlua::{Lua, MultiValue, Table, Value};

/// An error that a native function raises into Lua.
#[derive(Clone, Debug, thiserror::Error)]
pub(super) enum Raised {
    /// Seen by Lua as the table `{err = …}`; its first word is the code of the reply.
    #[error("{0}")]
    Reply(String),
    /// Seen by Lua as plain text.
    #[error("{0}")]
    Text(String),
    /// Stops the script. Only the client sees it.
    #[error("Script stopped: its instruction budget is used up")]
    Stop,
}

impl From<Raised> for mlua::Error {
    fn from(raised: Raised) -> Self {
        Self::external(raised)
    }
}

impl Raised {
    /// Finds what a native function raised inside the error that reached Lua.
    pub(super) fn of(error: &mlua::Error) -> Self {
        match error.downcast_ref::<Self>() {
            Some(raised) => raised.clone(),
            None => Self::Text(plain_message(error)),
        }
    }

    /// An error text that begins with the place in the script that called the native function.
    pub(super) fn located(lua: &Lua, text: &str) -> Self {
        Self::Text(format!("{}{text}", caller(lua)))
    }
}

/// The text of an error without the traceback that mlua puts around it.
fn plain_message(error: &mlua::Error) -> String {
    match error.chain().last() {
        Some(cause) => cause.to_string(),
        None => error.to_string(),
    }
}

/// `source:line: ` of the Lua code that called the running native function, if it was Lua code.
fn caller(lua: &Lua) -> String {
    let place = lua.inspect_stack(1, |frame| {
        let line = frame.current_line()?;
        Some(format!("{}:{line}: ", frame.source().short_src?))
    });
    place.flatten().unwrap_or_default()
}

/// The arguments of one call of a native function. Positions count from one, as in the errors.
pub(super) struct Arguments<'a> {
    lua: &'a Lua,
    values: &'a MultiValue,
}

impl<'a> Arguments<'a> {
    pub(super) fn new(lua: &'a Lua, values: &'a MultiValue) -> Self {
        Self { lua, values }
    }

    pub(super) fn lua(&self) -> &'a Lua {
        self.lua
    }

    pub(super) fn count(&self) -> usize {
        self.values.len()
    }

    pub(super) fn get(&self, position: usize) -> Option<&'a Value> {
        self.values.get(position.checked_sub(1)?)
    }

    /// A number, or text that reads as one.
    pub(super) fn number(&self, position: usize) -> Result<f64, Raised> {
        let value = self.get(position).cloned().unwrap_or(Value::Nil);
        match self.lua.coerce_number(value) {
            Ok(Some(number)) => Ok(number),
            Ok(None) | Err(_) => Err(self.expected(position, "number")),
        }
    }

    /// Text, or a number as text.
    pub(super) fn text(&self, position: usize) -> Result<Vec<u8>, Raised> {
        let value = self.get(position).cloned().unwrap_or(Value::Nil);
        match self.lua.coerce_string(value) {
            Ok(Some(text)) => Ok(text.as_bytes().to_vec()),
            Ok(None) | Err(_) => Err(self.expected(position, "string")),
        }
    }

    /// A table.
    pub(super) fn table(&self, position: usize) -> Result<&'a Table, Raised> {
        match self.get(position) {
            Some(Value::Table(table)) => Ok(table),
            _ => Err(self.expected(position, "table")),
        }
    }

    /// A value of any kind, but one.
    pub(super) fn any(&self, position: usize) -> Result<&'a Value, Raised> {
        self.get(position).ok_or_else(|| self.bad(position, "value expected"))
    }

    /// `bad argument #1 to 'name' (…)`, located in the calling script.
    pub(super) fn bad(&self, position: usize, why: &str) -> Raised {
        let name = self.lua.inspect_stack(0, |frame| frame.names().name.map(|n| n.into_owned()));
        let name = name.flatten().unwrap_or_else(|| "?".to_owned());
        Raised::located(self.lua, &format!("bad argument #{position} to '{name}' ({why})"))
    }

    fn expected(&self, position: usize, wanted: &str) -> Raised {
        let found = self.get(position).map_or("no value", type_name);
        self.bad(position, &format!("{wanted} expected, got {found}"))
    }
}

/// The name that Lua's `type` gives.
pub(super) fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Nil => "nil",
        Value::Boolean(_) => "boolean",
        Value::Integer(_) | Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Table(_) => "table",
        Value::Function(_) => "function",
        Value::Thread(_) => "thread",
        _ => "userdata",
    }
}
