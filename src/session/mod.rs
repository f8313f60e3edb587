//! Who owns which session until when: a registry of leased sandboxes.
//!
//! A session belongs to the caller that opened it, serves one call at a time, and ends when it is closed, lies
//! idle too long, or its lease is over. Whatever ends it, its sandbox is handed out exactly once, as an
//! [`Ended`], to be destroyed by whoever receives it: nothing in here knows what a sandbox is, and no sandbox may
//! be dropped in here.
//!
//! # Theory of operation
//! `reserve` takes a place, so that nobody creates a container only to hear that there are too many. `insert`
//! turns the place into a live session. `lease` queues for the session's one turn; while anybody holds or awaits
//! it, the session is not idle. Ending has two steps: the session is *buried* at once (no new call finds it, its
//! tombstone says why, its running call is told to stop), and its sandbox is *handed out* once the turn is free:
//! to `close`, to `drain`, or to the sweep, whichever comes first. A call that is dropped half-way leaves the
//! second step to the sweep.

mod entry;
mod error;
mod lease;
mod registry;
mod tombstone;

pub use entry::Ended;
pub use error::{Gone, SessionError};
pub use lease::Lease;
pub use registry::{Opened, Place, Sessions};

#[cfg(test)]
mod tests;
