//! A whole relay, from a program's bytes to a server's and back.

mod answers;
mod failures;
mod lab;
mod refusals;
mod secrets;
