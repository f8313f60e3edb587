//! What was fetched from registries, kept for a next time: files by their digests, pages by their addresses.
//!
//! # Theory of operation
//! ```text
//! files/sha256-<hex>   a file, of which exactly this is the digest
//! pages/<sha256>       a page: a line that says what it is, and the page; named by the digest of its address
//! tmp/<id>/            files on their way, of one process; the next one removes them when it was killed
//! ```
//! Everything is written in `tmp` and renamed into place once its digest is the right one, so that several servers may
//! work on one cache without a lock: whoever comes second replaces a file by the same file. What is read is verified
//! again, and what is damaged is removed as if it had never been there. When a file was used last is its time of
//! modification.

use std::{
    fs::{self, File},
    io::{self, BufRead as _, BufReader, Read as _, Seek as _, Write as _},
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use serde::{Deserialize, Serialize};
use tempfile::NamedTempFile;
use tokio::io::AsyncWriteExt as _;

use super::{digest::Digest, digest::Hasher};
use crate::{
    scratch::Scratch,
    types::{MIB, Sha256, clock, read_at_most},
};

/// The largest page, in bytes, as it is kept and as it is fetched. Stops a registry from filling the memory.
pub(super) const MAX_PAGE_BYTES: u64 = 64 * MIB;
/// The longest line that says what a page is: damage has no line feed.
const MAX_ABOUT_BYTES: u64 = 8 * 1024;
/// The part of the room that one process adds before it sweeps again. With few processes on one cache the overshoot is
/// as many times this.
const SWEEP_EVERY_PART: u64 = 16;
/// How much of a file is read at a time.
const STEP_BYTES: usize = 64 * 1024;

/// A cache on disk.
#[derive(Debug)]
pub(super) struct Cache {
    root: PathBuf,
    most_bytes: u64,
    /// Bytes added by this process since its last sweep.
    added: AtomicU64,
    /// Where this process's files are on their way, once it has had one.
    scratch: Mutex<Option<Scratch>>,
}

/// A page as it was kept.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Kept {
    /// The page.
    pub(super) bytes: Vec<u8>,
    /// How long ago the registry said so.
    pub(super) age: Duration,
}

/// What is known of a page.
#[derive(Debug, Deserialize, Serialize)]
struct About {
    url: String,
    /// Seconds since 1970.
    fetched: u64,
    sha256: Sha256,
}

/// A file on its way in.
#[derive(Debug)]
pub(super) struct Incoming {
    cache: Arc<Cache>,
    digest: Digest,
    hasher: Hasher,
    temp: NamedTempFile,
    file: tokio::fs::File,
    bytes: u64,
}

/// A file could not be taken in.
#[derive(Debug, thiserror::Error)]
pub(super) enum KeepError {
    /// It is another file than was promised.
    #[error("the file does not have the digest that the index promised")]
    Digest,
    /// The disk.
    #[error("the cache of packages: {0}")]
    Io(#[from] io::Error),
}

impl Cache {
    /// A cache in the folder `root`, which need not exist yet, of at most `most_bytes`.
    pub(super) fn new(root: PathBuf, most_bytes: u64) -> Self {
        Self {
            root,
            most_bytes,
            // Another process may have left more than its share.
            added: AtomicU64::new(most_bytes),
            scratch: Mutex::new(None),
        }
    }

    /// Opens a file, if it is there and is what it should be.
    pub(super) async fn open(self: &Arc<Self>, digest: Digest) -> io::Result<Option<File>> {
        let cache = Arc::clone(self);
        blocking(move || cache.open_now(digest)).await
    }

    fn open_now(&self, digest: Digest) -> io::Result<Option<File>> {
        let path = self.file(&digest);
        let mut file = match File::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let mut hasher = digest.hasher();
        let mut step = vec![0; STEP_BYTES];
        loop {
            match file.read(&mut step)? {
                0 => break,
                read => hasher.update(&step[..read]),
            }
        }
        if hasher.finish() != digest {
            tracing::warn!(
                ?digest,
                "a kept file of a package is damaged, and is removed"
            );
            remove(&path)?;
            return Ok(None);
        }
        used_now(&path);
        file.rewind()?;
        Ok(Some(file))
    }

    /// Begins to take a file in.
    pub(super) async fn take_in(self: &Arc<Self>, digest: Digest) -> io::Result<Incoming> {
        let cache = Arc::clone(self);
        let temp = blocking(move || cache.temp()).await?;
        let file = temp.reopen()?;
        Ok(Incoming {
            cache: Arc::clone(self),
            hasher: digest.hasher(),
            digest,
            file: tokio::fs::File::from_std(file),
            temp,
            bytes: 0,
        })
    }

