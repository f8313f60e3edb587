//! A guest that says whatever it likes in answer to a request, and what the server makes of it.

use std::path::{Component, Path};

use belljar_wire::{
    PROTOCOL,
    frame::{Frame, FrameReader, FrameWriter, Kind},
    limits::{MAX_DATA, MAX_DEPTH, MAX_PATH, MAX_REPLY, MAX_REQUEST},
    message::{
        Collect, Entry, EntryKind, FromHello, FromList, FromRun, GuestError, Hidden, ReadEnd,
        Ready, RunId, RunSpec, StdinKind,
    },
    mux::{self, Side},
};
use futures_util::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::io::DuplexStream;
use tokio_util::compat::TokioAsyncReadCompatExt as _;

use super::{
    input::{Cuts, Input},
    tether::{End, frames},
};
use crate::engine::tether::{RunEvent, Tether, TetherError};

/// The most that is asked for: entries, files, bytes.
const MOST: u32 = 5;
/// Bytes in flight between the two.
const PIPE: usize = 64 * 1024;

/// What is asked of the guest.
#[derive(Clone, Copy, Debug)]
enum Asked {
    List,
    Read,
    Write,
    Run { may_be_warm: bool },
}

/// Listings, files and runs: the server takes exactly what a simple reader of the protocol takes, nothing beyond what it
/// asked for and no path that leads elsewhere, and lets go of a guest that breaks a rule.
pub(super) fn guest(bytes: &[u8]) {
    let mut input = Input(bytes);
    let asked = match input.byte() % 5 {
        0 => Asked::List,
        1 => Asked::Read,
        2 => Asked::Write,
        3 => Asked::Run { may_be_warm: false },
        _ => Asked::Run { may_be_warm: true },
    };
    let cuts = input.cuts();
    let said = input.0;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        let (near, far) = tokio::io::duplex(PIPE);
        let (read, write) = tokio::io::split(near);
        let answering = answer(far, cuts, said);
        let asking = async {
            let tether = Tether::connect(read, write).await.expect("a proper hello");
            let taken = ask(&tether, asked).await;
            let broken = matches!(taken, Err(TetherError::Lost | TetherError::Violation(_)));
            assert_eq!(tether.is_lost(), broken, "{taken:?}");
            taken
        };
        let taken = tokio::select! {
            taken = asking => taken,
            () = answering => unreachable!("it answers for as long as it is asked"),
        };
        compare(asked, said, taken);
    });
}

/// Answers the hello as it should, and the next request with `said` and the end of the stream.
async fn answer(io: DuplexStream, cuts: Cuts<'_>, said: &[u8]) {
    let (_opener, gate, mut driver) = mux::connect(io.compat(), Side::Guest);
    let mut incoming = gate.open().expect("opened once");
    let talk = async {
        let hello = incoming.next().await.expect("the hello");
        let (read, write) = hello.split();
        let mut reader = FrameReader::new(read, MAX_REQUEST);
        let mut greeter = FrameWriter::new(write, MAX_REPLY);
        let _hello = reader.next().await;
        let ready = Ready {
            protocol: PROTOCOL,
            uid: 52_000,
        };
        let _ = greeter.send(&FromHello::Ready(ready)).await;
        let mut request = incoming.next().await.expect("the request");
        for piece in cuts.of(said) {
            // Fails once the server has heard enough.
            if request.write_all(piece).await.is_err() || request.flush().await.is_err() {
                break;
            }
        }
        let _ = request.close().await;
        // What the server still sends is taken, or it would wait for ever.
        let mut rest = vec![0; MAX_DATA];
        while let Ok(1..) = request.read(&mut rest).await {}
        std::future::pending::<()>().await;
    };
    tokio::select! {
        () = talk => {}
        _ended = &mut driver => {
            // The server has let go; it says so itself.
            std::future::pending::<()>().await;
        }
    }
}

/// What the server took of an answer.
#[derive(Debug, Default, PartialEq)]
struct Taken {
    entries: Vec<Entry>,
    stdout: Vec<u8>,
    stderr: Vec<u8>,
    data: Vec<u8>,
    omitted: u64,
    exits: usize,
}

