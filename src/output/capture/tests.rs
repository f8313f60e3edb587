use proptest::prelude::*;

use super::*;

const NO_LIMIT: u64 = u64::MAX;

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap()
        .block_on(future)
}

fn raw(stream: &CapturedStream) -> Vec<u8> {
    match &stream.raw {
        RawContent::Memory(bytes) => bytes.to_vec(),
        RawContent::File(file) => std::fs::read(file.path()).unwrap(),
        RawContent::Incomplete => panic!("the raw copy is incomplete"),
    }
}

#[test]
fn a_small_stream_stays_in_memory_and_a_large_one_goes_to_a_private_file() {
    let spool = tempfile::tempdir().unwrap();
    let large: Vec<u8> = (0..=u8::MAX).cycle().take(3_000_000).collect();
    let captured = block_on(async {
        let mut capture = Capture::new(NO_LIMIT, spool.path());
        for chunk in large.chunks(65_536) {
            assert_eq!(capture.push(Stream::Stdout, chunk).await, Verdict::Continue);
        }
        assert_eq!(
            capture.push(Stream::Stderr, b"small").await,
            Verdict::Continue
        );
        capture.finish().await
    });
    assert!(raw(&captured.stdout) == large);
    assert_eq!(captured.stdout.sha256, Sha256::of(&large));
    assert_eq!(captured.stdout.window.bytes(), 3_000_000);
    assert!(matches!(&captured.stderr.raw, RawContent::Memory(bytes) if bytes == "small"));
    assert_eq!(captured.stderr.sha256, Sha256::of(b"small"));
    #[cfg(unix)]
    if let RawContent::File(file) = &captured.stdout.raw {
        use std::os::unix::fs::PermissionsExt as _;
        assert_eq!(
            file.as_file().metadata().unwrap().permissions().mode() & 0o777,
            0o600
        );
    }
    drop(captured);
    assert_eq!(
        std::fs::read_dir(spool.path()).unwrap().count(),
        0,
        "spool files go when dropped"
    );
}

#[test]
fn the_limit_counts_both_streams_and_nothing_beyond_it_is_kept() {
    let spool = tempfile::tempdir().unwrap();
    let captured = block_on(async {
        let mut capture = Capture::new(10, spool.path());
        assert_eq!(
            capture.push(Stream::Stdout, b"12345").await,
            Verdict::Continue
        );
        // Exactly the limit is within it.
        assert_eq!(
            capture.push(Stream::Stderr, b"67890").await,
            Verdict::Continue
        );
        assert_eq!(capture.push(Stream::Stderr, b"").await, Verdict::Continue);
        assert_eq!(
            capture.push(Stream::Stdout, b"x").await,
            Verdict::LimitReached
        );
        assert_eq!(
            capture.push(Stream::Stderr, b"").await,
            Verdict::LimitReached
        );
        assert_eq!(capture.bytes(), 10);
        capture.finish().await
    });
    assert_eq!(raw(&captured.stdout), b"12345");
    assert_eq!(raw(&captured.stderr), b"67890");
}

#[test]
fn a_chunk_across_the_limit_is_kept_up_to_it() {
    let captured = block_on(async {
        let mut capture = Capture::new(7, Path::new("/nowhere"));
        assert_eq!(
            capture.push(Stream::Stdout, b"0123456789").await,
            Verdict::LimitReached
        );
        capture.finish().await
    });
    assert_eq!(raw(&captured.stdout), b"0123456");
    assert_eq!(captured.stdout.sha256, Sha256::of(b"0123456"));
}

#[test]
fn without_a_spool_directory_window_counts_and_digest_survive() {
    let bytes = vec![b'x'; SPILL_CHUNK_BYTES * 3];
    let captured = block_on(async {
        let mut capture = Capture::new(NO_LIMIT, Path::new("/nowhere/at/all"));
        for chunk in bytes.chunks(50_000) {
            assert_eq!(capture.push(Stream::Stdout, chunk).await, Verdict::Continue);
        }
        capture.finish().await
    });
    assert!(matches!(captured.stdout.raw, RawContent::Incomplete));
    assert_eq!(captured.stdout.window.bytes(), bytes.len() as u64);
    assert_eq!(captured.stdout.sha256, Sha256::of(&bytes));
}

#[test]
fn a_write_that_fails_half_way_removes_the_file() {
    let spool = tempfile::tempdir().unwrap();
    let mut sink = Sink::new(spool.path().to_owned());
    sink.append(b"first");
    // A file opened for reading refuses writes, as a full disk does.
    let SpoolFile::Open(file) = std::mem::replace(&mut sink.file, SpoolFile::Failed) else {
        panic!("no file");
    };
    let path = file.into_temp_path();
    let readonly = std::fs::File::open(&path).unwrap();
    sink.file = SpoolFile::Open(NamedTempFile::from_parts(readonly, path));
    sink.append(b"second");
    let (sha256, raw) = sink.finish(b"third".to_vec());
    assert!(matches!(raw, RawContent::Incomplete));
    assert_eq!(sha256, Sha256::of(b"firstsecondthird"));
    assert_eq!(std::fs::read_dir(spool.path()).unwrap().count(), 0);
}

#[test]
fn a_dropped_push_loses_no_bytes() {
    let spool = tempfile::tempdir().unwrap();
    let chunk = vec![b'x'; SPILL_CHUNK_BYTES];
    let captured = block_on(async {
        let mut capture = Capture::new(NO_LIMIT, spool.path());
        for _ in 0..5 {
            // Polled once and dropped, wherever it waits.
            let push = std::pin::pin!(capture.push(Stream::Stdout, &chunk));
            let _ = futures_util::FutureExt::now_or_never(push);
        }
        capture.finish().await
    });
    assert_eq!(captured.stdout.window.bytes(), 5 * SPILL_CHUNK_BYTES as u64);
    assert_eq!(raw(&captured.stdout).len(), 5 * SPILL_CHUNK_BYTES);
    assert_eq!(captured.stdout.sha256, Sha256::of(&chunk.repeat(5)));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]
    #[test]
    fn any_chunking_of_both_streams_gives_the_same(
        pushes in prop::collection::vec((any::<bool>(), 0usize..200_000), 0..16),
        limit in 0u64..2_000_000,
    ) {
        let spool = tempfile::tempdir().unwrap();
        let (mut out, mut err, mut over) = (Vec::new(), Vec::new(), false);
        let captured = block_on(async {
            let mut capture = Capture::new(limit, spool.path());
            for (to_out, len) in pushes {
                let chunk: Vec<u8> = (0..=250).cycle().take(len).collect();
                let (stream, expected) =
                    if to_out { (Stream::Stdout, &mut out) } else { (Stream::Stderr, &mut err) };
                let verdict = capture.push(stream, &chunk).await;
                expected.extend(chunk);
                over |= (out.len() + err.len()) as u64 > limit;
                if over {
                    let beyond = (out.len() + err.len()) as u64 - limit;
                    let cut = if to_out { &mut out } else { &mut err };
                    cut.truncate(cut.len() - usize::try_from(beyond).unwrap());
                }
                assert_eq!(verdict == Verdict::LimitReached, over);
            }
            capture.finish().await
        });
        for (stream, expected) in [(&captured.stdout, &out), (&captured.stderr, &err)] {
            prop_assert!(&raw(stream) == expected);
            prop_assert_eq!(stream.sha256, Sha256::of(expected));
            prop_assert_eq!(stream.window.bytes(), expected.len() as u64);
        }
    }
}
