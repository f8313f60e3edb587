use std::fs;

use jiff::{Timestamp, ToSpan as _};
use tempfile::TempDir;

use super::*;
use crate::{
    artifact::Kind,
    types::{Sha256, TokenId},
};

fn store(options: Options) -> (TempDir, Store) {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path().join("artifacts"), options).unwrap();
    (dir, store)
}

fn artifact(name: &str) -> NewEntry {
    NewEntry {
        caller: Caller::Local,
        kind: Kind::Artifact { run: None },
        name: name.to_owned(),
    }
}

fn record(run: &RunId, name: &str) -> NewEntry {
    NewEntry {
        kind: Kind::Record { run: run.clone() },
        ..artifact(name)
    }
}

async fn put(store: &Store, text: &'static str, new: NewEntry) -> Entry {
    store
        .put_bytes(Bytes::from_static(text.as_bytes()), new)
        .await
        .unwrap()
}

async fn sweep_at(store: &Store, now: Timestamp) -> Swept {
    store.blocking(move |disk| disk.sweep(now)).await.unwrap()
}

/// Files below a directory of the store, by their number.
fn files(store: &Store, dir: &str) -> usize {
    fn walk(dir: &Path) -> usize {
        fs::read_dir(dir)
            .unwrap()
            .map(|item| item.unwrap().path())
            // A lock says whose the files are; it is none.
            .filter(|path| path.extension() != Some("lock".as_ref()))
            .map(|path| if path.is_dir() { walk(&path) } else { 1 })
            .sum()
    }
    walk(&store.disk.root.join(dir))
}

#[tokio::test]
async fn what_is_kept_can_be_had_by_its_id() {
    let (_dir, store) = store(Options::default());
    let entry = put(&store, "a,b\n1,2\n", artifact("out/data.csv")).await;
    assert_eq!(entry.media_type, "text/csv; charset=utf-8");
    assert_eq!((entry.bytes, entry.sha256), (8, Sha256::of(b"a,b\n1,2\n")));
    let id = entry.artifact_id().unwrap();
    assert_eq!(store.get(&Caller::Local, id).await.unwrap(), entry);
    for (offset, length, expected) in [
        (0, 100, "a,b\n1,2\n"),
        (2, 3, "b\n1"),
        (8, 1, ""),
        (u64::MAX, 1, ""),
        (3, 0, ""),
    ] {
        assert_eq!(store.read(&entry, offset, length).await.unwrap(), expected);
    }
    let unknown = store.get(&Caller::Local, &ArtifactId::random()).await;
    assert!(matches!(unknown, Err(StoreError::NotFound)));
}

#[tokio::test]
async fn a_writer_and_a_moved_file_keep_the_same_as_bytes_do() {
    let (_dir, store) = store(Options::default());
    let mut writer = store.writer(100).await.unwrap();
    writer.write_all(b"one ").await.unwrap();
    writer.write_all(b"two").await.unwrap();
    assert_eq!(files(&store, "entries"), 0);
    let written = writer.finish(artifact("x")).await.unwrap();
    let mut file = NamedTempFile::new_in(store.spool_dir()).unwrap();
    file.write_all(b"one two").unwrap();
    let digest = Sha256::of(b"one two");
    let moved = store
        .put_file(file, 7, digest, artifact("x"))
        .await
        .unwrap();
    let bytes = put(&store, "one two", artifact("x")).await;
    for entry in [&written, &moved, &bytes] {
        assert_eq!(entry.sha256, Sha256::of(b"one two"));
        assert_eq!(entry.media_type, "text/plain; charset=utf-8");
        assert_eq!(store.read(entry, 0, 100).await.unwrap(), "one two");
    }
    assert_eq!(files(&store, "blobs"), 1, "the same content is kept once");
    assert_eq!(files(&store, "tmp"), 0);
}

#[tokio::test]
async fn a_file_that_is_not_as_long_as_it_was_counted_is_not_kept() {
    let (_dir, store) = store(Options::default());
    let mut file = NamedTempFile::new_in(store.spool_dir()).unwrap();
    file.write_all(b"cut").unwrap();
    let kept = store
        .put_file(file, 4, Sha256::of(b"cut!"), artifact("x"))
        .await;
    assert!(matches!(kept, Err(StoreError::Damaged)), "{kept:?}");
    assert_eq!(files(&store, "entries") + files(&store, "tmp"), 0);
}

