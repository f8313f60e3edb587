//! See ARCHITECTURE.md.
pub mod tether;
