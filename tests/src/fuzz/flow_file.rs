//! Any text for a flow's file: a flow that makes sense, or the reason why not.

use std::path::Path;

use selvedge::flow_file::{Format, read};

/// Reads a text as a flow, in the format that it looks like.
///
/// # Panics
/// When a flow is let through that makes no sense.
pub fn run(data: &[u8]) {
    let Ok(text) = str::from_utf8(data) else { return };
    match read(text, Format::of(Path::new("flow"), text)) {
        Ok(flow) => {
            assert!(flow.check().is_ok(), "read, and yet refused");
            let mut names: Vec<&str> = flow.names().collect();
            let count = names.len();
            names.sort_unstable();
            names.dedup();
            assert_eq!(names.len(), count, "two tasks of one name");
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}
