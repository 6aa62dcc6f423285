//! The `cargo sim` command.

fn main() {}
