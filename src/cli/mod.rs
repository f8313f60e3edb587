//! The command line's parts, one file a command.
//!
//! Whatever a command prints that came from inside a container is shown with visible escapes: a terminal obeys
//! what it prints.

pub mod audit;
