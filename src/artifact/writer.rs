//! Keeps content that comes in pieces, such as a file read from a container, without holding it.
//!
//! Pieces gather in memory up to a bound; then a blocking task hashes, looks at and writes them, while the next ones
//! gather in the buffer of those before. Nothing is visible in the store before [`BlobWriter::finish`], and nothing
//! stays of what is dropped.

use std::{
    fs::File,
    io::{self, Write as _},
};

use sha2::{Digest as _, Sha256 as Hasher};
use tempfile::{NamedTempFile, TempPath};
use tokio::task::JoinHandle;

use super::{
    disk::Measured,
    entry::{Entry, NewEntry},
    media::Sniffer,
    store::{Store, StoreError},
};
use crate::types::Sha256;

/// Bytes gathered before they are written; one file on its way holds about twice as many.
const GATHERED_BYTES: usize = 512 * 1024;

/// One file on its way into the store.
#[derive(Debug)]
pub struct BlobWriter {
    store: Store,
    path: TempPath,
    gathered: Vec<u8>,
    content: State,
    bytes: u64,
    most: u64,
}

/// Who has the content.
#[derive(Debug)]
enum State {
    Here(Content),
    /// Comes back with the emptied buffer.
    Writing(JoinHandle<io::Result<(Content, Vec<u8>)>>),
    /// A write failed: the content is not whole.
    Failed,
}

/// What was written, and what is known of it. Blocks.
#[derive(Debug)]
struct Content {
    file: File,
    hasher: Hasher,
    sniffer: Sniffer,
}

impl Content {
    fn append(&mut self, chunk: &[u8]) -> io::Result<()> {
        self.hasher.update(chunk);
        self.sniffer.push(chunk);
        self.file.write_all(chunk)
    }
}

impl BlobWriter {
    pub(super) fn new(store: Store, temp: NamedTempFile, most: u64) -> Self {
        let (file, path) = temp.into_parts();
        Self {
            store,
            path,
            gathered: Vec::new(),
            content: State::Here(Content {
                file,
                hasher: Hasher::new(),
                sniffer: Sniffer::default(),
            }),
            bytes: 0,
            most,
        }
    }

    /// Takes the next piece. [`StoreError::TooLarge`] once the whole is more than the bound. An error of the disk may
    /// show with a later piece, or at the end.
    pub async fn write_all(&mut self, chunk: &[u8]) -> Result<(), StoreError> {
        self.bytes += chunk.len() as u64;
        if self.bytes > self.most {
            return Err(StoreError::TooLarge { most: self.most });
        }
        self.gathered.extend_from_slice(chunk);
        if self.gathered.len() < GATHERED_BYTES {
            return Ok(());
        }
        let (mut content, empty) = self.content().await?;
        let mut chunk = std::mem::replace(&mut self.gathered, empty);
        self.content = State::Writing(tokio::task::spawn_blocking(move || {
            content.append(&chunk)?;
            chunk.clear();
            Ok((content, chunk))
        }));
        Ok(())
    }

    /// Waits until the content is here, and takes it, with a buffer that is free.
    async fn content(&mut self) -> Result<(Content, Vec<u8>), StoreError> {
        if let State::Writing(task) = &mut self.content {
            // Dropped here, the task stays where it is.
            let written = task.await;
            self.content = State::Failed;
            return written
                .map_err(|_| StoreError::Panicked)?
                .map_err(StoreError::io("write a file"));
        }
        match std::mem::replace(&mut self.content, State::Failed) {
            State::Here(content) => Ok((content, Vec::new())),
            State::Writing(_) | State::Failed => Err(StoreError::Panicked),
        }
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
        let (mut content, _) = self.content().await?;
        let (path, rest, bytes) = (self.path, self.gathered, self.bytes);
        self.store
            .blocking(move |disk| {
                content
                    .append(&rest)
                    .map_err(StoreError::io("write a file"))?;
                let measured = Measured {
                    bytes,
                    sha256: Sha256::from_bytes(content.hasher.finalize().into()),
                    media_type: content.sniffer.finish(&new.name),
                };
                // Closed before it is moved: Windows moves no open file.
                drop(content.file);
                disk.keep(path, measured, new)
            })
            .await
    }
}