#[tokio::test]
async fn a_large_file_in_pieces_is_kept_as_it_came() {
    let (_dir, store) = store(Options::default());
    let whole: Vec<u8> = (0..=250).cycle().take(2_000_003).collect();
    let mut writer = store.writer(whole.len() as u64).await.unwrap();
    for piece in whole.chunks(60_007) {
        writer.write_all(piece).await.unwrap();
    }
    let kept = writer.finish(artifact("x")).await.unwrap();
    assert_eq!(kept.sha256, Sha256::of(&whole));
    let mut streamed = std::pin::pin!(store.stream_blob(&kept).await.unwrap());
    let mut read = vec![0; whole.len()];
    tokio::io::AsyncReadExt::read_exact(&mut streamed, &mut read)
        .await
        .unwrap();
    assert!(read == whole && store.read(&kept, 0, 2 * MIB).await.unwrap() == whole);
}

#[tokio::test]
async fn a_writer_over_its_bound_or_dropped_leaves_nothing() {
    let (_dir, store) = store(Options::default());
    let mut writer = store.writer(3).await.unwrap();
    writer.write_all(b"123").await.unwrap();
    assert!(matches!(
        writer.write_all(b"4").await,
        Err(StoreError::TooLarge { most: 3 })
    ));
    assert!(matches!(
        writer.finish(artifact("x")).await,
        Err(StoreError::TooLarge { .. })
    ));
    drop(store.writer(3).await.unwrap());
    for dir in ["tmp", "blobs", "entries"] {
        assert_eq!(files(&store, dir), 0, "{dir}");
    }
}

#[tokio::test]
async fn an_id_of_one_kind_finds_nothing_of_another() {
    let (_dir, store) = store(Options::default());
    let upload = put(
        &store,
        "up",
        NewEntry {
            kind: Kind::Upload,
            ..artifact("in.txt")
        },
    )
    .await;
    let run = RunId::random();
    let kept = put(&store, "code", record(&run, "code")).await;
    let file_id = upload.file_id().unwrap();
    assert_eq!(
        store.upload_get(&Caller::Local, &file_id).await.unwrap(),
        upload
    );
    assert!(upload.artifact_id().is_none() && kept.artifact_id().is_none());
    for id in [file_id.as_str(), kept.id.as_str()] {
        let id = ArtifactId::parse(id).unwrap();
        assert!(matches!(
            store.get(&Caller::Local, &id).await,
            Err(StoreError::NotFound)
        ));
    }
    assert_eq!(
        store.list(&Caller::Local, None, 10).await.unwrap().entries,
        []
    );
}

#[tokio::test]
async fn what_another_caller_keeps_is_exactly_unknown() {
    let (_dir, store) = store(Options::default());
    let callers = [
        Caller::Local,
        Caller::Token(TokenId::of("one")),
        Caller::Token(TokenId::of("two")),
    ];
    let kept_by = |caller: &Caller, kind| NewEntry {
        caller: caller.clone(),
        kind,
        ..artifact("x")
    };
    let mut kept = Vec::new();
    for caller in &callers {
        let artifact = kept_by(caller, Kind::Artifact { run: None });
        let artifact = put(&store, "same", artifact).await;
        let upload = put(&store, "same", kept_by(caller, Kind::Upload)).await;
        kept.push((caller, artifact, upload));
    }
    let check = async |ended: bool| {
        for asking in &callers {
            for (owner, artifact, upload) in &kept {
                let artifact = store.get(asking, artifact.artifact_id().unwrap()).await;
                let upload = store.upload_get(asking, &upload.file_id().unwrap()).await;
                for found in [artifact, upload] {
                    match (asking == *owner, ended) {
                        (false, _) => assert!(matches!(found, Err(StoreError::NotFound))),
                        (true, false) => assert_eq!(found.unwrap().caller, *asking),
                        (true, true) => assert!(matches!(found, Err(StoreError::Expired))),
                    }
                }
            }
        }
    };
    check(false).await;
    for (caller, artifact, _) in &kept {
        let listed = store.list(caller, None, 10).await.unwrap().entries;
        assert_eq!(listed, std::slice::from_ref(artifact));
    }
    // What has ended is told to its owner, and not even that to others.
    sweep_at(&store, clock::wall_clock() + 1000.hours()).await;
    check(true).await;
}

