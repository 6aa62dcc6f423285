//! The macros of the `metrics` facade, or macros that do nothing when the feature `metrics` is off.

#[cfg(feature = "metrics")]
pub(crate) use metrics::{counter, gauge, histogram};

#[cfg(not(feature = "metrics"))]
pub(crate) use disabled::{counter, gauge, histogram};

#[cfg(not(feature = "metrics"))]
pub(crate) mod disabled {
    /// Takes the place of a counter, gauge or histogram.
    pub(crate) struct Nothing;

    impl Nothing {
        pub(crate) fn increment(&self, _: u64) {}

        pub(crate) fn set(&self, _: f64) {}

        pub(crate) fn record(&self, _: f64) {}
    }

    // The arguments are named in a closure that nobody calls: used, and not evaluated.
    macro_rules! nothing {
        ($name:expr $(, $key:literal => $value:expr)* $(,)?) => {{
            let _ = || {
                let _ = (&$name, $(&$value),*);
            };
            $crate::observe::metrics::disabled::Nothing
        }};
        ($name:expr, $labels:expr) => {{
            let _ = || {
                let _ = (&$name, &$labels);
            };
            $crate::observe::metrics::disabled::Nothing
        }};
    }
    pub(crate) use nothing as counter;
    pub(crate) use nothing as gauge;
    pub(crate) use nothing as histogram;
}
