//! What is allowed, decided in one place: an action and a caller become a [`Permit`] or a [`Denial`].
//!
//! Pure: no I/O, no clock, no state. The engine demands a permit for what it starts, so that no path to a
//! container can forget to ask. A permit must never be made anywhere but here, and a denial must never show a
//! caller's text but escaped and shortened.

mod ask;
mod denial;
pub mod egress;
mod files;
mod network;
mod packages;
mod permit;
mod plan;
mod program;
mod rules;

pub use ask::{FileAsk, FileSource, RunAsk, SessionAsk, UploadAsk};
pub use denial::{Denial, Quoted};

pub use egress::{EgressDenial, Route, variables};
pub use files::{MAX_FILES, MAX_INLINE_BYTES};
pub use network::Network;
pub use packages::{InstallPlan, MAX_PACKAGES};
pub use permit::{Launch, Permit, WarmUp};
pub use plan::{Content, InputFile, RunPlan, SessionTerms, Start, Upload, WORKSPACE};
pub use program::{MAX_CODE_BYTES, MAX_STDIN_BYTES, MAX_STRINGS_BYTES};
pub use rules::Policy;
