//! What is allowed, decided in one place: an action and a caller become a [`Permit`] or a [`Denial`].
//!
//! Pure: no I/O, no clock, no state. The engine demands a permit for what it starts, so that no path to a
//! container can forget to ask. A permit must never be made anywhere but here.

mod permit;

pub use permit::{Launch, Permit};
