//! Copies the files that a run left out of its sandbox into the store.
//!
//! What the guest says of a file is a claim: the bounds here count the bytes that really come. A file that
//! cannot be had is counted as left out, and never fails the run.

use std::time::Duration;

use tokio::time::{Instant, timeout_at};

use super::report::RunArtifact;
use crate::{
    artifact::{self, Entry as Kept, Kind, NewEntry, Store, StoreError},
    engine::{
        Sandbox,
        tether::{TetherError, message::Entry},
    },
    types::{Caller, MIB, RunId, WorkspacePath},
};

/// The largest file that is collected.
const MAX_ARTIFACT_BYTES: u64 = 25 * MIB;
/// The most bytes collected of one run: a full workspace each run would wear out the user's disk.
const MAX_RUN_BYTES: u64 = 100 * MIB;
/// The most bytes of pictures that come with the answer of one run: a few large plots, or dozens of small ones. The others
/// are kept like any file. Stops a program that writes as many pictures as are collected from making the server hold ninety
/// megabytes for each call, and its client read them.
const MAX_SHOWN_BYTES: u64 = 4 * MIB;
/// How long collecting may take in all. Stops a guest that sends one byte at a time.
const COLLECT_DEADLINE: Duration = Duration::from_mins(1);

/// The files of a run, and how many were left out here.
#[derive(Debug, Default)]
pub(super) struct Collected {
    pub(super) artifacts: Vec<RunArtifact>,
    pub(super) omitted: u64,
}

/// Why a file could not be copied.
#[derive(Debug)]
pub(super) enum CopyError {
    /// The sandbox did not give it.
    Sandbox(TetherError),
    /// The store did not take it.
    Store(StoreError),
}

/// Copies the files of a fresh run.
pub(super) async fn copies(
    sandbox: &Sandbox,
    store: &Store,
    caller: &Caller,
    run: &RunId,
    files: &[Entry],
) -> Collected {
    let deadline = Instant::now() + COLLECT_DEADLINE;
    let mut collected = Collected::default();
    let (mut room, mut shown) = (MAX_RUN_BYTES, MAX_SHOWN_BYTES);
    for file in files {
        let Ok(path) = WorkspacePath::from_bytes(file.path.clone()) else {
            collected.omitted += 1;
            continue;
        };
        let most = MAX_ARTIFACT_BYTES.min(room);
        if file.bytes > most || sandbox.is_lost() {
            collected.omitted += 1;
            continue;
        }
        let new = NewEntry {
            caller: caller.clone(),
            kind: Kind::Artifact {
                run: Some(run.clone()),
            },
            name: path.shown(),
        };
        match timeout_at(deadline, copy(sandbox, store, &path, most, new)).await {
            Ok(Ok(kept)) => {
                room -= kept.bytes.min(room);
                let picture = if kept.bytes <= shown {
                    picture(store, &kept).await
                } else {
                    None
                };
                if picture.is_some() {
                    shown -= kept.bytes;
                }
                collected.artifacts.push(RunArtifact {
                    artifact_id: kept.artifact_id().cloned(),
                    path,
                    bytes: kept.bytes,
                    media_type: kept.media_type,
                    sha256: Some(kept.sha256),
                    picture,
                });
            }
            Ok(Err(error)) => {
                tracing::debug!(?error, "a file was not collected");
                collected.omitted += 1;
            }
            Err(_elapsed) => collected.omitted += 1,
        }
    }
    collected
}

/// The files of a run in a session: named, and copied only when somebody asks for one. Pictures are copied at
/// once, since a plot is made to be seen.
pub(super) async fn names(
    sandbox: &Sandbox,
    store: &Store,
    caller: &Caller,
    run: &RunId,
    files: &[Entry],
) -> Collected {
    let is_picture = |file: &&Entry| {
        file.bytes <= artifact::MAX_IMAGE_BYTES as u64 && artifact::is_image_name(&file.path)
    };
    let pictures: Vec<Entry> = files.iter().filter(is_picture).cloned().collect();
    let mut collected = copies(sandbox, store, caller, run, &pictures).await;
    // One that could not be copied is still there, under its name.
    collected.omitted = 0;
    for file in files {
        match WorkspacePath::from_bytes(file.path.clone()) {
            Ok(path)
                if collected
                    .artifacts
                    .iter()
                    .any(|artifact| artifact.path == path) => {}
            Ok(path) => collected.artifacts.push(RunArtifact {
                artifact_id: None,
                bytes: file.bytes,
                media_type: artifact::media_type_of_name(&path.shown()).to_owned(),
                path,
                sha256: None,
                picture: None,
            }),
            Err(_) => collected.omitted += 1,
        }
    }
    collected
        .artifacts
        .sort_by(|one, other| one.path.cmp(&other.path));
    collected
}

/// Copies one file, at most `most` bytes of it or nothing.
pub(super) async fn copy(
    sandbox: &Sandbox,
    store: &Store,
    path: &WorkspacePath,
    most: u64,
    new: NewEntry,
) -> Result<Kept, CopyError> {
    // One byte more than is allowed tells a file that is too large from one that just fits.
    let mut file = sandbox
        .read(path.as_bytes(), 0, most.saturating_add(1))
        .await
        .map_err(CopyError::Sandbox)?;
    let mut writer = store.writer(most).await.map_err(CopyError::Store)?;
    while let Some(bytes) = file.next().await.map_err(CopyError::Sandbox)? {
        writer.write_all(&bytes).await.map_err(CopyError::Store)?;
    }
    writer.finish(new).await.map_err(CopyError::Store)
}

/// The content of a kept file, where it is a picture that may be shown.
pub(super) async fn picture(store: &Store, kept: &Kept) -> Option<Vec<u8>> {
    let most = artifact::MAX_IMAGE_BYTES as u64;
    if !kept.media_type.starts_with("image/") || kept.bytes > most {
        return None;
    }
    let bytes = store.read(kept, 0, most).await.ok()?;
    let picture = artifact::showable_image(&bytes)?;
    (picture.media_type == kept.media_type).then(|| bytes.to_vec())
}
