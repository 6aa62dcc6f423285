//! The tools of random testing, shared by the simulator and the test programs in `tests/`:
//! [`Draws`] makes random choices, [`run_seeds`] runs a range of seeds on several threads, and
//! [`shrink_list`] and [`shrink_value`] make an input that fails as small as possible.

mod draws;
mod seeds;
mod shrink;

pub use draws::{Draws, Ratio, Span};
pub use seeds::run_seeds;
pub use shrink::{Tried, Tries, shrink_list, shrink_value};
