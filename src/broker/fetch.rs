//! What is taken out: pieces of artifacts, files saved on the user's machine, and resources.
//!
//! Everything is read from the store: a file of a session is copied there first, so that all its pieces, its size and
//! its digest are of one and the same content.

use std::{path::Path, sync::Arc};

use bytes::Bytes;
use tokio_util::sync::CancellationToken;

use super::{
    Broker, Refusal, collect,
    record::Draft,
    report::{Fetched, Piece},
    room::Room,
};
use crate::{
    artifact::{Entry, Kind, NewEntry, Overwrite, StoreError},
    audit::Action,
    session::Lease,
    types::{ArtifactId, Caller, MIB, WorkspacePath},
};

/// Bytes of a piece that asks for no length.
pub const DEFAULT_PIECE_BYTES: u64 = 32 * 1024;
/// The most bytes of a piece: what a client can take in one message.
pub const MAX_PIECE_BYTES: u64 = 4 * MIB;
/// The largest artifact that is read as one resource, which has no pieces.
pub const MAX_RESOURCE_BYTES: u64 = 25 * MIB;

/// What to fetch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// An artifact by its id, as the caller wrote it.
    Artifact(String),
    /// A file of a live session.
    Session {
        /// The session's id.
        session: String,
        /// The path as it was shown.
        path: String,
    },
}

/// A piece to fetch.
#[derive(Clone, Debug)]
pub struct FetchRequest {
    /// Of what.
    pub source: Source,
    /// First byte.
    pub offset: u64,
    /// Bytes; absent: [`DEFAULT_PIECE_BYTES`]; more than [`MAX_PIECE_BYTES`] is shortened.
    pub length: Option<u64>,
}

impl Broker {
    /// Some bytes of an artifact, or of a file in a session, of which a copy is kept first. `room` is waited for before any
    /// of them is held, and after everything else.
    pub async fn fetch(
        &self,
        caller: &Caller,
        request: FetchRequest,
        room: impl Future<Output = Result<(), Refusal>>,
        cancelled: &CancellationToken,
    ) -> Result<(Fetched, Piece), Refusal> {
        let mut draft = Draft::new(Action::FetchArtifact, caller);
        let result = self
            .fetch_piece(caller, &request, room, cancelled, &mut draft)
            .await;
        self.recorder.record(draft, result)
    }

    async fn fetch_piece(
        &self,
        caller: &Caller,
        request: &FetchRequest,
        room: impl Future<Output = Result<(), Refusal>>,
        cancelled: &CancellationToken,
        draft: &mut Draft,
    ) -> Result<(Fetched, Piece), Refusal> {
        let kept = self.find(caller, &request.source, cancelled, draft).await?;
        if request.offset > kept.bytes {
            return Err(Refusal::arguments(format!(
                "`offset` {} lies past the end: the file has {} bytes",
                request.offset, kept.bytes
            )));
        }
        room.await?;
        let length = request
            .length
            .unwrap_or(DEFAULT_PIECE_BYTES)
            .min(MAX_PIECE_BYTES);
        let bytes = self.store.read(&kept, request.offset, length).await?;
        // Shown once, with the first piece.
        let picture = if request.offset == 0 {
            collect::picture(&self.store, &kept).await
        } else {
            None
        };
        Ok((
            fetched(&kept, picture)?,
            Piece::new(request.offset, bytes.to_vec()),
        ))
    }

    /// Writes an artifact, or a file of a session, to the user's machine.
    pub async fn save(
        &self,
        caller: &Caller,
        source: Source,
        to: &str,
        overwrite: Overwrite,
        cancelled: &CancellationToken,
    ) -> Result<Fetched, Refusal> {
        let mut draft = Draft::new(Action::FetchArtifact, caller);
        let result = self
            .save_to(caller, &source, to, overwrite, cancelled, &mut draft)
            .await;
        self.recorder.record(draft, result)
    }

    async fn save_to(
        &self,
        caller: &Caller,
        source: &Source,
        to: &str,
        overwrite: Overwrite,
        cancelled: &CancellationToken,
        draft: &mut Draft,
    ) -> Result<Fetched, Refusal> {
        self.policy.local_files(caller)?;
        // Before anything is copied: a path that is not allowed costs nothing.
        let mut writer = self.local.save(Path::new(to), overwrite).await?;
        let kept = self.find(caller, source, cancelled, draft).await?;
        writer.copy_of(self.store.open_blob(&kept).await?).await?;
        writer.finish().await?;
        fetched(&kept, None)
    }

