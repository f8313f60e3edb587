//! The images that sandboxes are made from: what each runs and how, and how the built-in ones are made.
//!
//! A built-in image is a folder below `images/`: a Dockerfile, and an `image.toml` that says how to start a
//! program. Both are part of the binary, so that an installed belljar needs no checkout. Building goes
//! through [`ImageBuilder`]: this module never speaks to a daemon itself, and nothing in it runs unless a
//! person asked for it, since a build pulls and installs packages. What a build prints is written by whoever
//! made those packages and is shown only as a [`Line`].

mod base;
mod build;
mod builder;
mod catalogue;
mod context;
#[cfg(test)]
mod fake;
mod installer;
mod language;
mod line;
pub(crate) mod manifest;
mod warm;

pub use base::{BASE, BaseError, Bootstrap, BootstrapError, Mmdebstrap};
pub use build::{BuildError, Built, Outcome, Present, Rebuild, build, list, remove};
pub use builder::{BuildRequest, BuilderError, Cache, Found, ImageBuilder};
pub use catalogue::{BuiltIn, UnknownImage, catalogue, select};
pub use context::Context;
pub use installer::{INDEX_MARK, Installer};
pub use language::{
    DEFAULT_SHM_MIB, Image, Language, MAX_SHM_MIB, PROGRAM_MARK, is_command, is_loader_variable,
    is_name, is_program, is_reference, is_variable,
};
pub use line::{Line, Progress};
pub use manifest::ManifestError;
pub use warm::{Kind, Pattern, Warm, WarmArgs};

/// The label of a built-in image that holds its name.
///
/// Its name does not begin with `belljar.`: a container inherits its image's labels, and those that begin so
/// say who owns a container.
pub const LABEL_NAME: &str = "image.belljar.name";
/// The label of a built-in image that holds the version of what it was built from.
pub const LABEL_VERSION: &str = "image.belljar.version";
