//! Saves one file beneath an opened folder: written without a name where the system can do that, else beside its place,
//! and put there once it is whole.
//!
//! Nothing unfinished may stay, and without being told so nothing may be overwritten, also in a race. A file without a name
//! goes with its process, however that ends; one beside its place stays where the server is killed while it writes it.

use std::{
    fs::File,
    io::{self, Read as _},
    path::{Path, PathBuf},
    sync::Arc,
};

use cap_std::fs::{Dir, OpenOptions};

use super::{LocalError, Overwrite, blocking};
use crate::types::{MIB, random_hex};

/// Bytes copied at a time: a call that is cancelled meanwhile must not keep its thread for a file of gigabytes.
const STEP_BYTES: u64 = 32 * MIB;

/// Where a file goes once it is whole.
#[derive(Debug)]
pub(super) struct Target {
    pub(super) parent: Dir,
    pub(super) name: PathBuf,
    pub(super) overwrite: Overwrite,
    pub(super) shown: String,
}

impl Target {
    fn io(&self, source: io::Error) -> LocalError {
        LocalError::Io {
            operation: "save",
            path: self.shown.clone(),
            source,
        }
    }

    fn exists(&self) -> LocalError {
        LocalError::Exists {
            path: self.shown.clone(),
        }
    }

    /// Early, so that nobody streams a large file for nothing. What counts is [`Self::place`].
    pub(super) fn check(&self) -> Result<(), LocalError> {
        match self.parent.symlink_metadata(&self.name) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(self.io(error)),
            Ok(there) if !there.is_file() => Err(LocalError::NotRegular {
                path: self.shown.clone(),
            }),
            Ok(_) => match self.overwrite {
                Overwrite::Refuse => Err(self.exists()),
                Overwrite::Replace => Ok(()),
            },
        }
    }

    /// Gives a file without a name the target's.
    #[cfg(target_os = "linux")]
    fn name(&self, file: &File) -> Result<(), LocalError> {
        self.check()?;
        match self.overwrite {
            // The kernel itself refuses where somebody was faster.
            Overwrite::Refuse => match unnamed::link(file, &self.parent, &self.name) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(self.exists()),
                other => other.map_err(|e| self.io(e)),
            },
            Overwrite::Replace => {
                let temp = beside();
                unnamed::link(file, &self.parent, &temp).map_err(|e| self.io(e))?;
                self.rename(&temp).inspect_err(|_| {
                    let _ = self.parent.remove_file(&temp);
                })
            }
        }
    }

    fn rename(&self, temp: &Path) -> Result<(), LocalError> {
        self.parent
            .rename(temp, &self.parent, &self.name)
            .map_err(|e| self.io(e))
    }

    fn place(&self, temp: &Path) -> Result<(), LocalError> {
        self.check()?;
        match self.overwrite {
            // The kernel itself refuses where somebody was faster.
            Overwrite::Refuse => match self.parent.hard_link(temp, &self.parent, &self.name) {
                Ok(()) => self.parent.remove_file(temp).map_err(|e| self.io(e)),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(self.exists()),
                Err(_) => self.claim_and_rename(temp),
            },
            Overwrite::Replace => self.rename(temp),
        }
    }

    /// For file systems without hard links: claims the name with an empty file of our own, then replaces it.
    pub(super) fn claim_and_rename(&self, temp: &Path) -> Result<(), LocalError> {
        match self
            .parent
            .open_with(&self.name, OpenOptions::new().write(true).create_new(true))
        {
            Ok(claimed) => drop(claimed),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Err(self.exists()),
            Err(error) => return Err(self.io(error)),
        }
        self.parent
            .rename(temp, &self.parent, &self.name)
            .map_err(|error| {
                let _ = self.parent.remove_file(&self.name);
                self.io(error)
            })
    }
}

/// A name for a file that is not whole yet.
fn beside() -> PathBuf {
    PathBuf::from(format!(".belljar-{}.part", random_hex::<8>()))
}

/// Files without a name, which the kernel removes with the last handle to them.
#[cfg(target_os = "linux")]
mod unnamed {
    use std::{fs::File, io, os::fd::AsRawFd as _, path::Path};