#[tokio::test]
async fn a_clock_that_jumps_loses_nothing_that_has_time_left_and_brings_nothing_back() {
    let (_dir, store) = store(Options::default());
    let new = |name: &str| NewEntry {
        caller: Caller::Local,
        kind: Kind::Upload,
        name: name.to_owned(),
    };
    let kept = put(&store, "kept", new("a.txt")).await;
    let id = kept.file_id().unwrap();
    // Back, behind the making of everything there is.
    sweep_at(&store, clock::wall_clock() - 1000.hours()).await;
    let found = store.upload_get(&Caller::Local, &id).await.unwrap();
    assert_eq!(&store.read(&found, 0, 10).await.unwrap()[..], b"kept");
    // Forwards, past the time that it had; and back to where it was.
    sweep_at(&store, clock::wall_clock() + 1000.hours()).await;
    for _ in 0..2 {
        let gone = store.upload_get(&Caller::Local, &id).await;
        assert!(matches!(gone, Err(StoreError::Expired)), "{gone:?}");
        sweep_at(&store, clock::wall_clock()).await;
    }
    put(&store, "new", new("b.txt")).await;
}

#[tokio::test]
async fn the_records_of_a_run_are_found_by_its_id() {
    let (_dir, store) = store(Options::default());
    let run = RunId::random();
    let code = put(&store, "print()", record(&run, "code")).await;
    put(&store, "other", record(&RunId::random(), "code")).await;
    put(
        &store,
        "file",
        NewEntry {
            kind: Kind::Artifact {
                run: Some(run.clone()),
            },
            ..artifact("f")
        },
    )
    .await;
    assert_eq!(store.records_of(&run).await.unwrap(), [code]);
}

#[tokio::test]
async fn the_list_is_newest_first_and_pages_do_not_overlap() {
    let (_dir, store) = store(Options::default());
    let mut kept = Vec::new();
    for _ in 0..5 {
        kept.push(put(&store, "same", artifact("x")).await);
    }
    kept.sort_by(|a, b| a.order().cmp(&b.order()));
    let (mut seen, mut after) = (Vec::new(), None);
    loop {
        let page = store.list(&Caller::Local, after, 2).await.unwrap();
        seen.extend(page.entries);
        // The cursor survives its own text.
        after = page.next.map(|cursor| cursor.to_string().parse().unwrap());
        if after.is_none() {
            break;
        }
    }
    assert_eq!(seen, kept);
}

#[tokio::test]
async fn what_has_expired_is_told_apart_from_what_never_was() {
    let (_dir, store) = store(Options {
        ttl: Duration::ZERO,
        ..Options::default()
    });
    let entry = put(&store, "x", artifact("x")).await;
    let id = entry.artifact_id().unwrap();
    assert!(matches!(
        store.get(&Caller::Local, id).await,
        Err(StoreError::Expired)
    ));
    assert_eq!(
        store.list(&Caller::Local, None, 10).await.unwrap().entries,
        []
    );
    let swept = store.sweep().await.unwrap();
    assert_eq!(
        swept,
        Swept {
            ended: 1,
            kept: 0,
            kept_bytes: 0
        }
    );
    assert_eq!((files(&store, "entries"), files(&store, "blobs")), (0, 0));
    assert!(matches!(
        store.get(&Caller::Local, id).await,
        Err(StoreError::Expired)
    ));
    assert!(matches!(
        store.read(&entry, 0, 1).await,
        Err(StoreError::Expired)
    ));
}

#[tokio::test]
async fn a_blob_goes_with_its_last_entry() {
    let (_dir, store) = store(Options::default());
    let run = RunId::random();
    let first = put(&store, "same", artifact("a")).await;
    let later = first.expires;
    let second = put(&store, "same", record(&run, "stdout")).await;
    // The first is made to end before the second.
    let path = store.disk.root.join("entries").join(second.file_name());
    let longer = Entry {
        expires: later.checked_add(1.hour()).unwrap(),
        ..second
    };
    fs::write(path, serde_json::to_vec(&longer).unwrap()).unwrap();
    assert_eq!(
        sweep_at(&store, later).await,
        Swept {
            ended: 1,
            kept: 1,
            kept_bytes: 4
        }
    );
    assert_eq!(store.read(&longer, 0, 9).await.unwrap(), "same");
    assert_eq!(sweep_at(&store, longer.expires).await.ended, 1);
    assert_eq!(
        (files(&store, "blobs"), files(&store, "gone")),
        (0, 1),
        "records leave no trace"
    );
}

