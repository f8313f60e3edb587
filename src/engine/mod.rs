//! See ARCHITECTURE.md.
pub mod guest_binary;
pub mod tether;
