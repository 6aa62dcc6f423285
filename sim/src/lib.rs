//! Seeded simulations of Selvedge.