    use cap_std::fs::Dir;
    use rustix::fs::{AtFlags, CWD, Mode, OFlags, linkat, openat};

    /// Makes one in the file system of `parent`; `None` where that cannot be done, or it could not be named later.
    pub(super) fn make(parent: &Dir) -> Option<File> {
        let flags = OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC;
        let file = File::from(openat(parent, ".", flags, Mode::from_raw_mode(0o666)).ok()?);
        Path::new(&handle(&file)).exists().then_some(file)
    }

    /// Names it; what has the name already stays.
    pub(super) fn link(file: &File, parent: &Dir, name: &Path) -> io::Result<()> {
        linkat(CWD, handle(file), parent, name, AtFlags::SYMLINK_FOLLOW)?;
        Ok(())
    }

    /// The way to name an open file that needs no privilege.
    fn handle(file: &File) -> String {
        format!("/proc/self/fd/{}", file.as_raw_fd())
    }
}

/// Removes what is unfinished when it is dropped.
#[derive(Debug)]
struct Partial {
    target: Option<(Target, Temp)>,
}

/// Where a file is until it is whole.
#[derive(Debug)]
enum Temp {
    /// Nowhere: it has no name.
    #[cfg(target_os = "linux")]
    Unnamed,
    /// Beside its place.
    Beside(PathBuf),
}

impl Drop for Partial {
    fn drop(&mut self) {
        if let Some((target, Temp::Beside(temp))) = self.target.take() {
            let _ = target.parent.remove_file(temp);
        }
    }
}

/// A file on its way to the user's machine; dropped unfinished, it leaves nothing.
#[derive(Debug)]
pub struct LocalWriter {
    file: Arc<File>,
    partial: Partial,
}

impl LocalWriter {
    pub(super) fn begin(target: Target) -> io::Result<Self> {
        #[cfg(target_os = "linux")]
        if let Some(file) = unnamed::make(&target.parent) {
            return Ok(Self::new(file, target, Temp::Unnamed));
        }
        Self::begin_beside(target)
    }

    /// For systems and file systems on which every file has a name.
    pub(super) fn begin_beside(target: Target) -> io::Result<Self> {
        let temp = beside();
        let file = target
            .parent
            .open_with(&temp, OpenOptions::new().write(true).create_new(true))?;
        Ok(Self::new(file.into_std(), target, Temp::Beside(temp)))
    }

    fn new(file: File, target: Target, temp: Temp) -> Self {
        Self {
            file: Arc::new(file),
            partial: Partial {
                target: Some((target, temp)),
            },
        }
    }

    /// Takes all that is left to read of a file. The kernel copies it where it can, without a detour through memory
    /// of ours.
    pub async fn copy_of(&mut self, mut source: File) -> Result<(), LocalError> {
        loop {
            let file = Arc::clone(&self.file);
            let copied = blocking(move || {
                let copied = io::copy(&mut (&mut source).take(STEP_BYTES), &mut &*file);
                Ok((copied, source))
            });
            let (copied, rest) = copied.await?;
            source = rest;
            if copied.map_err(|source| self.failed(source))? == 0 {
                return Ok(());
            }
        }
    }

    /// Makes the file appear under its name, whole.
    pub async fn finish(self) -> Result<(), LocalError> {
        let Self { file, mut partial } = self;
        blocking(move || {
            if let Some((target, temp)) = &partial.target {
                file.sync_data().map_err(|source| target.io(source))?;
                match temp {
                    #[cfg(target_os = "linux")]
                    Temp::Unnamed => target.name(&file)?,
                    Temp::Beside(temp) => {
                        // Closed before it is renamed: Windows renames no open file.
                        drop(file);
                        target.place(temp)?;
                    }
                }
            }
            // In its place: nothing is left to remove.
            partial.target.take();
            Ok(())
        })
        .await
    }

    fn failed(&self, source: io::Error) -> LocalError {
        let path = self
            .partial
            .target
            .as_ref()
            .map(|(target, _)| target.shown.clone());
        LocalError::Io {
            operation: "save",
            path: path.unwrap_or_default(),
            source,
        }
    }
}
