//! The function library as text.

pub use crate::assemble::assemble;

/// Name under which servers hold the library.
pub const NAME: &str = "flowfabric";

/// What `ff_version` answers. The number belongs to the wire contract and stays when functions
/// are added.
pub const VERSION: &str = "34";

/// The edition of the library that this crate carries. To be raised with every release that changes
/// the library: a program leaves a newer edition alone and replaces an older one.
pub const REVISION: u32 = crate::assemble::REVISION;

/// Tells texts of the same revision apart.
pub const DIGEST: &str = include_str!(concat!(env!("OUT_DIR"), "/flowfabric.digest"));

/// The library as `FUNCTION LOAD` takes it.
pub const SOURCE: &str = include_str!(concat!(env!("OUT_DIR"), "/flowfabric.lua"));
