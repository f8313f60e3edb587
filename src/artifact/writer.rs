//! Keeps content that comes in pieces, such as a file read from a container, without holding it.
//!
//! Nothing is visible in the store before [`BlobWriter::finish`], and nothing stays of what is dropped.

use sha2::{Digest as _, Sha256 as Hasher};
use tempfile::{NamedTempFile, TempPath};
use tokio::io::AsyncWriteExt as _;

use super::{
    disk::Measured,
    entry::{Entry, NewEntry},
    media::Sniffer,
    store::{Store, StoreError},
};
use crate::types::Sha256;

/// One file on its way into the store.
#[derive(Debug)]
pub struct BlobWriter {
    store: Store,
    file: tokio::fs::File,
    path: TempPath,
    hasher: Hasher,
    sniffer: Sniffer,
    bytes: u64,
    most: u64,
}

impl BlobWriter {
    pub(super) fn new(store: Store, temp: NamedTempFile, most: u64) -> Self {
        let (file, path) = temp.into_parts();
        Self {
            store,
            file: tokio::fs::File::from_std(file),
            path,
            hasher: Hasher::new(),
            sniffer: Sniffer::default(),
            bytes: 0,
            most,
        }
    }

    /// Takes the next piece. [`StoreError::TooLarge`] once the whole is more than the bound.
    pub async fn write_all(&mut self, chunk: &[u8]) -> Result<(), StoreError> {
        self.bytes += chunk.len() as u64;
        if self.bytes > self.most {
            return Err(StoreError::TooLarge { most: self.most });
        }
        self.hasher.update(chunk);
        self.sniffer.push(chunk);
        self.file
            .write_all(chunk)
            .await
            .map_err(StoreError::io("write a file"))
    }

    /// Bytes taken so far.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Makes the entry.
    pub async fn finish(mut self, new: NewEntry) -> Result<Entry, StoreError> {
        if self.bytes > self.most {
            return Err(StoreError::TooLarge { most: self.most });
        }
        self.file
            .flush()
            .await
            .map_err(StoreError::io("write a file"))?;
        let measured = Measured {
            bytes: self.bytes,
            sha256: Sha256::from_bytes(self.hasher.finalize().into()),
            media_type: self.sniffer.finish(&new.name),
        };
        // Closed before it is moved: Windows moves no open file.
        drop(self.file.into_std().await);
        let path = self.path;
        self.store
            .blocking(move |disk| disk.keep(path, measured, new))
            .await
    }
}