    /// The page of this address, however old.
    pub(super) async fn page(self: &Arc<Self>, url: String) -> io::Result<Option<Kept>> {
        let cache = Arc::clone(self);
        blocking(move || cache.page_now(&url, clock::file_clock())).await
    }

    fn page_now(&self, url: &str, now: SystemTime) -> io::Result<Option<Kept>> {
        let path = self.page_path(url);
        let file = match File::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let mut file = BufReader::new(file);
        let mut about = Vec::new();
        (&mut file)
            .take(MAX_ABOUT_BYTES)
            .read_until(b'\n', &mut about)?;
        let about: Option<About> = serde_json::from_slice(&about).ok();
        let bytes = read_at_most(file, MAX_PAGE_BYTES)?;
        let Some(about) =
            about.filter(|about| about.url == url && about.sha256 == Sha256::of(&bytes))
        else {
            tracing::warn!("a kept page of a registry is damaged, and is removed");
            remove(&path)?;
            return Ok(None);
        };
        used_now(&path);
        let fetched = UNIX_EPOCH + Duration::from_secs(about.fetched);
        // One from the future is as old as can be: nobody knows when it was fetched.
        let age = now.duration_since(fetched).unwrap_or(Duration::MAX);
        Ok(Some(Kept { bytes, age }))
    }

    /// Keeps a page that was just fetched.
    pub(super) async fn keep_page(self: &Arc<Self>, url: String, bytes: Vec<u8>) -> io::Result<()> {
        let cache = Arc::clone(self);
        blocking(move || cache.keep_page_now(&url, &bytes, clock::file_clock())).await
    }

    fn keep_page_now(&self, url: &str, bytes: &[u8], now: SystemTime) -> io::Result<()> {
        let about = About {
            url: url.to_owned(),
            fetched: now.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs(),
            sha256: Sha256::of(bytes),
        };
        let mut temp = self.temp()?;
        serde_json::to_writer(&mut temp, &about)?;
        temp.write_all(b"\n")?;
        temp.write_all(bytes)?;
        self.place(temp, &self.page_path(url), bytes.len() as u64)
    }

    fn place(&self, temp: NamedTempFile, to: &Path, bytes: u64) -> io::Result<()> {
        temp.into_temp_path()
            .persist(to)
            .map_err(|error| error.error)?;
        if self.added.fetch_add(bytes, Ordering::Relaxed) + bytes
            > self.most_bytes / SWEEP_EVERY_PART
        {
            self.added.store(0, Ordering::Relaxed);
            if let Err(error) = self.sweep(to) {
                tracing::warn!(%error, "the cache of packages could not be swept");
            }
        }
        Ok(())
    }

    /// Removes what this process has on its way.
    pub(super) fn close(&self) {
        let mut scratch = self.scratch.lock().unwrap_or_else(PoisonError::into_inner);
        drop(scratch.take());
    }

    /// Removes what processes had on their way that were killed.
    pub(super) fn tidy(&self) -> io::Result<()> {
        Scratch::sweep(&self.root.join("tmp"))
    }

    /// Removes what was used longest ago, until the rest has room. `but` stays: somebody is about to read it.
    fn sweep(&self, but: &Path) -> io::Result<()> {
        let mut all = Vec::new();
        for folder in ["files", "pages"] {
            list(&self.root.join(folder), &mut all)?;
        }
        all.sort_by_key(|(used, _, _)| std::cmp::Reverse(*used));
        let mut sum = 0_u64;
        for (_, bytes, path) in &all {
            sum = sum.saturating_add(*bytes);
            if sum > self.most_bytes && path != but {
                remove(path)?;
            }
        }
        self.tidy()
    }

    /// A new file that only this user can read, gone when dropped.
    fn temp(&self) -> io::Result<NamedTempFile> {
        for folder in ["", "files", "pages", "tmp"] {
            private_dir(&self.root.join(folder))?;
        }
        // A panic while it was held leaves at worst no folder yet.
        let mut scratch = self.scratch.lock().unwrap_or_else(PoisonError::into_inner);
        let scratch = match &mut *scratch {
            Some(scratch) => scratch,
            none => none.insert(Scratch::make(&self.root.join("tmp"))?),
        };
        NamedTempFile::new_in(scratch.dir())
    }

    fn file(&self, digest: &Digest) -> PathBuf {
        self.root.join("files").join(digest.file_name())
    }

    fn page_path(&self, url: &str) -> PathBuf {
        let name = Sha256::of(url.as_bytes()).to_string();
        self.root.join("pages").join(name)
    }
}

impl Incoming {
    /// Takes the next piece in.
    pub(super) async fn write(&mut self, piece: &[u8]) -> io::Result<()> {
        self.hasher.update(piece);
        self.bytes += piece.len() as u64;
        self.file.write_all(piece).await
    }

