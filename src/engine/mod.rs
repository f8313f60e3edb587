//! See ARCHITECTURE.md.
pub mod guest_binary;
#[doc(hidden)]
pub mod scripted_guest;
pub mod tether;
