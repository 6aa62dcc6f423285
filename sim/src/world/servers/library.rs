//! Which function library each node has.

use selvedge_core::value::Value;
use selvedge_lua::host::Snapshot;

use super::Servers;

impl Servers {
    /// Removes the library from a node.
    pub fn drop_library(&mut self, node: usize) {
        self.switch_to(node);
        self.host.call(&["FUNCTION", "FLUSH"]);
    }

    /// Replaces the library of a node by another of the same name.
    pub fn replace_library(&mut self, node: usize, text: &str) {
        self.switch_to(node);
        self.host.call(&["FUNCTION", "LOAD", "REPLACE", text]);
    }

    /// Whether a node has our library.
    pub fn has_library(&mut self, node: usize) -> bool {
        self.switch_to(node);
        !matches!(self.host.call(&["FCALL", "ff_library_revision", "0"]), Value::Error(_))
    }

    /// Loads our library on every node.
    pub fn load_library(&mut self) {
        for node in 0..self.nodes.len() {
            drop(self.install_library(node));
        }
    }

    /// Loads our library on one node; returns what the node held before.
    pub fn install_library(&mut self, node: usize) -> Snapshot {
        self.switch_to(node);
        let before = self.host.snapshot();
        let mut data = before.clone();
        data.take_libraries(&self.host.fresh);
        self.host.swap(&mut data);
        before
    }

    /// Restores the libraries that a node had before.
    pub fn restore_libraries(&mut self, node: usize, before: &Snapshot) {
        self.switch_to(node);
        let mut data = self.host.snapshot();
        data.take_libraries(before);
        self.host.swap(&mut data);
    }
}
