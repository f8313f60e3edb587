//! A small file system of a test's own, which can be filled without harm to anybody.

use std::{fs, io::Write as _, path::Path, process::Command};

/// A `tmpfs`, mounted on a new folder and unmounted when this is dropped.
#[derive(Debug)]
pub(crate) struct Mounted {
    folder: tempfile::TempDir,
}

impl Mounted {
    /// Of so many bytes and inodes. Needs root, and says so.
    pub(crate) fn new(bytes: u64, inodes: u64) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let options = format!("size={bytes},nr_inodes={inodes},mode=0700");
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &options, "tmpfs"])
            .arg(folder.path())
            .output()
            .expect("the mount command");
        assert!(
            mounted.status.success(),
            "this test mounts a small file system, and must run as root: {mounted:?}"
        );
        Self { folder }
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Takes all of its room but so many bytes. The room is free again when what is returned is dropped.
    pub(crate) fn fill_but(&self, left: u64) -> Fill {
        let path = self.path().join("fill");
        let mut file = fs::File::create(&path).unwrap();
        let mut written = 0_u64;
        let page = [0; 4096];
        while let Ok(count) = file.write(&page) {
            if count == 0 {
                break;
            }
            written += count as u64;
        }
        file.set_len(written.saturating_sub(left)).unwrap();
        Fill(vec![path])
    }

    /// Takes all of its inodes but so many.
    pub(crate) fn fill_inodes_but(&self, left: usize) -> Fill {
        let mut made = Vec::new();
        loop {
            let path = self.path().join(format!("fill-{}", made.len()));
            if fs::File::create(&path).is_err() {
                break;
            }
            made.push(path);
        }
        for path in made.drain(..left.min(made.len())) {
            fs::remove_file(path).unwrap();
        }
        Fill(made)
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        // Lazily: a process that is only ending may still hold something open.
        let unmounted = Command::new("umount")
            .arg("--lazy")
            .arg(self.folder.path())
            .status();
        assert!(unmounted.is_ok_and(|status| status.success()), "unmount");
    }
}

/// What fills a file system.
#[derive(Debug)]
pub(crate) struct Fill(Vec<std::path::PathBuf>);

impl Drop for Fill {
    fn drop(&mut self) {
        for path in &self.0 {
            let _ = fs::remove_file(path);
        }
    }
}
