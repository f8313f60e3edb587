//! See ARCHITECTURE.md.

pub mod config;
pub mod images;
mod progress;
