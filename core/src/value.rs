//! [`Value`]: what a store answers, whatever carried it.
//!
//! The shell maps wire replies into it, the in-process host produces it, every reply parser of
//! [`crate::call`] reads it. It has the shapes of RESP2, in which all our functions answer.

use alloc::string::String;
use alloc::vec::Vec;

/// One reply, or one element of a reply.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Value {
    /// A null bulk string or null array; Lua sees `false`.
    Nil,
    /// A RESP integer.
    Int(i64),
    /// A bulk string: any bytes.
    Bulk(Vec<u8>),
    /// A status reply such as `OK`, without the leading `+`.
    Status(String),
    /// An error reply, without the leading `-`: first word is the code, e.g. `WRONGTYPE …`.
    Error(String),
    /// An array of replies.
    Array(Vec<Value>),
}
