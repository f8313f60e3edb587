//! PID 1 of every sandbox.
fn main() {}
