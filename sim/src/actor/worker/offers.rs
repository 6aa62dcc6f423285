//! What workers can do, and what they take.

use std::collections::BTreeSet;

use selvedge_core::capability::Capabilities;
use selvedge_core::id::Namespace;
use selvedge_core::work_filter::WorkFilter;

use crate::actor::{kind, tenant};
use crate::plan::Config;

/// What a worker of this number takes. The first one takes everything, so that nothing waits for
/// good when others are broken.
pub(crate) fn taken(number: u8, config: &Config) -> WorkFilter {
    let (number, kinds) = (u64::from(number), config.kinds.max(1));
    let (namespace, kinds): (Option<Namespace>, BTreeSet<String>) = match number {
        1 => (None, (0..kinds).map(kind).collect()),
        _ => {
            let of_one = number % 3 != 0;
            let namespace = of_one.then(|| tenant(number / 2 % config.tenants.max(1)));
            // One kind of two, two of three.
            let few = (0..kinds.div_ceil(2)).map(|at| kind((number + at) % kinds));
            (namespace, few.collect())
        }
    };
    WorkFilter::new(namespace, Some(kinds)).unwrap_or_else(|_| WorkFilter::all())
}

/// What a worker of this number can do.
pub(crate) fn offered(number: u8) -> Capabilities {
    let offered = if number % 2 == 1 { "gpu" } else { "" };
    offered.parse().unwrap_or_default()
}