async fn ask(tether: &Tether, asked: Asked) -> Result<Taken, TetherError> {
    let mut taken = Taken::default();
    match asked {
        Asked::List => {
            let listing = tether.list(b"", MOST, Hidden::List).await?;
            taken.entries = listing.entries;
            taken.omitted = listing.omitted;
        }
        Asked::Read => {
            let mut file = tether.read(b"a", 0, u64::from(MOST)).await?;
            taken.entries.push(file.entry().clone());
            while let Some(piece) = file.next().await? {
                assert!(!piece.is_empty());
                taken.data.extend_from_slice(&piece);
            }
        }
        Asked::Write => taken
            .entries
            .push(tether.write(b"a", 3, &b"abc"[..]).await?),
        Asked::Run { may_be_warm } => {
            let mut run = tether.run(spec(may_be_warm), None).await?;
            let mut started = false;
            while let Some(event) = run.next().await? {
                assert_eq!(taken.exits, 0, "{event:?} after the end");
                assert_eq!(started, !matches!(event, RunEvent::Started { .. }));
                match event {
                    RunEvent::Started { warm } => {
                        assert!(may_be_warm || !warm);
                        started = true;
                    }
                    RunEvent::Stdout(bytes) => {
                        assert!(!bytes.is_empty() && taken.entries.is_empty());
                        taken.stdout.extend_from_slice(&bytes);
                    }
                    RunEvent::Stderr(bytes) => {
                        assert!(!bytes.is_empty() && taken.entries.is_empty());
                        taken.stderr.extend_from_slice(&bytes);
                    }
                    RunEvent::NewFile(entry) => {
                        assert_eq!(entry.kind, EntryKind::File);
                        taken.entries.push(entry);
                    }
                    RunEvent::Exited(_) => taken.exits += 1,
                }
            }
            assert_eq!(taken.exits, 1);
        }
    }
    Ok(taken)
}

fn spec(may_be_warm: bool) -> RunSpec {
    RunSpec {
        id: RunId(0),
        argv: vec!["x".to_owned()],
        env: Vec::new(),
        cwd: "/workspace".to_owned(),
        program: None,
        files: Vec::new(),
        stdin: StdinKind::Null,
        timeout_ms: 1000,
        nproc: None,
        collect: Collect {
            skip_dirs: Vec::new(),
            max_files: MOST,
        },
        warm: may_be_warm.then(|| belljar_wire::message::Handover { args: Vec::new() }),
    }
}

/// What a simple reader of the protocol takes of an answer that is all there.
fn compare(asked: Asked, said: &[u8], taken: Result<Taken, TetherError>) {
    let (frames, end) = frames(said, MAX_REPLY);
    let expected = match asked {
        Asked::List => listed(&frames),
        Asked::Read => read(&frames),
        // The guest may answer before it has everything: which of the two comes first is chance.
        Asked::Write => written(&frames),
        Asked::Run { may_be_warm } => run(&frames, may_be_warm),
    };
    let proper = expected.filter(|_| end == End::Clean);
    match (taken, proper) {
        (Ok(taken), Some(Ok(expected))) => {
            assert!(taken.entries.len() <= MOST as usize);
            assert!(taken.data.len() <= MOST as usize);
            taken
                .entries
                .iter()
                .for_each(|entry| assert!(is_below(entry)));
            assert_eq!(taken, expected);
        }
        (Err(TetherError::Guest(error)), Some(Err(expected))) => assert_eq!(error, expected),
        (Err(TetherError::Violation(_)), _) if matches!(asked, Asked::Write) => {}
        // A word of failure ends the exchange, whatever would have come after it.
        (Err(TetherError::Lost | TetherError::Violation(_) | TetherError::Guest(_)), None) => {}
        (taken, expected) => panic!("took {taken:?} where {expected:?} was said"),
    }
}

type Proper = Option<Result<Taken, GuestError>>;

