//! What a service compiles that embeds the library.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

/// Crates that only the command needs, or that a feature brings.
const COMMAND: [&str; 7] = [
    "anstream",
    "axum",
    "clap",
    "comfy-table",
    "metrics-exporter-prometheus",
    "tracing-subscriber",
    "selvedge-cli",
];
const FEATURES: [&str; 4] = ["humantime", "metrics", "rustls", "toml"];

#[test]
fn the_library_alone_needs_nothing_of_the_command_or_of_its_features() {
    let bare = crates(&["--no-default-features", "-e", "normal"]);
    assert!(bare.contains("selvedge-core"), "{bare:?}");
    for name in COMMAND.iter().chain(&FEATURES).chain(&["mlua"]) {
        assert!(!bare.contains(*name), "selvedge without features depends on {name}");
    }
    let default = crates(&["-e", "normal"]);
    assert!(default.contains("mlua"), "memory:// is a default feature: {default:?}");
    for name in COMMAND.iter().chain(&FEATURES) {
        assert!(!default.contains(*name), "selvedge depends on {name}");
    }
}

#[test]
fn the_examples_build_without_the_test_tools() {
    for package in ["selvedge", "selvedge-lua", "selvedge-core", "selvedge-cli"] {
        let with_dev = crates(&["-p", package, "-e", "normal,dev,build", "--all-features"]);
        for name in ["selvedge-sim", "selvedge-tests"] {
            assert!(!with_dev.contains(name), "{package} depends on {name}");
        }
    }
}

/// The names of the crates in the dependency tree of `selvedge`, or of the package named in the
/// options.
fn crates(options: &[&str]) -> BTreeSet<String> {
    let mut tree = Command::new(env!("CARGO"));
    tree.current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).with_file_name(""));
    tree.args(["tree", "--offline", "--prefix", "none", "--format", "{p}"]);
    if !options.contains(&"-p") {
        tree.args(["-p", "selvedge"]);
    }
    let printed = tree.args(options).output().expect("cargo runs");
    let errors = String::from_utf8_lossy(&printed.stderr);
    assert!(printed.status.success(), "{errors}");
    let lines = String::from_utf8_lossy(&printed.stdout);
    lines.lines().filter_map(|line| line.split(' ').next()).map(str::to_owned).collect()
}
