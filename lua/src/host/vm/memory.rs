//! The limit on the memory of a Lua VM.

use mlua::Lua;

/// Runs native code without the limit on Lua's memory, then puts the limit back.
///
/// Under a limit every value that native code hands to Lua costs a protected call, several times
/// the price of the value. What a reply can hold is bounded by what the keyspace holds, so the
/// limit is for scripts alone.
pub(super) fn unlimited<R>(lua: &Lua, native: impl FnOnce() -> mlua::Result<R>) -> mlua::Result<R> {
    let limit = lua.set_memory_limit(0)?;
    let result = native();
    lua.set_memory_limit(limit)?;
    result
}

/// Runs a script under a limit, in bytes.
pub(super) fn limited<R>(
    lua: &Lua,
    limit: usize,
    script: impl FnOnce() -> mlua::Result<R>,
) -> mlua::Result<R> {
    // Lua 5.1 does not tidy up when memory runs short, so the leavings of earlier scripts would
    // count against this one.
    if lua.used_memory() > limit / 2 {
        lua.gc_collect()?;
    }
    lua.set_memory_limit(limit)?;
    let result = script();
    lua.set_memory_limit(0)?;
    result
}
