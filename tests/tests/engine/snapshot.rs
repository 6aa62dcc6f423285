//! Expectations kept as text files beside the tests. `SELVEDGE_UPDATE=1` rewrites them; commit the
//! difference only when each line of it can be explained.

use std::path::{Path, PathBuf};

/// Asserts that `told` equals the file.
pub(crate) fn assert_snapshot(file: &str, told: &str) {
    let path = path(file);
    if std::env::var_os("SELVEDGE_UPDATE").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, told).unwrap();
        return;
    }
    let known = read_snapshot(file);
    for (at, (known, told)) in known.lines().zip(told.lines()).enumerate() {
        assert_eq!(told, known, "{file}, line {}", at + 1);
    }
    assert_eq!(told.lines().count(), known.lines().count(), "{file}: lines");
}

/// The content of a file; empty when it does not exist.
pub(crate) fn read_snapshot(file: &str) -> String {
    std::fs::read_to_string(path(file)).unwrap_or_default()
}

fn path(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/engine").join(file)
}
