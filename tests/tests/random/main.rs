//! Short runs of the random tests, and a replay of the fuzzers' corpora. The programs of the same
//! names run them for longer.

mod conformance;
mod corpus;
mod differential;
mod history;
mod hostile;
