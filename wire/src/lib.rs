//! The frames that belljar's server and its guest exchange over the tether.
//!
//! Both sides use this one crate, so that the two cannot disagree. It must never allocate more than
//! a bound of [`limits`] because of what the other side sent, and never panic on it: the guest is
//! assumed hostile from its first byte.
//!
//! # Theory of operation
//! One byte stream (the container's standard input and output) carries a [`mux`]; the server opens
//! one stream of it per request. On each of these travel frames: a kind, a length and a payload (see
//! [`frame`]). The first frame of a stream is a [`message::Request`]; what follows is described at
//! each of its variants.
//!
//! While a [`message::Request::Egress`] lasts, the guest opens streams too: one for each connection that
//! a program makes to its listener. They carry that connection's bytes both ways and no frames.

pub mod frame;
pub mod limits;
pub mod message;
pub mod mux;

/// The version of the messages. Server and guest are built together and compare it in the hello, so
/// that a stale guest volume is found out instead of being misread.
pub const PROTOCOL: u32 = 4;

/// The guest's only argument, or none: every program gets an init of its own, in namespaces where the guest cannot be
/// seen. For runtimes under which PID 1 is a process like any other. It is fixed before the guest's first instruction,
/// so that nothing inside has a say in it.
pub const STUB_ARGUMENT: &str = "--stub";
