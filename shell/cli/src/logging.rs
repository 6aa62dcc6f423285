//! Log lines on standard error, chosen by `RUST_LOG`.

use std::io::IsTerminal as _;

use thiserror::Error;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::{ParseError, Targets};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

/// Why there is no log.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum LoggingError {
    /// `RUST_LOG` cannot be read.
    #[error("RUST_LOG=`{text}`: {error}; expected levels such as `info` or `info,selvedge=debug`")]
    Filter {
        /// The value of the variable.
        text: String,
        /// What is wrong with it.
        error: ParseError,
    },
    /// The process already has a subscriber.
    #[error("the log cannot be set up: {0}")]
    Taken(String),
}

/// Logs to standard error what `RUST_LOG` names, or everything from `default` up when it is not
/// set.
///
/// # Errors
/// When `RUST_LOG` cannot be read, or the process already logs.
pub fn log_to_stderr(default: LevelFilter) -> Result<(), LoggingError> {
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal());
    tracing_subscriber::registry()
        .with(targets(std::env::var("RUST_LOG").ok(), default)?)
        .with(lines)
        .try_init()
        .map_err(|error| LoggingError::Taken(error.to_string()))
}

fn targets(variable: Option<String>, default: LevelFilter) -> Result<Targets, LoggingError> {
    match variable.filter(|text| !text.trim().is_empty()) {
        None => Ok(Targets::new().with_default(default)),
        Some(text) => text.parse().map_err(|error| LoggingError::Filter { text, error }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tracing::Level;

    #[test]
    fn the_variable_chooses_levels_by_target() {
        let default = targets(None, LevelFilter::INFO).unwrap();
        assert!(default.would_enable("hyper", &Level::INFO));
        assert!(!default.would_enable("hyper", &Level::DEBUG));
        let chosen = targets(Some("warn,selvedge=debug".to_owned()), LevelFilter::INFO).unwrap();
        assert!(chosen.would_enable("selvedge::store", &Level::DEBUG));
        assert!(!chosen.would_enable("hyper", &Level::INFO));
    }

    #[test]
    fn a_filter_that_cannot_be_read_is_named() {
        let error = targets(Some("selvedge=loud".to_owned()), LevelFilter::INFO).unwrap_err();
        assert!(error.to_string().contains("selvedge=loud"), "{error}");
    }
}
