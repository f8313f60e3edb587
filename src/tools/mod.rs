//! The tools that clients see, one file each: arguments in, labelled reply out.
//!
//! A tool parses its arguments, asks the [`Broker`](crate::broker::Broker) and words the answer. It must never reach past the
//! broker, and nothing that came out of a sandbox may leave a tool unfenced.

#[cfg(any(test, fuzzing))]
pub(crate) mod asked;
mod close_session;
mod fetch_artifact;
mod list_files;
mod open_session;
mod reply;
mod resources;
mod room;
mod run_code;
mod schema;
mod server;
mod tool;
mod upload_file;

pub use room::Room;
pub(crate) use run_code::summary;
pub use server::Server;
pub use tool::{Reach, catalogue};
