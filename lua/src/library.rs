//! The function library as text.

pub use crate::assemble::assemble;

/// Name under which servers hold the library.
pub const NAME: &str = "flowfabric";

/// What `ff_version` answers. The number belongs to the wire contract and stays when functions
/// are added.
pub const VERSION: &str = "34";

/// The library as `FUNCTION LOAD` takes it.
pub const SOURCE: &str = include_str!(concat!(env!("OUT_DIR"), "/flowfabric.lua"));
