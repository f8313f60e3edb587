//! What is read back from the disk, whatever a crash, a full disk or somebody else has made of it; and what is kept there.

use std::{collections::BTreeSet, fs, path::Path, time::Duration};

use tempfile::TempDir;

use super::input::Input;
use crate::{
    artifact::{
        Cursor, Kind, MAX_IMAGE_BYTES, MAX_IMAGE_PIXELS, MAX_IMAGE_SIDE, NewEntry, Options,
        Sniffer, Store, StoreError, media_type, showable_image,
    },
    audit::{Action, Decision, Event, Fault, Log, Logs},
    types::{ArtifactId, Caller, FileId, InstanceId, RunId},
};

/// The most lines that an audit log has here.
const MAX_LINES: u8 = 5;
/// The most bytes of everything in the store.
const CAP: u64 = 64 * 1024;

fn directory() -> TempDir {
    // In memory where there is such a place: a case writes a few small files.
    let shared = Path::new("/dev/shm");
    if shared.is_dir() {
        tempfile::tempdir_in(shared)
    } else {
        tempfile::tempdir()
    }
    .expect("a directory")
}

/// Changes some bytes: cuts, overwrites, puts in, takes out, copies a piece elsewhere.
fn damage(bytes: &mut Vec<u8>, script: &[u8]) {
    let mut input = Input(script);
    while !input.0.is_empty() {
        let what = input.byte();
        let at = input.word() % (bytes.len() + 1);
        let some = usize::from(input.byte());
        match what % 6 {
            0 => bytes.truncate(at),
            1 => {
                if let Some(byte) = bytes.get_mut(at) {
                    *byte = u8::try_from(some).unwrap_or_default();
                }
            }
            2 => drop(bytes.splice(at..at, input.take(some % 64).iter().copied())),
            3 => drop(bytes.drain(at..(at + some).min(bytes.len()))),
            4 => {
                let piece = bytes[at..(at + some).min(bytes.len())].to_vec();
                let to = input.word() % (bytes.len() + 1);
                drop(bytes.splice(to..to, piece));
            }
            _ => bytes.extend_from_slice(input.take(some)),
        }
        bytes.truncate(1 << 20);
    }
}

/// Audit logs: bytes of any kind are read to their end, and of a log that was changed no line before the last good one is
/// another than was written.
pub(super) fn audit(bytes: &[u8]) {
    let mut input = Input(bytes);
    let lines = input.byte() % (MAX_LINES + 1);
    let dir = directory();
    let run = RunId::parse(&"0".repeat(32)).expect("an id");
    let instance = InstanceId::parse(&"1".repeat(32)).expect("an id");
    let log = Log::open(dir.path(), &instance).expect("a log");
    for _ in 0..lines {
        let event = Event::new(Action::RunCode, Caller::Local, Decision::within_settings());
        let run_id = Some(run.clone());
        log.append(Event { run_id, ..event }).expect("a line");
    }
    drop(log);
    let logs = Logs::open(dir.path());
    let sound = logs.verify().expect("a log").remove(0);
    assert_eq!((sound.lines, sound.fault), (u64::from(lines), None));

    let written = fs::read(&sound.path).expect("the log");
    let mut changed = written.clone();
    damage(&mut changed, input.0);
    fs::write(&sound.path, &changed).expect("the log");
    let report = logs.verify().expect("a log").remove(0);
    let good = split(&changed);
    let taken = usize::try_from(report.lines).expect("few lines");
    assert!(taken <= good.len());
    // Each line carries the digest of the one before: none of those is another than was written.
    let before = taken.saturating_sub(1);
    assert_eq!(good[..before], split(&written)[..before]);
    if changed == written {
        assert_eq!(report.fault, None);
    }
    match report.fault {
        None => assert!(taken == good.len() && (changed.is_empty() || changed.ends_with(b"\n"))),
        Some(Fault::Unfinished) => assert!(!changed.ends_with(b"\n")),
        Some(_) => assert!(taken < good.len()),
    }
    // Reading goes on past what is damaged, and gives no more than there is.
    let all = logs.tail(usize::MAX).expect("a log");
    assert!(all.len() >= taken && all.len() <= good.len());
    assert_eq!(logs.tail(2).expect("a log").len(), all.len().min(2));
    assert!(logs.of_run(&run).expect("a log").len() <= all.len());
    // A log that begins now finds this one's end, which holds if this one did.
    let after = InstanceId::parse(&"2".repeat(32)).expect("an id");
    let next = Log::open(dir.path(), &after).expect("a log");
    let (beside, beside_omitted) = next.beside();
    assert_eq!(beside.len() as u64 + beside_omitted, 1);
    let event = Event::new(Action::Start, Caller::Local, Decision::within_settings());
    let start = Event {
        beside,
        beside_omitted,
        ..event
    };
    next.append(start).expect("a line");
    let again = logs.verify().expect("logs");
    let again = again.into_iter().find(|again| again.path == report.path);
    if report.holds() {
        assert_eq!(again, Some(report));
    }
}

fn split(bytes: &[u8]) -> Vec<&[u8]> {
    bytes.split_inclusive(|byte| *byte == b'\n').collect()
}

