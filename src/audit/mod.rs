//! The record of what was asked, decided and done: one line of JSON per action, chained by digests, and each log's end
//! written down by those that begin after it.
//!
//! An action that cannot be recorded must not count as done: [`Log::append`] fails, and its caller with it.
//! No secret stands in a line. Values of variables are there only under a keyed digest whose key is never
//! written, and code, arguments and output only by their digests.

mod egress;
mod event;
mod head;
mod log;
mod read;
mod verify;

pub use egress::{EgressCounts, EgressRecord};
pub use event::{
    Action, Decision, Event, FileRecord, LimitsRecord, Line, MAX_LISTED, Outcome, SealedVar,
    StreamRecord, args_digest,
};
pub use head::LogHead;
pub use log::{AuditError, Log, MAX_LINE_BYTES};
pub use read::{Logs, ReadError};
pub use verify::{Fault, LogReport};
