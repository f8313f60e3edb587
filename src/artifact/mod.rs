//! Files that outlive the container they came from, or wait for the one they go to.
//!
//! The store keeps artifacts, outputs, uploads and records by content, under a time to live and a cap,
//! and several servers share it. Beside it stand the media types of hostile files, and the folders of the
//! user's own machine that the operator opened. Nothing here may follow a path that came from inside: files in
//! the store are named by digests and random ids alone.

mod disk;
mod entry;
mod index;
mod local;
mod media;
mod store;
mod sweep;
mod writer;

pub use entry::{Cursor, CursorError, Entry, Kind, NewEntry, Page};
pub use local::{Access, AllowedDirs, LocalError, LocalFile, LocalWriter, Overwrite};
pub use media::{
    MAX_IMAGE_BYTES, MAX_IMAGE_PIXELS, MAX_IMAGE_SIDE, OCTET_STREAM, ShowableImage, Sniffer,
    is_image_name, media_type, media_type_of_name, showable_image,
};
pub use store::{DEFAULT_CAP_BYTES, DEFAULT_TTL, MAX_READ_BYTES, Options, Store, StoreError};
pub use sweep::Swept;
pub use writer::BlobWriter;
