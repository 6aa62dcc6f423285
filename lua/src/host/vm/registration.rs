//! `redis.register_function`: the functions that a library registers while it loads.

use std::sync::{Arc, Mutex, PoisonError};

use mlua::{Function, MultiValue, Table, Value as LuaValue};

use super::Body;
use super::args::Raised;
use super::to_lua::to_argument;

/// A function as a library registered it. Names are checked when the library is taken in.
#[derive(Clone)]
pub(crate) struct Registered {
    pub(crate) name: Vec<u8>,
    pub(crate) description: Option<Vec<u8>>,
    pub(crate) flags: Vec<&'static str>,
    pub(crate) body: Body,
}

/// The functions that the library being loaded has registered so far.
#[derive(Clone, Default)]
pub(crate) struct Registration(Arc<Mutex<Vec<Registered>>>);

impl Registration {
    pub(super) fn begin(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    pub(super) fn finish(&self) -> Vec<Registered> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(super) fn add(&self, function: Registered) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(function);
    }
}

/// Every flag that a function may carry.
const FLAGS: [&str; 5] =
    ["no-writes", "allow-oom", "allow-stale", "no-cluster", "allow-cross-slot-keys"];

/// Reads the arguments of `redis.register_function`, in either form.
pub(super) fn registered(values: &MultiValue) -> Result<Registered, Raised> {
    let refuse = |text: &str| Err(Raised::Reply(format!("ERR {text}")));
    match (values.len(), values.front(), values.get(1)) {
        (1, Some(LuaValue::Table(named)), _) => registered_by_name(named),
        (1, _, _) => refuse(
            "calling server.register_function with a single argument is only applicable \
             to Lua table (representing named arguments).",
        ),
        (2, Some(name), Some(LuaValue::Function(body))) => match to_argument(name) {
            Some(name) => Ok(Registered {
                name,
                description: None,
                flags: Vec::new(),
                body: Body(body.clone()),
            }),
            None => refuse("first argument to server.register_function must be a string"),
        },
        (2, _, _) => refuse("second argument to server.register_function must be a function"),
        _ => refuse("wrong number of arguments to server.register_function"),
    }
}

fn registered_by_name(named: &Table) -> Result<Registered, Raised> {
    let refuse = |text: &str| Raised::Reply(format!("ERR {text}"));
    let mut name = None;
    let mut description = None;
    let mut flags = Vec::new();
    let mut body: Option<Function> = None;
    for pair in named.pairs::<LuaValue, LuaValue>() {
        let (field, value) = pair.map_err(|error| Raised::of(&error))?;
        let Some(field) = to_argument(&field) else {
            return Err(refuse(
                "named argument key given to server.register_function is not a string",
            ));
        };
        match field.as_slice() {
            b"function_name" => {
                name = Some(to_argument(&value).ok_or_else(|| {
                    refuse(
                        "function_name argument given to server.register_function must be a string",
                    )
                })?);
            }
            b"description" => {
                description = Some(to_argument(&value).ok_or_else(|| {
                    refuse(
                        "description argument given to server.register_function must be a string",
                    )
                })?);
            }
            b"callback" => match value {
                LuaValue::Function(function) => body = Some(function),
                _ => {
                    return Err(refuse(
                        "callback argument given to server.register_function must be a function",
                    ));
                }
            },
            b"flags" => match value {
                LuaValue::Table(list) => flags = chosen_flags(&list)?,
                _ => {
                    return Err(refuse(
                        "flags argument to server.register_function must be a table \
                         representing function flags",
                    ));
                }
            },
            _ => return Err(refuse("unknown argument given to server.register_function")),
        }
    }
    let name =
        name.ok_or_else(|| refuse("server.register_function must get a function name argument"))?;
    let body =
        body.ok_or_else(|| refuse("server.register_function must get a callback argument"))?;
    Ok(Registered { name, description, flags, body: Body(body) })
}

fn chosen_flags(list: &Table) -> Result<Vec<&'static str>, Raised> {
    let unknown = || Raised::Reply("ERR unknown flag given".to_owned());
    let mut chosen = Vec::new();
    for index in 1_i64.. {
        let flag: LuaValue = list.raw_get(index).map_err(|error| Raised::of(&error))?;
        if flag.is_nil() {
            break;
        }
        let flag = to_argument(&flag).ok_or_else(unknown)?;
        let known = FLAGS.into_iter().find(|known| known.as_bytes() == flag);
        chosen.push(known.ok_or_else(unknown)?);
    }
    Ok(FLAGS.into_iter().filter(|flag| chosen.contains(flag)).collect())
}
