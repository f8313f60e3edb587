//! What code prints, on its way from the wire to a reader: captured, bounded, escaped and fenced.
//!
//! Everything here treats its input as written by an attacker. Nothing may leave with a control or
//! invisible character in it, nothing may grow with the input, and no count may be a guess.

mod capture;
mod escape;
mod fence;
mod window;

pub use capture::{
    Capture, Captured, CapturedStream, RawContent, SPILL_CHUNK_BYTES, Stream, Verdict,
};
#[cfg(any(test, fuzzing))]
pub(crate) use escape::reference;
pub use escape::{SHOWN_BYTES, Shown, show, show_bytes, whole_characters};
pub use fence::{Fence, Label, Part};
pub use window::{HEAD_BYTES, TAIL_BYTES, Window};
