//! Joins the Lua sources into the one library text that the crate carries.

#[path = "src/assemble.rs"]
#[expect(unreachable_pub, reason = "the same file is public in the library")]
mod assemble;

use std::path::Path;
use std::{env, fs};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let root = env::var("CARGO_MANIFEST_DIR")?;
    let root = Path::new(&root);
    for folder in ["lib", "fn", "src/assemble.rs"] {
        println!("cargo::rerun-if-changed={}", root.join(folder).display());
    }
    let out = Path::new(&env::var("OUT_DIR")?).join("flowfabric.lua");
    fs::write(out, assemble::assemble(root)?)?;
    Ok(())
}
