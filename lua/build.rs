//! Joins the Lua sources into the one library text that the crate carries.

#[path = "src/assemble.rs"]
#[expect(unreachable_pub, dead_code, reason = "the same file is a part of the library")]
mod assemble;

use std::path::Path;
use std::{env, fs};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let root = env::var("CARGO_MANIFEST_DIR")?;
    let root = Path::new(&root);
    for folder in ["lib", "fn", "src/assemble.rs"] {
        println!("cargo::rerun-if-changed={}", root.join(folder).display());
    }
    let out = env::var("OUT_DIR")?;
    let (library, digest) = assemble::stamp(&assemble::join(root)?);
    fs::write(Path::new(&out).join("flowfabric.digest"), digest)?;
    fs::write(Path::new(&out).join("flowfabric.lua"), library)?;
    Ok(())
}
