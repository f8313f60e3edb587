//! How clients reach the server, and who each of them is.
//!
//! A transport names the caller and hands the connection to [`crate::tools::Server`]; it decides nothing
//! else.

pub mod http;
pub mod stdio;