fn listed(frames: &[Frame]) -> Proper {
    let mut taken = Taken::default();
    let (last, before) = frames.split_last()?;
    for frame in before {
        let Ok(FromList::Entry(entry)) = frame.message() else {
            return None;
        };
        taken.entries.push(entry);
    }
    let fine = taken.entries.iter().all(is_below) && taken.entries.len() <= MOST as usize;
    match last.message().ok()? {
        FromList::End { omitted } if fine => {
            taken.omitted = omitted;
            taken.entries.sort_unstable_by(|a, b| a.path.cmp(&b.path));
            Some(Ok(taken))
        }
        FromList::Failed(error) if before.is_empty() => Some(Err(error)),
        FromList::End { .. } | FromList::Failed(_) | FromList::Entry(_) => None,
    }
}

fn read(frames: &[Frame]) -> Proper {
    let (first, rest) = frames.split_first()?;
    let entry: Entry = match first.message::<Result<Entry, GuestError>>().ok()? {
        Ok(entry) => entry,
        Err(error) => return rest.is_empty().then_some(Err(error)),
    };
    let (last, pieces) = rest.split_last()?;
    let mut taken = Taken::default();
    for piece in pieces {
        if piece.kind != Kind::Data || piece.payload.is_empty() {
            return None;
        }
        taken.data.extend_from_slice(&piece.payload);
    }
    let fine = is_below(&entry) && taken.data.len() <= MOST as usize;
    taken.entries.push(entry);
    match last.message().ok()? {
        ReadEnd::Complete if fine => Some(Ok(taken)),
        ReadEnd::Broken(error) if fine => Some(Err(error)),
        ReadEnd::Complete | ReadEnd::Broken(_) => None,
    }
}

fn written(frames: &[Frame]) -> Proper {
    let [only] = frames else { return None };
    match only.message::<Result<Entry, GuestError>>().ok()? {
        Ok(entry) if is_below(&entry) => Some(Ok(Taken {
            entries: vec![entry],
            ..Taken::default()
        })),
        Ok(_) => None,
        Err(error) => Some(Err(error)),
    }
}

fn run(frames: &[Frame], may_be_warm: bool) -> Proper {
    let (first, rest) = frames.split_first()?;
    match first.message().ok()? {
        FromRun::Started { warm } if may_be_warm || !warm => {}
        FromRun::Failed(error) => return rest.is_empty().then_some(Err(error)),
        FromRun::Started { .. } | FromRun::NewFile(_) | FromRun::Exited(_) => return None,
    }
    let (last, middle) = rest.split_last()?;
    let mut taken = Taken::default();
    for frame in middle {
        let printed = match frame.kind {
            Kind::Data => return None,
            Kind::Stdout => &mut taken.stdout,
            Kind::Stderr => &mut taken.stderr,
            Kind::Control => {
                let Ok(FromRun::NewFile(entry)) = frame.message() else {
                    return None;
                };
                if entry.kind != EntryKind::File || !is_below(&entry) {
                    return None;
                }
                taken.entries.push(entry);
                continue;
            }
        };
        if frame.payload.is_empty() || !taken.entries.is_empty() {
            return None;
        }
        printed.extend_from_slice(&frame.payload);
    }
    let Ok(FromRun::Exited(_)) = last.message() else {
        return None;
    };
    taken.exits = 1;
    (taken.entries.len() <= MOST as usize).then_some(Ok(taken))
}

/// Whether a path stays below what it is joined to, by the standard library's reading of it.
fn is_below(entry: &Entry) -> bool {
    #[cfg(unix)]
    let path = {
        use std::os::unix::ffi::OsStrExt as _;
        Path::new(std::ffi::OsStr::from_bytes(&entry.path))
    };
    #[cfg(not(unix))]
    let text = String::from_utf8_lossy(&entry.path).into_owned();
    #[cfg(not(unix))]
    let path = Path::new(&text);
    let normal = path
        .components()
        .all(|component| matches!(component, Component::Normal(_)));
    // The library reads `a//b`, `a/.` and `a/` as it reads `a/b` and `a`; nobody else has to.
    let plain = entry
        .path
        .split(|byte| *byte == b'/')
        .all(|name| !name.is_empty() && name != b".");
    let bounded =
        entry.path.len() <= MAX_PATH && entry.path.split(|byte| *byte == b'/').count() <= MAX_DEPTH;
    normal && plain && bounded && !entry.path.contains(&0)
}
