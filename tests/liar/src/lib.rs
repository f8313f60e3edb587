//! A guest in hostile hands: it takes the place of PID 1 in a real container and lies on the tether.
//!
//! [`lies::LIES`] is the table of what it says; [`voice::Voice`] says it, and keeps the protocol wherever the lie leaves
//! it alone. The test `tests/hostile_guest/` builds the program, puts it in the guest's place and reads the same table.
//! Never part of what is shipped.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::missing_panics_doc,
    reason = "a test fails by panicking, in its helpers too"
)]

pub mod lies;
pub mod voice;