    /// The file, verified and in its place. Nobody can have read it before.
    pub(super) async fn finish(mut self) -> Result<File, KeepError> {
        if self.hasher.finish() != self.digest {
            return Err(KeepError::Digest);
        }
        self.file.flush().await?;
        let mut file = self.file.into_std().await;
        let (cache, digest, temp, bytes) = (self.cache, self.digest, self.temp, self.bytes);
        blocking(move || cache.place(temp, &cache.file(&digest), bytes)).await?;
        file.rewind()?;
        Ok(file)
    }
}

type Listed = Vec<(SystemTime, u64, PathBuf)>;

fn list(folder: &Path, all: &mut Listed) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        // Another process may have removed it meanwhile.
        if let Ok(about) = entry.metadata() {
            all.push((about.modified()?, about.len(), entry.path()));
        }
    }
    Ok(())
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Says that a file was used. Where that fails it only goes earlier than it should.
fn used_now(path: &Path) {
    let touched = File::options()
        .append(true)
        .open(path)
        .and_then(|file| file.set_modified(clock::file_clock()));
    if let Err(error) = touched {
        tracing::debug!(%error, "the use of a kept file could not be noted");
    }
}

fn private_dir(path: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path)
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(panicked) => Err(io::Error::other(panicked)),
    }
}

#[cfg(test)]
mod tests {
    use super::{super::digest::sha256, *};

    const ROOM: u64 = 1000;

    fn cache(folder: &tempfile::TempDir) -> Arc<Cache> {
        Arc::new(Cache::new(folder.path().join("packages"), ROOM))
    }

    async fn keep(
        cache: &Arc<Cache>,
        promised: Digest,
        content: &[u8],
    ) -> Result<Vec<u8>, KeepError> {
        let mut incoming = cache.take_in(promised).await?;
        for piece in content.chunks(7) {
            incoming.write(piece).await?;
        }
        Ok(read_at_most(incoming.finish().await?, MIB)?)
    }

    async fn read(cache: &Arc<Cache>, content: &[u8]) -> Option<Vec<u8>> {
        let file = cache.open(sha256(content)).await.unwrap();
        file.map(|file| read_at_most(file, MIB).unwrap())
    }

    fn files(cache: &Cache, folder: &str) -> usize {
        fs::read_dir(cache.root.join(folder)).unwrap().count()
    }

    /// Files in the folders of all processes.
    fn on_the_way(cache: &Cache) -> usize {
        let folders = fs::read_dir(cache.root.join("tmp")).unwrap();
        let folders = folders.map(|entry| entry.unwrap().path());
        folders
            .filter(|path| path.is_dir())
            .map(|folder| fs::read_dir(folder).unwrap().count())
            .sum()
    }

    #[tokio::test]
    async fn a_file_is_kept_under_its_digest_and_read_whole() {
        let folder = tempfile::tempdir().unwrap();
        let cache = cache(&folder);
        assert_eq!(read(&cache, b"wheel").await, None);
        assert_eq!(
            keep(&cache, sha256(b"wheel"), b"wheel").await.unwrap(),
            b"wheel"
        );
        assert_eq!(read(&cache, b"wheel").await.unwrap(), b"wheel");
        assert_eq!(on_the_way(&cache), 0);
    }

    #[tokio::test]
    async fn a_file_with_another_digest_is_never_kept() {
        let folder = tempfile::tempdir().unwrap();
        let cache = cache(&folder);
        for other in [&b"evil!"[..], b"", b"wheel and more"] {
            let kept = keep(&cache, sha256(b"wheel"), other).await;
            assert!(matches!(kept, Err(KeepError::Digest)));
        }
        assert_eq!(read(&cache, b"wheel").await, None);
        assert_eq!((files(&cache, "files"), on_the_way(&cache)), (0, 0));
    }

