//! What programs print and what they call their files, on the way to a reader.

use std::{cell::RefCell, path::Path};

use tempfile::TempDir;

use super::input::Input;
use crate::{
    output::{
        Capture, Captured, CapturedStream, Fence, Label, Part, RawContent, Shown, Stream, Verdict,
        Window, reference, show, show_bytes, whole_characters,
    },
    types::{Sha256, WorkspacePath, visible},
};

/// The most bytes that one case prints: enough to spill to a file, twice over.
const MAX_PRINTED: u64 = 3 * 512 * 1024;

/// A text: what the slow way makes of it, exact counts, no forbidden character, the fence's token in our lines only, and
/// the same in whatever pieces it comes.
pub(super) fn shown(bytes: &[u8]) {
    let mut input = Input(bytes);
    let limit = input.word() % 1024;
    let cuts = input.cuts();
    let text = input.0;
    let shown = show_bytes(text, limit);
    assert_eq!(shown, reference(text, limit));
    counted(&shown, text.len() as u64);
    fenced(&shown);

    let mut window = Window::default();
    cuts.of(text).for_each(|piece| window.push(piece));
    assert_eq!(show(&window, limit), shown);
    assert_eq!((window.bytes(), window.omitted()), (text.len() as u64, 0));

    // Whoever shows it piece by piece shows the same.
    let whole = show_bytes(text, usize::MAX);
    let mut left = Vec::new();
    let mut joined = String::new();
    for piece in cuts.of(text) {
        left.extend_from_slice(piece);
        let kept = whole_characters(&left);
        assert!(left.len() - kept.len() < 4);
        joined.push_str(&show_bytes(kept, usize::MAX).text());
        left = left.split_off(kept.len());
    }
    joined.push_str(&show_bytes(&left, usize::MAX).text());
    assert_eq!(joined, whole.text());
}

fn counted(shown: &Shown, bytes: u64) {
    let text = shown.text();
    assert!(!text.chars().any(visible::is_forbidden), "{text:?}");
    assert_eq!(shown.bytes(), bytes);
    assert!(shown.omitted_bytes() <= bytes);
    assert_eq!(shown.truncated(), shown.omitted_bytes() > 0);
}

fn fenced(shown: &Shown) {
    let parts = [Label::Stdout, Label::Artifact].map(|label| Part { label, shown });
    let Some(fence) = Fence::new(&parts) else {
        assert!(shown.is_empty());
        return;
    };
    let (text, token) = (fence.text(), fence.token());
    let omissions = usize::from(shown.truncated());
    // The sentence, and for each part two markers and the line about what is omitted.
    assert_eq!(text.matches(token).count(), 1 + 2 * (2 + omissions));
    for label in ["stdout", "artifact"] {
        let begin = format!("\n----- BEGIN UNTRUSTED {label} {token}\n");
        let end = format!("\n----- END UNTRUSTED {label} {token}");
        assert_eq!(
            (text.matches(&begin).count(), text.matches(&end).count()),
            (1, 1)
        );
    }
    assert!(text.ends_with(&format!("\n----- END UNTRUSTED artifact {token}")));
    assert!(!text.chars().any(visible::is_forbidden));
}

thread_local! {
    /// Where the cases of this thread spill.
    static SPOOL: RefCell<Option<TempDir>> = const { RefCell::new(None) };
}

fn with_spool<T>(act: impl FnOnce(&Path) -> T) -> T {
    SPOOL.with_borrow_mut(|spool| {
        let spool = spool.get_or_insert_with(|| tempfile::tempdir().expect("a directory"));
        act(spool.path())
    })
}

