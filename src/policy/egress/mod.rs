//! What a profile allows to go out: pure decisions on canonical values.
//!
//! A connection is decided before anything is resolved, an address before it is dialled, a request before a byte of
//! it is sent. Nothing here resolves, dials or reads a clock, and what no rule allows is denied.

mod address;
mod decide;
mod denial;
#[cfg(test)]
pub(crate) mod fixtures;
mod target;
mod variables;

pub use address::address;
pub use decide::{Route, connection, is_restricted, request};
pub use denial::EgressDenial;
pub use target::canonical_target;
pub(in crate::policy) use variables::names as variable_names;
pub use variables::variables;
