//! What is put in: files held for later runs or written into sessions; and the list of what a session holds.

use std::{io::Cursor, path::Path};

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio_util::sync::CancellationToken;

use super::{
    Broker, Refusal,
    record::Draft,
    report::{FileEntry, FileKind, FileList, Uploaded},
};
use crate::{
    artifact::{Entry, Kind, LocalFile, NewEntry},
    audit::Action,
    engine::tether::message::{EntryKind, Hidden},
    policy::UploadAsk,
    types::{Caller, Sha256, WorkspacePath, clock},
};

/// Entries of one list. Stops a tree of a million files from filling the client's context.
const MAX_LISTED: u32 = 2000;
/// The most bytes of paths that are listed. Stops a program that makes deep folders with long names from making an answer of
/// tens of megabytes: each byte may be shown as five.
const MAX_LISTED_BYTES: usize = 512 * 1024;
/// Bytes moved at a time from a file of the user's into the store.
const CHUNK_BYTES: usize = 512 * 1024;

/// A file on its way into a session.
struct Incoming<S> {
    path: WorkspacePath,
    bytes: u64,
    sha256: Sha256,
    source: S,
}

impl Broker {
    /// Keeps a file for later runs, or writes it into a session.
    pub async fn upload(
        &self,
        caller: &Caller,
        session: Option<&str>,
        ask: UploadAsk,
        cancelled: &CancellationToken,
    ) -> Result<Uploaded, Refusal> {
        let mut draft = Draft::new(Action::UploadFile, caller);
        let result = self
            .upload_inline(caller, session, ask, cancelled, &mut draft)
            .await;
        self.recorder.record(draft, result)
    }

    async fn upload_inline(
        &self,
        caller: &Caller,
        session: Option<&str>,
        ask: UploadAsk,
        cancelled: &CancellationToken,
        draft: &mut Draft,
    ) -> Result<Uploaded, Refusal> {
        let terms = session
            .map(|id| self.sessions.terms(caller, id))
            .transpose()?;
        let permit = self.policy.upload(caller, terms.as_ref(), ask)?;
        let upload = permit.action();
        let (path, size) = (upload.path.clone(), upload.bytes.len() as u64);
        let sha256 = Sha256::of(&upload.bytes);
        draft.input(&path, sha256, size);
        match session {
            None => {
                let kept = self
                    .store
                    .put_bytes(Bytes::from(upload.bytes.clone()), held(caller, &path))
                    .await?;
                Ok(uploaded(path, &kept))
            }
            Some(id) => {
                let source = Cursor::new(upload.bytes.clone());
                let file = Incoming {
                    path,
                    bytes: size,
                    sha256,
                    source,
                };
                self.write(caller, id, file, cancelled, draft).await
            }
        }
    }

    /// As [`Self::upload`], with the content of a file on the user's machine.
    pub async fn upload_local(
        &self,
        caller: &Caller,
        session: Option<&str>,
        path: &str,
        local: &str,
        cancelled: &CancellationToken,
    ) -> Result<Uploaded, Refusal> {
        let mut draft = Draft::new(Action::UploadFile, caller);
        let result = self
            .upload_from(caller, session, path, local, cancelled, &mut draft)
            .await;
        self.recorder.record(draft, result)
    }

    async fn upload_from(
        &self,
        caller: &Caller,
        session: Option<&str>,
        path: &str,
        local: &str,
        cancelled: &CancellationToken,
        draft: &mut Draft,
    ) -> Result<Uploaded, Refusal> {
        self.policy.local_files(caller)?;
        let terms = session
            .map(|id| self.sessions.terms(caller, id))
            .transpose()?;
        let path = self.policy.write_path(terms.as_ref(), path)?;
        let most = self.policy.largest_upload();
        let LocalFile { file, bytes } = self.local.open_read(Path::new(local), most).await?;
        // Kept first in either case: the copy cannot change while it is on its way into a session.
        let mut writer = self.store.writer(most).await?;
        let mut file = file.take(bytes);
        let mut buffer = vec![0; CHUNK_BYTES];
        loop {
            let count = file
                .read(&mut buffer)
                .await
                .map_err(|error| Refusal::local(&error))?;
            if count == 0 {
                break;
            }
            writer.write_all(&buffer[..count]).await?;
        }
        let kept = writer.finish(held(caller, &path)).await?;
        draft.input(&path, kept.sha256, kept.bytes);
        match session {
            None => Ok(uploaded(path, &kept)),
            Some(id) => {
                let source = self.store.stream_blob(&kept).await?;
                let file = Incoming {
                    path,
                    bytes: kept.bytes,
                    sha256: kept.sha256,
                    source,
                };
                self.write(caller, id, file, cancelled, draft).await
            }
        }
    }