/// The store after a crash: entries of any content and contents of any length. Nothing that is damaged is handed out,
/// nobody gets what is another's, and a sweep cleans up and keeps what is sound.
pub(super) fn entries(bytes: &[u8]) {
    let mut input = Input(bytes);
    let flags = input.byte();
    let dir = directory();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .expect("a runtime");
    let options = Options {
        ttl: Duration::from_hours(1),
        cap_bytes: CAP,
        max_entries: 8,
    };
    runtime.block_on(async {
        let store = Store::open(dir.path(), options).expect("a store");
        let new = |kind| NewEntry {
            caller: Caller::Local,
            kind,
            name: "a".to_owned(),
        };
        let run = RunId::parse(&"0".repeat(32)).expect("an id");
        let kind = match flags % 3 {
            0 => Kind::Artifact {
                run: Some(run.clone()),
            },
            1 => Kind::Upload,
            _ => Kind::Record { run: run.clone() },
        };
        let sound = new(Kind::Output { run: run.clone() });
        let sound = store.put_bytes("sound".into(), sound).await.expect("kept");
        let other = store
            .put_bytes("other".into(), new(kind))
            .await
            .expect("kept");
        drop(store);

        // Of the two only the second is damaged: its entry, or its content.
        let id = sound.artifact_id().expect("of an output").to_string();
        let names = names_in(&dir.path().join("entries"));
        let name = names
            .iter()
            .find(|name| !name.contains(&id))
            .expect("the second");
        let path = if flags & 64 == 0 {
            dir.path().join("entries").join(name)
        } else {
            let digest = other.sha256.to_string();
            dir.path().join("blobs").join(&digest[..2]).join(digest)
        };
        let mut content = fs::read(&path).expect("a file");
        damage(&mut content, input.0);
        fs::write(&path, content).expect("a file");

        let store = Store::open(dir.path(), options).expect("a store");
        whatever_is_there(&store, &run).await;
        let id = ArtifactId::parse(&id).expect("an id");
        let read = store.get(&Caller::Local, &id).await;
        assert_eq!(read.expect("the sound one"), sound);
        let swept = store.sweep().await.expect("swept");
        assert!((1..=2).contains(&(swept.kept + swept.ended)) && swept.kept <= 2);
        assert!(blobs(dir.path()).len() <= swept.kept);
    });
}

async fn whatever_is_there(store: &Store, run: &RunId) {
    let page = store.list(&Caller::Local, None, 10).await.expect("a list");
    assert!(page.entries.len() <= 2 && page.next.is_none());
    for entry in &page.entries {
        assert_eq!(entry.caller, Caller::Local);
        let id = entry.artifact_id().expect("of a list").clone();
        match store.get(&Caller::Local, &id).await {
            Ok(found) => assert_eq!(found, *entry),
            Err(error) => panic!("listed and {error}"),
        }
        match store.read(entry, 0, 100).await {
            Ok(bytes) => assert_eq!(bytes.len() as u64, entry.bytes.min(100)),
            Err(StoreError::Damaged | StoreError::Expired) => {}
            Err(error) => panic!("{error}"),
        }
        // What is one's own is nobody else's.
        let stranger = Caller::Token(crate::types::TokenId::of("x"));
        let answer = store.get(&stranger, &id).await;
        assert!(matches!(answer, Err(StoreError::NotFound)));
    }
    let records = store.records_of(run).await.expect("records");
    assert!(records.len() <= 2);
    let unknown = FileId::parse(&"f".repeat(32)).expect("an id");
    assert!(store.upload_get(&Caller::Local, &unknown).await.is_err());
}

fn names_in(dir: &Path) -> BTreeSet<String> {
    let items = fs::read_dir(dir).expect("a directory");
    items
        .map(|item| {
            item.expect("a file")
                .file_name()
                .into_string()
                .expect("a name of ours")
        })
        .collect()
}

fn blobs(root: &Path) -> BTreeSet<String> {
    let root = root.join("blobs");
    let parts = names_in(&root);
    parts
        .iter()
        .flat_map(|part| names_in(&root.join(part)))
        .collect()
}

/// The place in a list that a client hands back: what is taken is the same when it is written again.
pub(super) fn cursor(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    if let Ok(cursor) = text.parse::<Cursor>() {
        assert_eq!(cursor.to_string().parse(), Ok(cursor));
    }
    if let Ok(caller) = Caller::try_from(text.to_owned()) {
        assert_eq!(caller.to_string(), text);
    }
    if let Ok(id) = ArtifactId::parse(text) {
        assert!(id.as_str() == text && text.bytes().all(|byte| byte.is_ascii_alphanumeric()));
    }
}

/// Media types: the same in whatever pieces content comes, one of a closed grammar, and a picture is shown only within
/// its bounds.
pub(super) fn media(bytes: &[u8]) {
    let mut input = Input(bytes);
    let length = usize::from(input.byte() % 32);
    let name = String::from_utf8_lossy(input.take(length)).into_owned();
    let cuts = input.cuts();
    let content = input.0;
    let whole = media_type(&name, content);
    let mut sniffer = Sniffer::default();
    cuts.of(content).for_each(|piece| sniffer.push(piece));
    assert_eq!(sniffer.finish(&name), whole);
    assert_eq!(Sniffer::read(content, &name).expect("from memory"), whole);
    assert!(
        whole
            .bytes()
            .all(|byte| byte.is_ascii_graphic() || byte == b' ')
    );
    assert_eq!(whole.matches('/').count(), 1);
    // What is said to be UTF-8 is.
    if whole.ends_with("charset=utf-8") {
        assert!(std::str::from_utf8(content).is_ok() && !content.contains(&0));
    }
    if let Some(image) = showable_image(content) {
        assert!(content.len() <= MAX_IMAGE_BYTES);
        assert!((1..=MAX_IMAGE_SIDE).contains(&image.width));
        assert!((1..=MAX_IMAGE_SIDE).contains(&image.height));
        assert!(image.width * image.height <= MAX_IMAGE_PIXELS);
        assert!(image.media_type.starts_with("image/"));
    }
}