    /// The kept form of what is asked for. A file of a session is copied once and then read from the copy, so that
    /// all its pieces are of one and the same content.
    async fn find(
        &self,
        caller: &Caller,
        source: &Source,
        cancelled: &CancellationToken,
        draft: &mut Draft,
    ) -> Result<Entry, Refusal> {
        let kept = match source {
            Source::Artifact(id) => {
                let id = ArtifactId::parse(id).map_err(|_| Refusal::unknown_artifact())?;
                self.store.get(caller, &id).await?
            }
            Source::Session { session, path } => {
                let path = self.policy.path(path)?;
                let lease = self.lease(caller, session, cancelled).await?;
                draft.session(lease.id());
                match lease.copy_of(&path) {
                    Some(kept) => kept,
                    None => self.copy(caller, lease, path, cancelled).await?,
                }
            }
        };
        draft.taken_out(kept.name.clone(), Some(kept.sha256), kept.bytes);
        Ok(kept)
    }

    async fn copy(
        &self,
        caller: &Caller,
        lease: Lease<Arc<Room>>,
        path: WorkspacePath,
        cancelled: &CancellationToken,
    ) -> Result<Entry, Refusal> {
        let new = NewEntry {
            caller: caller.clone(),
            kind: Kind::Artifact { run: None },
            name: path.shown(),
        };
        let most = u64::from(lease.terms().limits.workspace_mib) * MIB;
        let copied = tokio::select! {
            copied = collect::copy(&lease.sandbox, &self.store, &path, most, new) => copied,
            () = cancelled.cancelled() => return Err(Refusal::cancelled()),
            () = lease.ending() => return Err(Refusal::session_ended()),
        };
        match copied {
            Ok(kept) => {
                lease.remember(path, kept.clone());
                Ok(kept)
            }
            Err(collect::CopyError::Store(error)) => Err(error.into()),
            Err(collect::CopyError::Sandbox(error)) => self.answered(lease, Err(error)),
        }
    }

    /// The caller's artifacts and outputs, newest first.
    pub async fn artifacts(
        &self,
        caller: &Caller,
        cursor: Option<&str>,
        most: usize,
    ) -> Result<(Vec<Fetched>, Option<String>), Refusal> {
        let cursor = cursor
            .map(str::parse)
            .transpose()
            .map_err(|_| Refusal::arguments("unknown cursor"))?;
        let page = self.store.list(caller, cursor, most).await?;
        let entries = page
            .entries
            .iter()
            .map(|kept| fetched(kept, None))
            .collect::<Result<_, _>>()?;
        Ok((entries, page.next.map(|cursor| cursor.to_string())))
    }

    /// A whole artifact; `None` where this caller has none of that id.
    pub async fn read_artifact(
        &self,
        caller: &Caller,
        id: &ArtifactId,
    ) -> Result<Option<(Fetched, Bytes)>, Refusal> {
        let mut draft = Draft::new(Action::ReadResource, caller);
        let result = self.read_whole(caller, id, &mut draft).await;
        self.recorder.record(draft, result)
    }

    async fn read_whole(
        &self,
        caller: &Caller,
        id: &ArtifactId,
        draft: &mut Draft,
    ) -> Result<Option<(Fetched, Bytes)>, Refusal> {
        let kept = match self.store.get(caller, id).await {
            Err(StoreError::NotFound | StoreError::Expired) => return Ok(None),
            other => other?,
        };
        if kept.bytes > MAX_RESOURCE_BYTES {
            return Err(Refusal::new(
                "too_large",
                format!(
                    "the artifact has {} bytes, and a resource at most {MAX_RESOURCE_BYTES}: use fetch_artifact, which reads in pieces",
                    kept.bytes
                ),
            ));
        }
        draft.taken_out(kept.name.clone(), Some(kept.sha256), kept.bytes);
        let bytes = self.store.read(&kept, 0, MAX_RESOURCE_BYTES).await?;
        Ok(Some((fetched(&kept, None)?, bytes)))
    }
}

fn fetched(kept: &Entry, picture: Option<Vec<u8>>) -> Result<Fetched, Refusal> {
    Ok(Fetched {
        artifact_id: kept.artifact_id().cloned().ok_or_else(Refusal::internal)?,
        path: kept.name.clone(),
        bytes: kept.bytes,
        media_type: kept.media_type.clone(),
        sha256: kept.sha256.to_string(),
        picture,
    })
}
