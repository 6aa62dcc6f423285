//! What a worker takes: executions of a namespace and of some kinds.

use alloc::collections::BTreeSet;
use alloc::string::String;
use alloc::sync::Arc;
use core::fmt;

use thiserror::Error;

use crate::id::Namespace;

/// The namespace and the kinds that a worker takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkFilter {
    namespace: Option<Namespace>,
    kinds: Option<Arc<BTreeSet<String>>>,
    /// As an argument: lines of a namespace and a kind, an empty one stands for all.
    text: Arc<str>,
}

impl WorkFilter {
    /// Longest filter as an argument: of some hundred kinds with long names.
    pub const BYTES_MAX: usize = 64 * 1024;

    /// Takes everything.
    #[must_use]
    pub fn all() -> Self {
        Self { namespace: None, kinds: None, text: "\n\t\n".into() }
    }

    /// Takes executions of this namespace, and of these kinds; none stands for all.
    ///
    /// # Errors
    /// When the names are too long together.
    pub fn new(
        namespace: Option<Namespace>,
        kinds: Option<BTreeSet<String>>,
    ) -> Result<Self, InvalidWorkFilter> {
        let place = namespace.as_ref().map_or("", Namespace::as_str);
        let mut text = String::from("\n");
        let mut add = |kind: &str| text.extend([place, "\t", kind, "\n"]);
        match &kinds {
            None => add(""),
            Some(kinds) => kinds.iter().for_each(|kind| add(kind)),
        }
        if text.len() > Self::BYTES_MAX {
            return Err(InvalidWorkFilter { bytes: text.len() });
        }
        Ok(Self { namespace, kinds: kinds.map(Arc::new), text: text.into() })
    }

    /// The namespace; none if it takes all.
    #[must_use]
    pub const fn namespace(&self) -> Option<&Namespace> {
        self.namespace.as_ref()
    }

    /// The kinds; none if it takes all.
    #[must_use]
    pub fn kinds(&self) -> Option<&BTreeSet<String>> {
        self.kinds.as_deref()
    }

    /// Whether it takes an execution of this namespace and kind.
    #[must_use]
    pub fn takes(&self, namespace: &str, kind: &str) -> bool {
        self.namespace.as_ref().is_none_or(|own| own.as_str() == namespace)
            && self.kinds.as_ref().is_none_or(|kinds| kinds.contains(kind))
    }
}

impl fmt::Display for WorkFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Why a work filter cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "the kinds of a worker have {bytes} bytes together, at most {} are possible",
    WorkFilter::BYTES_MAX
)]
pub struct InvalidWorkFilter {
    /// How long it would be.
    pub bytes: usize,
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    fn kinds(names: &[&str]) -> Option<BTreeSet<String>> {
        Some(names.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn a_filter_names_each_kind_with_its_namespace() {
        let tenant = || Some(Namespace::new("tenant-a"));
        let text = |namespace, kinds| WorkFilter::new(namespace, kinds).unwrap().to_string();
        assert_eq!(text(tenant(), kinds(&["b", "a"])), "\ntenant-a\ta\ntenant-a\tb\n");
        assert_eq!(text(tenant(), None), "\ntenant-a\t\n");
        assert_eq!(text(None, kinds(&["a"])), "\n\ta\n");
        assert_eq!(text(None, None), WorkFilter::all().to_string());
    }

    #[test]
    fn an_execution_is_taken_if_namespace_and_kind_suit() {
        let filter = WorkFilter::new(Some(Namespace::new("t")), kinds(&["a"])).unwrap();
        assert!(filter.takes("t", "a"));
        assert!(!filter.takes("t", "b"));
        assert!(!filter.takes("u", "a"));
        assert!(WorkFilter::all().takes("u", "b"));
    }

    #[test]
    fn a_filter_that_is_too_long_is_refused() {
        let many = (0..70_000).map(|number| number.to_string()).collect();
        assert!(WorkFilter::new(None, Some(many)).is_err());
    }
}
