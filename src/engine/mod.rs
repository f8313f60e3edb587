//! See ARCHITECTURE.md.

pub mod docker_images;