    #[tokio::test]
    async fn one_that_breaks_off_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let cache = cache(&folder);
        let mut incoming = cache.take_in(sha256(b"wheel")).await.unwrap();
        incoming.write(b"whe").await.unwrap();
        drop(incoming);
        assert_eq!((files(&cache, "files"), on_the_way(&cache)), (0, 0));
    }

    #[tokio::test]
    async fn a_damaged_file_is_as_if_it_had_never_been_there() {
        let folder = tempfile::tempdir().unwrap();
        let cache = cache(&folder);
        keep(&cache, sha256(b"wheel"), b"wheel").await.unwrap();
        fs::write(cache.file(&sha256(b"wheel")), b"wheek").unwrap();
        assert_eq!(read(&cache, b"wheel").await, None);
        assert_eq!(files(&cache, "files"), 0);
        keep(&cache, sha256(b"wheel"), b"wheel").await.unwrap();
        assert_eq!(read(&cache, b"wheel").await.unwrap(), b"wheel");
    }

    #[tokio::test]
    async fn many_may_keep_one_file_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let caches = [cache(&folder), cache(&folder)];
        let content = vec![7; 500];
        let all = (0..16).map(|at: usize| keep(&caches[at % 2], sha256(&content), &content));
        for kept in futures_util::future::join_all(all).await {
            assert_eq!(kept.unwrap(), content);
        }
        assert_eq!(read(&caches[0], &content).await.unwrap(), content);
        assert_eq!((files(&caches[0], "files"), on_the_way(&caches[0])), (1, 0));
    }

    #[tokio::test]
    async fn what_was_used_longest_ago_goes_first() {
        let folder = tempfile::tempdir().unwrap();
        let cache = cache(&folder);
        let content = |at: u8| vec![at; 300];
        for at in 1..=3 {
            keep(&cache, sha256(&content(at)), &content(at))
                .await
                .unwrap();
            let used = UNIX_EPOCH + Duration::from_secs(u64::from(at));
            let file = File::options()
                .append(true)
                .open(cache.file(&sha256(&content(at))));
            file.unwrap().set_modified(used).unwrap();
        }
        // Used again, so that the second is now the oldest.
        assert!(read(&cache, &content(1)).await.is_some());
        keep(&cache, sha256(&content(4)), &content(4))
            .await
            .unwrap();
        assert!(read(&cache, &content(2)).await.is_none());
        for at in [1, 3, 4] {
            assert!(read(&cache, &content(at)).await.is_some(), "{at}");
        }
    }

    #[tokio::test]
    async fn a_file_without_room_is_served_all_the_same() {
        let folder = tempfile::tempdir().unwrap();
        let cache = cache(&folder);
        let content = vec![1; 2000];
        assert_eq!(
            keep(&cache, sha256(&content), &content).await.unwrap(),
            content
        );
    }

    #[test]
    fn what_is_on_its_way_goes_with_its_process_and_no_sooner() {
        let folder = tempfile::tempdir().unwrap();
        let cache = cache(&folder);
        cache.tidy().unwrap();
        assert!(!cache.root.exists(), "nothing is made before it is needed");
        let left = cache.temp().unwrap().into_temp_path().keep().unwrap();
        let other = self::cache(&folder);
        other.tidy().unwrap();
        other.sweep(Path::new("")).unwrap();
        assert!(left.exists(), "its process lives");
        drop(cache);
        assert_eq!(files(&other, "tmp"), 0);
    }

    #[test]
    fn a_page_is_kept_with_its_age() {
        let folder = tempfile::tempdir().unwrap();
        let cache = cache(&folder);
        let then = UNIX_EPOCH + Duration::from_secs(1_000_000);
        let later = then + Duration::from_mins(1);
        assert_eq!(cache.page_now("https://r.test/a", later).unwrap(), None);
        cache
            .keep_page_now("https://r.test/a", b"page", then)
            .unwrap();
        let kept = Kept {
            bytes: b"page".to_vec(),
            age: Duration::from_mins(1),
        };
        assert_eq!(
            cache.page_now("https://r.test/a", later).unwrap(),
            Some(kept)
        );
        assert_eq!(cache.page_now("https://r.test/b", later).unwrap(), None);
        let before = then - Duration::from_secs(1);
        let kept = cache.page_now("https://r.test/a", before).unwrap().unwrap();
        assert_eq!(kept.age, Duration::MAX);
    }

    #[test]
    fn a_damaged_page_is_as_if_it_had_never_been_there() {
        let folder = tempfile::tempdir().unwrap();
        let cache = cache(&folder);
        let url = "https://r.test/a";
        let now = clock::file_clock();
        cache.keep_page_now(url, b"page", now).unwrap();
        let good = fs::read(cache.page_path(url)).unwrap();
        let mut other = good.clone();
        *other.last_mut().unwrap() ^= 1;
        let elsewhere = {
            cache
                .keep_page_now("https://evil.test/a", b"page", now)
                .unwrap();
            fs::read(cache.page_path("https://evil.test/a")).unwrap()
        };
        for bad in [
            &b""[..],
            b"\n",
            b"page",
            &good[..good.len() - 1],
            &other,
            &elsewhere,
        ] {
            fs::write(cache.page_path(url), bad).unwrap();
            assert_eq!(cache.page_now(url, now).unwrap(), None);
            assert!(!cache.page_path(url).exists());
        }
    }
}
