//! See ARCHITECTURE.md.

pub mod images;
mod progress;