#[tokio::test]
async fn over_the_cap_the_oldest_go_first() {
    let (_dir, store) = store(Options {
        cap_bytes: 3 * 4096 + 100,
        ..Options::default()
    });
    let mut entries = Vec::new();
    for text in ["a", "b", "c", "d"] {
        entries.push(put(&store, text, artifact(text)).await);
        // Entries of one millisecond have no age among them.
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    // Nobody called for a sweep: keeping more than a part of the cap sweeps by itself.
    for (at, entry) in entries.iter().enumerate() {
        let got = store
            .get(&Caller::Local, entry.artifact_id().unwrap())
            .await;
        assert_eq!(
            matches!(got, Err(StoreError::Expired)),
            at == 0,
            "{at}: {got:?}"
        );
    }
    let large = store.put_bytes(vec![0; 20_000].into(), artifact("x")).await;
    assert!(matches!(large, Err(StoreError::TooLarge { .. })));
    assert_eq!(files(&store, "tmp"), 0);
}

#[tokio::test]
async fn there_are_never_more_entries_than_allowed() {
    let (_dir, store) = store(Options {
        max_entries: 2,
        ..Options::default()
    });
    for text in ["a", "b", "c"] {
        put(&store, text, artifact(text)).await;
    }
    assert_eq!(
        store.sweep().await.unwrap(),
        Swept {
            ended: 1,
            kept: 2,
            kept_bytes: 2
        }
    );
}

#[tokio::test]
async fn what_a_crash_leaves_is_swept_and_damage_is_reported() {
    let (_dir, store) = store(Options::default());
    let entry = put(&store, "content", artifact("x")).await;
    let root = &store.disk.root;
    let orphan = Sha256::of(b"orphan").to_string();
    let dir = root.join("blobs").join(&orphan[..2]);
    fs::create_dir_all(&dir).unwrap();
    fs::write(dir.join(&orphan), "orphan").unwrap();
    fs::write(
        root.join("entries")
            .join(format!("{}.json", ArtifactId::random())),
        "{half",
    )
    .unwrap();
    // Of a process that was killed: nobody holds its lock.
    let killed = root.join("tmp").join("0".repeat(32));
    fs::create_dir(&killed).unwrap();
    fs::write(killed.join(".tmphalf"), "half").unwrap();
    fs::write(killed.with_extension("lock"), "").unwrap();
    let ours = store.spool_dir().join(".tmpnew");
    fs::write(&ours, "half").unwrap();
    assert_eq!(
        store.sweep().await.unwrap(),
        Swept {
            ended: 0,
            kept: 1,
            kept_bytes: 7
        }
    );
    assert_eq!((files(&store, "blobs"), files(&store, "tmp")), (1, 1));
    assert!(ours.exists() && !killed.exists());
    let sha256 = entry.sha256.to_string();
    fs::write(root.join("blobs").join(&sha256[..2]).join(&sha256), "cut").unwrap();
    assert!(matches!(
        store.read(&entry, 0, 9).await,
        Err(StoreError::Damaged)
    ));
}

#[tokio::test]
async fn several_stores_on_one_directory_add_and_sweep_without_losing_anything() {
    let (dir, first) = store(Options::default());
    let open = || Store::open(dir.path().join("artifacts"), Options::default()).unwrap();
    let stores = [first, open(), open(), open()];
    let mut tasks = Vec::new();
    for (n, store) in stores.iter().enumerate() {
        let store = store.clone();
        tasks.push(tokio::spawn(async move {
            let mut entries = Vec::new();
            for i in 0..20 {
                // Half of the contents are the same everywhere, so that one takes what another just ended.
                let text = if i % 2 == 0 {
                    format!("{i}")
                } else {
                    format!("{n} {i}")
                };
                entries.push(store.put_bytes(text.into(), artifact("x")).await.unwrap());
                store.sweep().await.unwrap();
            }
            entries
        }));
    }
    for task in tasks {
        for entry in task.await.unwrap() {
            assert!(!stores[0].read(&entry, 0, 10).await.unwrap().is_empty());
        }
    }
    assert_eq!(stores[3].sweep().await.unwrap().kept, 80);
}

#[cfg(unix)]
#[tokio::test]
async fn nobody_else_can_read_the_store() {
    use std::os::unix::fs::PermissionsExt as _;
    fn check(path: &Path) {
        let about = fs::symlink_metadata(path).unwrap();
        let expected = if about.is_dir() { 0o700 } else { 0o600 };
        assert_eq!(
            about.permissions().mode() & 0o777,
            expected,
            "{}",
            path.display()
        );
        if about.is_dir() {
            for item in fs::read_dir(path).unwrap() {
                check(&item.unwrap().path());
            }
        }
    }
    let (_dir, store) = store(Options::default());
    put(&store, "x", artifact("x")).await;
    check(&store.disk.root);
}

#[tokio::test]
async fn a_store_that_was_closed_has_nothing_on_its_way_though_somebody_still_holds_it() {
    let (_dir, store) = store(Options::default());
    fs::write(store.spool_dir().join(".tmphalf"), "half").unwrap();
    store.close().await;
    let tmp = store.disk.root.join("tmp");
    assert_eq!(fs::read_dir(tmp).unwrap().count(), 0);
    store.close().await;
}