/// A run's two streams: kept, counted and hashed exactly up to the limit, in whatever pieces they come, and nothing left
/// on the disk.
pub(super) fn capture(bytes: &[u8]) {
    let mut input = Input(bytes);
    let limit = match input.byte() {
        0 => u64::MAX,
        few @ 1..=15 => u64::from(few),
        many => u64::from(many) * 16 * 1024,
    };
    // Each push: which stream, and how much of a pattern of its own.
    let mut pushes = Vec::new();
    let mut printed = 0;
    while let [push, length, ..] = *input.0 {
        input.take(2);
        let stream = if push & 1 == 0 {
            Stream::Stdout
        } else {
            Stream::Stderr
        };
        let length = usize::from(length) << ((push >> 1) % 13);
        printed += length as u64;
        if printed > MAX_PRINTED {
            break;
        }
        let chunk: Vec<u8> = (push..=250).chain(0..=250).cycle().take(length).collect();
        pushes.push((stream, chunk));
    }
    with_spool(|spool| {
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let captured = captured(spool, limit, &pushes, &mut out, &mut err);
        for (stream, expected) in [(&captured.stdout, &out), (&captured.stderr, &err)] {
            kept(stream, expected);
        }
        drop(captured);
        assert_eq!(std::fs::read_dir(spool).expect("the spool").count(), 0);
    });
}

fn captured(
    spool: &Path,
    limit: u64,
    pushes: &[(Stream, Vec<u8>)],
    out: &mut Vec<u8>,
    err: &mut Vec<u8>,
) -> Captured {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        let mut capture = Capture::new(limit, spool);
        let mut over = false;
        for (stream, chunk) in pushes {
            let verdict = capture.push(*stream, chunk).await;
            let room = limit - (out.len() + err.len()) as u64;
            let fits = usize::try_from(room).map_or(chunk.len(), |room| room.min(chunk.len()));
            over |= fits < chunk.len();
            match stream {
                Stream::Stdout => out.extend_from_slice(&chunk[..fits]),
                Stream::Stderr => err.extend_from_slice(&chunk[..fits]),
            }
            assert_eq!(verdict == Verdict::LimitReached, over);
            assert_eq!(capture.bytes(), (out.len() + err.len()) as u64);
        }
        capture.finish().await
    })
}

fn kept(stream: &CapturedStream, expected: &[u8]) {
    let raw = match &stream.raw {
        RawContent::Memory(bytes) => bytes.to_vec(),
        RawContent::File(file) => std::fs::read(file.path()).expect("the raw copy"),
        RawContent::Incomplete => panic!("the raw copy is incomplete"),
    };
    assert!(raw == expected);
    assert_eq!(stream.sha256, Sha256::of(expected));
    let window = &stream.window;
    assert_eq!(window.bytes(), expected.len() as u64);
    assert!(expected.starts_with(window.head()) && expected.ends_with(window.tail()));
    let in_window = (window.head().len() + window.tail().len()) as u64;
    assert_eq!(window.omitted(), window.bytes() - in_window);
    counted(&show(window, 4096), window.bytes());
}

/// Names: shown on one line without tricks, and what is shown is read as exactly the same name; a path that is taken
/// stays below the workspace.
pub(super) fn name(bytes: &[u8]) {
    let shown = visible::escape_name(bytes);
    assert!(
        !shown
            .chars()
            .any(|c| visible::is_forbidden(c) || c == '\n' || c == '\t')
    );
    assert_eq!(visible::unescape(&shown).as_deref(), Some(bytes));
    if let Ok(path) = WorkspacePath::from_bytes(bytes.to_vec()) {
        assert_eq!(path.as_bytes(), bytes);
        assert_eq!(WorkspacePath::parse(&path.shown()), Ok(path.clone()));
        let mut names = bytes.split(|byte| *byte == b'/');
        assert!(names.all(|name| !matches!(name, b"" | b"." | b"..")));
        assert!(!bytes.contains(&0));
    }
    // The same bytes as what a client writes.
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    if let Some(meant) = visible::unescape(text) {
        assert!(meant.len() <= text.len());
        assert_eq!(
            visible::unescape(&visible::escape_name(&meant)),
            Some(meant)
        );
    }
    if let Ok(path) = WorkspacePath::parse(text) {
        assert_eq!(WorkspacePath::parse(&path.shown()), Ok(path));
    }
}
