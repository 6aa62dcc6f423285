//! Joins the Lua files into the library text; used by the build and by tools that read edited
//! sources.

use std::path::{Path, PathBuf};
use std::{fs, io};

/// The shared files that others use while the chunk loads, in this order. The rest of `lib/` and
/// all of `fn/` follow by name.
const FIRST: [&str; 3] = ["prelude.lua", "define.lua", "reply.lua"];

/// See [`crate::library::REVISION`]; here, because the build writes it into the text.
pub(crate) const REVISION: u32 = 5;

/// Joins `lib/*.lua` and `fn/<domain>/*.lua` below `root` into one library.
///
/// # Errors
/// When a source cannot be read.
pub fn assemble(root: &Path) -> io::Result<String> {
    Ok(stamp(&join(root)?).0)
}

/// The library with its revision and digest written into it, and that digest.
pub(crate) fn stamp(joined: &str) -> (String, String) {
    let digest = digest(joined);
    let text = joined.replace("@revision@", &REVISION.to_string()).replace("@digest@", &digest);
    (text, digest)
}

/// The library as it stands in its files.
pub(crate) fn join(root: &Path) -> io::Result<String> {
    let mut library = String::from("#!lua name=flowfabric\n");
    let lib = root.join("lib");
    for name in FIRST {
        library.push_str(&fs::read_to_string(lib.join(name))?);
    }
    let mut blocks: Vec<PathBuf> = lua_files(&lib)?;
    blocks.retain(|path| !FIRST.iter().any(|first| path.ends_with(first)));
    for domain in sorted(fs::read_dir(root.join("fn"))?)? {
        if domain.is_dir() {
            blocks.extend(lua_files(&domain)?);
        }
    }
    for path in blocks {
        // A block per file keeps its locals apart: a chunk may hold only 200.
        library.push_str("\ndo\n");
        library.push_str(&fs::read_to_string(path)?);
        library.push_str("end\n");
    }
    Ok(library)
}

/// FNV-1a over the text. It distinguishes texts and is no protection against forgery.
fn digest(text: &str) -> String {
    let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("{hash:016x}")
}

fn lua_files(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files = sorted(fs::read_dir(folder)?)?;
    files.retain(|path| path.extension().is_some_and(|extension| extension == "lua"));
    Ok(files)
}

fn sorted(entries: fs::ReadDir) -> io::Result<Vec<PathBuf>> {
    let mut paths: Vec<PathBuf> =
        entries.map(|entry| entry.map(|entry| entry.path())).collect::<io::Result<_>>()?;
    paths.sort();
    Ok(paths)
}