    async fn write<S: AsyncRead + Send>(
        &self,
        caller: &Caller,
        session: &str,
        file: Incoming<S>,
        cancelled: &CancellationToken,
        draft: &mut Draft,
    ) -> Result<Uploaded, Refusal> {
        let lease = self.lease(caller, session, cancelled).await?;
        draft.session(lease.id());
        lease.changed();
        let uploaded = Uploaded {
            file_id: None,
            bytes: file.bytes,
            sha256: file.sha256.to_string(),
            session: Some(lease.id().clone()),
            expires_at: clock::told(lease.expires_at()),
            path: file.path,
        };
        let written = tokio::select! {
            written = lease.sandbox.write(uploaded.path.as_bytes(), file.bytes, file.source) => written.map(|_entry| ()),
            () = cancelled.cancelled() => return Err(Refusal::cancelled()),
            () = lease.ending() => return Err(Refusal::session_ended()),
        };
        self.answered(lease, written).map(|()| uploaded)
    }

    /// Lists the files of a session.
    pub async fn list_files(
        &self,
        caller: &Caller,
        session: &str,
        path: Option<&str>,
        cancelled: &CancellationToken,
    ) -> Result<FileList, Refusal> {
        let mut draft = Draft::new(Action::ListFiles, caller);
        let result = self
            .list(caller, session, path, cancelled, &mut draft)
            .await;
        self.recorder.record(draft, result)
    }

    async fn list(
        &self,
        caller: &Caller,
        session: &str,
        path: Option<&str>,
        cancelled: &CancellationToken,
        draft: &mut Draft,
    ) -> Result<FileList, Refusal> {
        let path = path.map(|path| self.policy.path(path)).transpose()?;
        let lease = self.lease(caller, session, cancelled).await?;
        draft.session(lease.id());
        let below = path.as_ref().map_or(&[][..], WorkspacePath::as_bytes);
        let listing = tokio::select! {
            listing = lease.sandbox.list(below, MAX_LISTED, Hidden::List) => listing,
            () = cancelled.cancelled() => return Err(Refusal::cancelled()),
            () = lease.ending() => return Err(Refusal::session_ended()),
        };
        let id = lease.id().clone();
        let listing = self.answered(lease, listing)?;
        let mut omitted = listing.omitted;
        let mut room = MAX_LISTED_BYTES;
        let mut entries = Vec::with_capacity(listing.entries.len());
        for entry in listing.entries {
            room = room.saturating_sub(entry.path.len());
            match WorkspacePath::from_bytes(entry.path) {
                Ok(path) if room > 0 => entries.push(FileEntry {
                    path,
                    kind: kind(entry.kind),
                    bytes: entry.bytes,
                    modified: modified(entry.modified_ms),
                }),
                Ok(_) | Err(_) => omitted += 1,
            }
        }
        Ok(FileList {
            session: id,
            entries,
            omitted,
        })
    }
}

fn held(caller: &Caller, path: &WorkspacePath) -> NewEntry {
    NewEntry {
        caller: caller.clone(),
        kind: Kind::Upload,
        name: path.shown(),
    }
}

fn uploaded(path: WorkspacePath, kept: &Entry) -> Uploaded {
    Uploaded {
        file_id: kept.file_id(),
        path,
        bytes: kept.bytes,
        sha256: kept.sha256.to_string(),
        session: None,
        expires_at: clock::told(kept.expires),
    }
}

fn kind(kind: EntryKind) -> FileKind {
    match kind {
        EntryKind::File => FileKind::File,
        EntryKind::Dir => FileKind::Directory,
        EntryKind::Link => FileKind::Link,
        EntryKind::Other => FileKind::Other,
    }
}

/// What the guest claims, if it is a time at all: a program can set any.
fn modified(ms: i64) -> String {
    jiff::Timestamp::from_millisecond(ms)
        .unwrap_or(jiff::Timestamp::UNIX_EPOCH)
        .to_string()
}
