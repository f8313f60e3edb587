//! How clients reach the server, and who each of them is.
//!
//! A transport names the caller and hands the connection to [`crate::tools::Server`]; it decides nothing
//! else. What a client writes is read once, within bounds, by `message`.

pub mod http;
mod message;
pub mod stdio;
