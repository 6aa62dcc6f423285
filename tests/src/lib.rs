//! The test kit: real servers on loopback, and what the end-to-end suites share.
