//! Durable execution on Valkey.
//!
//! | room | what is in it |
//! | --- | --- |
//! | [`store`] | one handle for whatever holds the data: this process, a server, a cluster |
//! | [`demo`] | sample work, to see it run |

mod clock;
pub mod demo;
pub mod embedded;
mod secret_text;
pub mod store;

pub use secret_text::SecretText;
