//! The lies, one row each: where in the conversation it is told, during which call, and what has to come of it.

use belljar_wire::{
    PROTOCOL,
    message::{
        EndedBy, EntryKind, Exit, ExitStatus, FromEgress, FromHello, FromList, FromRun, FromWarm,
        GuestError, ReadEnd, Ready,
    },
};

use crate::voice::{
    ACK, BYE, CONTROL, DATA, FILE, FIN, PING, RST, STDERR, STDOUT, SYN, Voice, WINDOW, WORDS, data,
    entry, exit, framed, header, uid,
};

/// What the server asks when the lie is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum At {
    /// Nothing yet.
    Start,
    /// The hello.
    Hello,
    /// An interpreter that waits.
    Warm,
    /// An installer, before there is a program.
    Install,
    /// A program.
    Run,
    /// The end of a program, before it has ended itself.
    Kill,
    /// A file to write.
    Write,
    /// A file to read.
    Read,
    /// A listing.
    List,
    /// The way out.
    Egress,
}

/// The call of a tool during which it is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// `run_code`.
    Run,
    /// `run_code` with an egress profile.
    Egress,
    /// `run_code` of a program that may take a minute.
    Long,
    /// `run_code` in a session.
    Session,
    /// `run_code` with packages.
    Install,
    /// `run_code` of a program that prints more than it may, which it is killed for.
    Flood,
    /// The same in a session.
    FloodInSession,
    /// `run_code` that is cancelled.
    Cancel,
    /// `run_code` while sandboxes wait.
    Pool,
    /// `list_files`.
    List,
    /// `fetch_artifact` of a session's file.
    Fetch,
    /// `upload_file` into a session.
    Upload,
}

/// What has to come of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect {
    /// The container is killed; the run, or the session, is `sandbox_lost`.
    Lost,
    /// The same, or a kill at the deadline or at the limit of output, whichever the machine's speed lets come first.
    LostOrLate,
    /// As [`Expect::Lost`], once a deadline of the server's is over.
    LostLate,
    /// The lie is harmless, or about something that is shown as a claim: the call ends with this status, or without an
    /// error where it is no run.
    Status(&'static str),
    /// No sandbox comes of it: the call says so, and the container is removed.
    NoStart,
    /// The guest is taken for one that is not ours: another is put in its place, and the call is served.
    Replaced,
}
use Expect::{Lost, LostLate, LostOrLate, NoStart, Replaced, Status};

/// One row.
pub struct Lie {
    /// What it is.
    pub name: &'static str,
    /// During which call.
    pub call: Call,
    /// Where it is told.
    pub at: At,
    /// What has to come of it.
    pub expect: Expect,
    /// The lie itself.
    pub tell: fn(&mut Voice),
}

const fn run(name: &'static str, expect: Expect, tell: fn(&mut Voice)) -> Lie {
    row(name, Call::Run, At::Run, expect, tell)
}

const fn list(name: &'static str, expect: Expect, tell: fn(&mut Voice)) -> Lie {
    row(name, Call::List, At::List, expect, tell)
}

const fn egress(name: &'static str, expect: Expect, tell: fn(&mut Voice)) -> Lie {
    row(name, Call::Egress, At::Run, expect, tell)
}

const fn install(name: &'static str, expect: Expect, tell: fn(&mut Voice)) -> Lie {
    row(name, Call::Install, At::Install, expect, tell)
}

const fn kill(name: &'static str, tell: fn(&mut Voice)) -> Lie {
    // Whatever it says: belljar ended the program, and knows why.
    row(name, Call::Flood, At::Kill, Status("output_limit"), tell)
}

const fn row(name: &'static str, call: Call, at: At, expect: Expect, tell: fn(&mut Voice)) -> Lie {
    Lie {
        name,
        call,
        at,
        expect,
        tell,
    }
}

/// How often a lie is told that is about numbers.
const MILLION: usize = 1_000_000;
/// A stream that no door was opened for, or that a door lets in.
const OWN: u32 = 2;

fn listed(path: &[u8]) -> Vec<u8> {
    framed(&FromList::Entry(entry(path, 1)))
}

fn one_name(v: &mut Voice, path: &[u8]) {
    let bytes = listed(path);
    v.on_stream(&bytes);
    v.control(&FromList::End { omitted: 0 });
    v.end();
}

fn ended(v: &mut Voice, exit: Exit) {
    v.started();
    v.control(&FromRun::Exited(exit));
    v.end();
}

/// What is said of a program that was killed.
fn killed() -> Exit {
    Exit {
        status: ExitStatus::Signal(9),
        ended_by: EndedBy::Killed,
        ..exit()
    }
}

/// A kill that is agreed to, and then this of the program.
fn agreed(v: &mut Voice, exit: Exit) {
    v.end();
    v.to_program();
    v.control(&FromRun::Exited(exit));
}

/// A million of these, some thousands at a time.
fn million(v: &mut Voice, mut one: impl FnMut(u32) -> Vec<u8>) {
    let mut sent = 0;
    while sent < MILLION {
        let some: Vec<u8> = (0..4000)
            .flat_map(|at| one(u32::try_from(sent + at).unwrap()))
            .collect();
        v.raw(&some);
        sent += 4000;
    }
}

fn park() -> ! {
    loop {
        std::thread::park();
    }
}

/// Stops the whole process: every thread of it, and the connection stays.
fn stop_oneself() -> ! {
    // Without a shell or an unsafe call: the image's own `kill`.
    let _ = std::process::Command::new("/bin/kill")
        .args(["-STOP", "1"])
        .status();
    park()
}

/// All of them.
#[rustfmt::skip] // A table: each row begins on a line of its own.
pub const LIES: &[Lie] = &[
    // Below the multiplexer: the daemon's stream, and no multiplexer at all.
    row("text instead of frames", Call::Run, At::Start, NoStart, |v| v.raw(&WORDS.repeat(20))),
    row("zeros for ever", Call::Run, At::Start, NoStart, |v| v.forever(&[0; 4096])),
    row("0xff for ever", Call::Run, At::Start, NoStart, |v| v.forever(&[0xff; 4096])),
    row("standard error for ever, and then the truth", Call::Run, At::Hello, Status("exited"), |v| {
        for _ in 0..2000 { eprint!("{}", String::from_utf8_lossy(&WORDS.repeat(50))); }
        v.ready();
    }),
    row("headers of the daemon's on standard error", Call::Run, At::Run, Status("exited"), |v| {
        for _ in 0..1000 { eprint!("\u{1}\0\0\0\0\0\0\u{8}\u{2}\0\0\0\u{7f}\u{7f}\u{7f}\u{7f}"); }
        v.started(); v.exited();
    }),
    // The hello.
    row("another version of the protocol", Call::Run, At::Hello, Replaced, |v| {
        v.control(&FromHello::Ready(Ready { protocol: PROTOCOL + 1, uid: uid() }));
    }),
    row("another uid", Call::Run, At::Hello, NoStart, |v| {
        v.control(&FromHello::Ready(Ready { protocol: PROTOCOL, uid: 0 }));
    }),
    row("a pong for a hello", Call::Run, At::Hello, NoStart, |v| v.control(&FromHello::Pong(1))),
    row("a hello of bytes", Call::Run, At::Hello, NoStart, |v| v.piece(STDOUT, WORDS)),
    // The second one would be heard with the first ping, seconds after the program has ended.
    row("a hello twice", Call::Run, At::Hello, Status("exited"), |v| { v.ready(); v.ready(); }),
    row("a hello byte by byte", Call::Run, At::Hello, Status("exited"), |v| {
        let hello = framed(&FromHello::Ready(Ready { protocol: PROTOCOL, uid: uid() }));
        for byte in hello { for part in data(0, v.stream, &[byte]) { v.raw(&[part]); } }
    }),
    row("an exit at the hello", Call::Run, At::Hello, NoStart, |_| std::process::exit(0)),
    row("a million pings before the hello", Call::Run, At::Hello, NoStart, |v| {
        million(v, |_| header(PING, SYN, 0, 7).to_vec()); v.ready();
    }),
    // Frames of the tether in the place of a program's account.
    run("a frame of no bytes", Lost, |v| v.claim(CONTROL, 0, b"")),
    run("a control frame that is too long", Lost, |v| v.claim(CONTROL, 16 * 1024 + 1, b"x")),
    run("a control frame of 4 GiB", Lost, |v| v.claim(CONTROL, u32::MAX, b"x")),
    run("output of no bytes", Lost, |v| { v.started(); v.claim(STDOUT, 0, b""); }),
    run("output that is too long", Lost, |v| { v.started(); v.claim(STDOUT, 64 * 1024 + 1, b"x"); }),
    run("output of 4 GiB", Lost, |v| { v.started(); v.claim(STDOUT, u32::MAX, b"x"); }),
    run("errors of no bytes", Lost, |v| { v.started(); v.claim(STDERR, 0, b""); }),
    run("errors of 4 GiB", Lost, |v| { v.started(); v.claim(STDERR, u32::MAX, b"x"); }),
    run("a file's bytes as output", Lost, |v| { v.started(); v.piece(FILE, WORDS); }),
    run("a file of 4 GiB as output", Lost, |v| { v.started(); v.claim(FILE, u32::MAX, b"x"); }),
    run("an unknown kind of frame", Lost, |v| { v.started(); v.piece(9, WORDS); }),
    run("the kind 0", Lost, |v| v.piece(0, b"")),
    run("a cut frame and the end", Lost, |v| { v.started(); v.claim(STDOUT, 100, WORDS); v.end(); }),
    run("a cut frame and then silence", Status("timed_out"), |v| { v.started(); v.claim(STDOUT, 100, b"half"); }),
    run("a message with bytes behind it", Lost, |v| {
        let mut frame = framed(&FromRun::Started { warm: false });
        frame.extend_from_slice(WORDS);
        let payload = frame[5..].to_vec();
        v.piece(CONTROL, &payload);
    }),
    run("a message of another request", Lost, |v| v.control(&FromHello::Pong(1))),
    // The order of a program's account.
    run("the end before the beginning", Lost, |v| { v.control(&FromRun::Exited(exit())); v.end(); }),
    run("output before the beginning", Lost, |v| { v.piece(STDOUT, WORDS); v.started(); v.exited(); }),
    run("begun twice", Lost, |v| { v.started(); v.started(); v.exited(); }),
    run("begun by an interpreter that nobody asked for", Lost, |v| {
        // The call has arguments for a new one (see the test), so none may wait.
        v.control(&FromRun::Started { warm: true }); v.control(&FromRun::Started { warm: true }); v.exited();
    }),
    run("ended twice", Lost, |v| { v.started(); v.control(&FromRun::Exited(exit())); v.exited(); }),
    run("output after the end", Lost, |v| { v.started(); v.control(&FromRun::Exited(exit())); v.piece(STDOUT, WORDS); v.end(); }),
    run("a failure after the beginning", Lost, |v| { v.started(); v.control(&FromRun::Failed(GuestError::NotFound)); v.end(); }),
    run("a file before the beginning", Lost, |v| v.control(&FromRun::NewFile(entry(b"a", 1)))),
    run("output behind a file", Lost, |v| { v.started(); v.control(&FromRun::NewFile(entry(b"a", 1))); v.piece(STDOUT, b"x"); }),
    run("an end of the multiplexer and more bytes", Lost, |v| { v.started(); v.end(); v.piece(STDOUT, WORDS); }),
    run("an answer and then an exit", Lost, |v| { v.started(); v.piece(STDOUT, b"x"); std::process::exit(0); }),
    run("an exit instead of an answer", Lost, |_| std::process::exit(3)),
    run("a panic", Lost, |_| panic!("{}", String::from_utf8_lossy(WORDS))),
    run("no answer", Lost, |_| {}),
    run("no end", Status("timed_out"), |v| { v.started(); v.piece(STDOUT, b"x"); }),
    run("nothing is read any more", Status("timed_out"), |v| { v.started(); park() }),
    run("it stops itself", Status("timed_out"), |v| { v.started(); stop_oneself() }),
    // What it claims of a program.
    run("counters as large as they can be", Status("exited"), |v| ended(v, Exit {
        cpu_us: u64::MAX, peak_rss_bytes: u64::MAX, wall_us: u64::MAX, files_omitted: u64::MAX, ..exit()
    })),
    run("a kill for want of memory that nobody saw", Status("out_of_memory"), |v| ended(v, Exit {
        oom_kills: u64::MAX, status: ExitStatus::Signal(9), ..exit()
    })),
    run("a kill that nobody asked for", Lost, |v| ended(v, Exit { ended_by: EndedBy::Killed, ..exit() })),
    run("a deadline that has not come", Status("timed_out"), |v| ended(v, Exit { ended_by: EndedBy::Deadline, ..exit() })),
    run("the least exit code", Status("exited"), |v| ended(v, Exit { status: ExitStatus::Code(i32::MIN), ..exit() })),
    run("a signal that there is not", Status("signaled"), |v| ended(v, Exit { status: ExitStatus::Signal(-77), ..exit() })),
    run("words on both streams", Status("exited"), |v| { v.started(); v.piece(STDOUT, WORDS); v.piece(STDERR, WORDS); v.exited(); }),
    run("output for ever", Lost, |v| {
        v.started();
        let line = [&[STDOUT], &1024_u32.to_be_bytes()[..], &[b'x'; 1024]].concat();
        // Beyond what it may send until more is asked for.
        loop { v.on_stream(&line.repeat(16)); }
    }),
    // Files that a program is said to have left.
    run("a new file outside", Lost, |v| { v.started(); v.control(&FromRun::NewFile(entry(b"../../etc/passwd", 1))); v.exited(); }),
    run("a new file by an absolute path", Lost, |v| { v.started(); v.control(&FromRun::NewFile(entry(b"/etc/passwd", 1))); v.exited(); }),
    run("a new file that is a link", Lost, |v| {
        v.started();
        let mut link = entry(b"link", 1);
        link.kind = EntryKind::Link;
        v.control(&FromRun::NewFile(link)); v.exited();
    }),
    run("a million new files", Lost, |v| { v.started(); let stream = v.stream; million(v, |at| {
        let name = format!("f{at}");
        data(0, stream, &framed(&FromRun::NewFile(entry(name.as_bytes(), 1))))
    }); }),
    run("a new file with a name of words", Status("exited"), |v| { v.started(); v.control(&FromRun::NewFile(entry(WORDS, 4))); v.exited(); }),
    run("a new file of 2^64 bytes", Status("exited"), |v| { v.started(); v.control(&FromRun::NewFile(entry(b"huge", u64::MAX))); v.exited(); }),
    row("a collected file that has more bytes than it may", Call::Fetch, At::Read, Lost, |v| {
        v.control(&Ok::<_, GuestError>(entry(b"well", 4)));
        // A bomb: zeros for as long as anybody listens.
        let zeros = [&[FILE], &(64 * 1024_u32).to_be_bytes()[..], &[0; 64 * 1024]].concat();
        loop { v.on_stream(&zeros); }
    }),
    row("a file that claims 2^64 bytes and has 4", Call::Fetch, At::Read, Lost, |v| {
        v.control(&Ok::<_, GuestError>(entry(b"well", u64::MAX)));
        v.piece(FILE, b"four"); v.control(&ReadEnd::Complete); v.control(&ReadEnd::Complete); v.end();
    }),
    row("a file in pieces of no bytes", Call::Fetch, At::Read, Lost, |v| {
        v.control(&Ok::<_, GuestError>(entry(b"well", 4))); v.claim(FILE, 0, b"");
    }),
    row("a file of another name, outside", Call::Fetch, At::Read, Lost, |v| {
        v.control(&Ok::<_, GuestError>(entry(b"../../etc/shadow", 4)));
    }),
    row("a file that breaks off", Call::Fetch, At::Read, Lost, |v| {
        v.control(&Ok::<_, GuestError>(entry(b"well", 4))); v.piece(FILE, b"fo"); v.end();
    }),
    row("output instead of a file", Call::Fetch, At::Read, Lost, |v| v.piece(STDOUT, WORDS)),
    row("an exit instead of a file", Call::Fetch, At::Read, Lost, |_| std::process::exit(0)),
    row("an answer before the file was sent", Call::Upload, At::Write, Lost, |v| {
        v.control(&Ok::<_, GuestError>(entry(b"well", 4))); v.control(&Ok::<_, GuestError>(entry(b"well", 4))); v.end();
    }),
    row("a written file that lies elsewhere", Call::Upload, At::Write, Lost, |v| {
        v.control(&Ok::<_, GuestError>(entry(b"/etc/passwd", 4))); v.end();
    }),
    // Listings.
    list("a name that leads out", Lost, |v| one_name(v, b"a/../../b")),
    list("an absolute name", Lost, |v| one_name(v, b"/etc/passwd")),
    list("a name of nothing", Lost, |v| one_name(v, b"")),
    list("a name with NUL", Lost, |v| one_name(v, b"a\0b")),
    list("a name of 5000 bytes", Lost, |v| one_name(v, &[b'a'; 5000])),
    list("a name of 16 KiB", Lost, |v| one_name(v, &[b'a'; 16 * 1024 - 100])),
    list("a path of 2000 folders", Lost, |v| one_name(v, b"a/".repeat(2000).strip_suffix(b"/").unwrap())),
    list("a name that is no text", Status("listed"), |v| one_name(v, b"\xff\xfe\x80")),
    list("a name of words", Status("listed"), |v| one_name(v, WORDS)),
    list("the same name a hundred times", Status("listed"), |v| {
        let names = listed(b"same").repeat(100);
        v.on_stream(&names);
        v.control(&FromList::End { omitted: u64::MAX }); v.end();
    }),
    list("names that differ in case alone", Status("listed"), |v| {
        let names = [listed(b"NAME"), listed(b"name"), listed(b"Name")].concat();
        v.on_stream(&names);
        v.control(&FromList::End { omitted: 0 }); v.end();
    }),
    list("a million entries", Lost, |v| {
        let stream = v.stream;
        million(v, |at| data(0, stream, &listed(format!("f{at}").as_bytes())));
    }),
    list("a listing without end", Lost, |v| {
        let stream = v.stream;
        let names = data(0, stream, &listed(&[b'n'; 4000]).repeat(10));
        v.forever(&names)
    }),
    list("a failure behind entries", Lost, |v| {
        let names = listed(b"a");
        v.on_stream(&names);
        v.control(&FromList::Failed(GuestError::NotFound)); v.end();
    }),
    list("an end and then an entry", Lost, |v| {
        v.control(&FromList::End { omitted: 0 });
        let names = listed(b"a");
        v.on_stream(&names);
    }),
    list("an exit instead of a listing", Lost, |_| std::process::exit(0)),
    // Silence where the server waits for a file or a listing.
    row("no answer to a file", Call::Upload, At::Write, LostLate, |_| {}),
    row("no answer for a file", Call::Fetch, At::Read, LostLate, |_| {}),
    list("no listing", LostLate, |_| {}),
    list("half a listing and then silence", LostLate, |v| { let names = listed(b"a"); v.on_stream(&names); }),
    row("half a file and then silence", Call::Fetch, At::Read, LostLate, |v| {
        v.control(&Ok::<_, GuestError>(entry(b"well", 4))); v.piece(FILE, b"we");
    }),
    list("a listing that dribbles", LostLate, |v| {
        for at in 0.. {
            let names = listed(format!("f{at}").as_bytes());
            v.on_stream(&names);
            std::thread::sleep(std::time::Duration::from_secs(2));
        }
    }),
    // Packages before a program.
    install("an installer that never starts", LostLate, |_| {}),
    install("an installer that never ends", Status("timed_out"), Voice::started),
    install("an installer's output before its beginning", Lost, |v| { v.piece(STDOUT, WORDS); v.started(); v.exited(); }),
    install("an installer's output for ever", LostOrLate, |v| {
        v.started();
        let line = [&[STDOUT], &1024_u32.to_be_bytes()[..], &[b'x'; 1024]].concat();
        loop { v.on_stream(&line.repeat(16)); }
    }),
    install("an installer that leaves files", Lost, |v| { v.started(); v.control(&FromRun::NewFile(entry(b"a", 1))); v.exited(); }),
    install("an installer that ends twice", Lost, |v| { v.started(); v.control(&FromRun::Exited(exit())); v.exited(); }),
    install("an installer that fails with words", Status("exited"), |v| {
        v.started(); v.piece(STDERR, WORDS); v.control(&FromRun::Exited(Exit { status: ExitStatus::Code(1), ..exit() })); v.end();
    }),
    install("an installer that nobody asked to be killed", Lost, |v| ended(v, killed())),
    install("an installer by an interpreter that nobody asked for", Lost, |v| { v.control(&FromRun::Started { warm: true }); v.exited(); }),
    install("an exit in the place of an installer", Lost, |_| std::process::exit(0)),
    install("requests of an installer that are no requests", Status("exited"), |v| {
        v.started();
        for at in 0..32 { v.data(SYN, OWN + 2 * at, WORDS); v.mux(DATA, FIN, OWN + 2 * at, 0); }
        v.exited();
    }),
    install("more connections of an installer than there may be", Lost, |v| { v.started(); for at in 0..40 { v.data(SYN, OWN + 2 * at, b"G"); } }),
    // Nobody listens there yet: it is as if it had not been said.
    install("the program's beginning behind the installer's end", Status("exited"), |v| {
        v.started(); v.exited();
        // The stream that the server will open next.
        v.stream += 2; v.started();
    }),
    // What comes after an installer that did nothing is a run like any other, and its way out is shut.
    row("an installer that did nothing", Call::Install, At::Read, Status("exited"), |_| {}),
    row("a connection after the installer's end", Call::Install, At::Run, Status("exited"), |v| { v.started(); v.data(SYN, OWN, b"GET "); v.exited(); }),
    row("connections after the installer's end", Call::Install, At::Run, Lost, |v| { v.started(); for at in 0..100 { v.data(SYN, OWN + 2 * at, b"GET "); } }),
    // A program that is to be killed.
    kill("a kill that is not heeded", |_| {}),
    kill("a kill that is agreed to and not done", Voice::end),
    kill("a kill that is answered twice", |v| { v.end(); v.end(); }),
    kill("words for an answer to a kill", |v| v.piece(STDOUT, WORDS)),
    kill("a message for an answer to a kill", |v| v.control(&FromHello::Pong(1))),
    kill("a reset for an answer to a kill", |v| { let stream = v.stream; v.mux(DATA, RST, stream, 0); }),
    kill("output for ever after a kill", |v| { v.end(); v.to_program(); loop { v.piece(STDOUT, &[b'x'; 1024]); } }),
    kill("an exit that did not occur", |v| { agreed(v, killed()); v.end(); }),
    kill("an exit that did not occur, and no end", |v| agreed(v, killed())),
    kill("an exit that did not occur, and output behind it", |v| { agreed(v, killed()); loop { v.piece(STDOUT, &[b'x'; 1024]); } }),
    kill("an exit of its own after a kill", |v| { agreed(v, exit()); v.end(); }),
    kill("a deadline after a kill", |v| { agreed(v, Exit { ended_by: EndedBy::Deadline, ..exit() }); v.end(); }),
    kill("files after a kill, outside", |v| { v.end(); v.to_program(); v.control(&FromRun::NewFile(entry(b"../a", 1))); }),
    kill("begun once more after a kill", |v| { v.end(); v.to_program(); v.started(); }),
    kill("an exit of the guest's at a kill", |_| std::process::exit(0)),
    kill("it stops itself at a kill", |_| stop_oneself()),
    row("a kill that is not heeded, in a session", Call::FloodInSession, At::Kill, Status("output_limit, and the session is lost"), |_| {}),
    row("an exit that did not occur, in a session", Call::FloodInSession, At::Kill, Status("output_limit, and the session lives"), |v| { agreed(v, killed()); v.end(); }),
    row("a kill that is not heeded, of a cancelled run", Call::Cancel, At::Kill, Status("cancelled"), |_| {}),
    row("output for ever after a kill, of a cancelled run", Call::Cancel, At::Kill, Status("cancelled"), |v| {
        v.end(); v.to_program(); loop { v.piece(STDOUT, &[b'x'; 1024]); }
    }),
    // In a session, and for so long that the server asks whether it is still there.
    row("output before the beginning, in a session", Call::Session, At::Run, Lost, |v| v.piece(STDOUT, WORDS)),
    row("no end, in a session", Call::Session, At::Run, Status("timed_out"), Voice::started),
    row("a pong of another number", Call::Long, At::Run, Lost, |v| {
        v.started(); v.pong = |v, number| v.control(&FromHello::Pong(number + 1));
    }),
    row("a pong twice", Call::Long, At::Run, Lost, |v| {
        v.started(); v.pong = |v, number| { v.control(&FromHello::Pong(number)); v.control(&FromHello::Pong(number)); };
    }),
    row("no pong", Call::Long, At::Run, Lost, |v| { v.started(); v.pong = |_, _| {}; }),
    // In the pool. What a call gets of it depends on what died when; the test says what must hold.
    row("an interpreter that never waits", Call::Pool, At::Warm, Status("exited"), |_| {}),
    row("an interpreter of bytes", Call::Pool, At::Warm, Status("exited"), |v| v.piece(STDOUT, WORDS)),
    row("an interpreter that waits twice", Call::Pool, At::Warm, Status("exited"), |v| {
        v.control(&FromWarm::Ready); v.control(&FromWarm::Ready); v.end();
    }),
    row("an exit while it waits", Call::Pool, At::Warm, Status("exited"), |_| std::process::exit(0)),
    row("pings while it waits", Call::Pool, At::Warm, Status("exited"), |v| v.forever(&header(PING, SYN, 0, 1))),
    // The multiplexer, while a program is said to run.
    run("a million streams", Lost, |v| { v.started(); million(v, |at| header(DATA, SYN, 2 + 2 * at, 0).to_vec()); }),
    run("a million streams, each cut at once", Lost, |v| { v.started(); million(v, |at| {
        [header(DATA, SYN, 2 + 2 * at, 0), header(DATA, RST, 2 + 2 * at, 0)].concat()
    }); }),
    run("a stream of the server's number", Lost, |v| { v.started(); v.data(SYN, 2_000_001, WORDS); }),
    run("a stream with number 0", Lost, |v| { v.started(); v.data(SYN, 0, WORDS); }),
    run("windows that overflow", Lost, |v| {
        v.started(); let stream = v.stream;
        v.mux(WINDOW, 0, stream, u32::MAX); v.mux(WINDOW, 0, stream, u32::MAX);
    }),
    run("a window of nothing, for ever", LostOrLate, |v| { v.started(); let stream = v.stream; v.forever(&header(WINDOW, 0, stream, 0)) }),
    run("pings for ever", Lost, |v| { v.started(); v.forever(&header(PING, SYN, 0, 1)) }),
    run("a pong that nobody asked for", Lost, |v| { v.started(); v.mux(PING, ACK, 0, 4711); }),
    run("empty frames for ever", Lost, |v| { v.started(); let stream = v.stream; v.forever(&header(DATA, 0, stream, 0)) }),
    run("empty frames with an agreement, for ever", Lost, |v| { v.started(); let stream = v.stream; v.forever(&header(DATA, ACK, stream, 0)) }),
    run("bytes for streams that there never were", Lost, |v| { v.started(); v.forever(&data(0, 4002, b"x")) }),
    run("ends for streams that there never were", Lost, |v| { v.started(); v.forever(&header(DATA, FIN, 4002, 0)) }),
    run("a frame of the multiplexer of 4 GiB", Lost, |v| { v.started(); let stream = v.stream; v.mux(DATA, 0, stream, u32::MAX); }),
    run("a frame of the multiplexer of 1 MiB", Lost, |v| { v.started(); let stream = v.stream; v.mux(DATA, 0, stream, 1 << 20); }),
    run("more than the window", Lost, |v| { v.started(); let stream = v.stream; for _ in 0..40 { v.data(0, stream, &[9; 64 * 1024]); } }),
    run("half a header of the multiplexer and then silence", Status("timed_out"), |v| { v.started(); v.raw(&[0, 0, 0, 0]); park() }),
    run("garbage on the multiplexer", Lost, |v| { v.started(); v.raw(&WORDS.repeat(100)); }),
    run("zeros on the multiplexer", Lost, |v| { v.started(); v.forever(&[0; 12]) }),
    run("a farewell", Lost, |v| { v.started(); v.mux(BYE, 0, 0, 0); }),
    run("a reset of the program's stream", Lost, |v| { v.started(); let stream = v.stream; v.mux(DATA, RST, stream, 0); }),
    run("output byte by byte, as fast as it can", LostOrLate, |v| {
        v.started();
        let stream = v.stream;
        let tiny: Vec<u8> = [STDOUT, 0, 0, 0, 1, b'x'].iter().flat_map(|byte| data(0, stream, &[*byte])).collect();
        v.forever(&tiny)
    }),
    // The way out.
    row("a way out that cannot be opened", Call::Egress, At::Egress, NoStart, |v| v.control(&FromEgress::Failed(GuestError::Busy))),
    // Nothing has begun: the call says that the sandbox is lost, and there is no run.
    row("a way out of bytes", Call::Egress, At::Egress, NoStart, |v| v.piece(STDOUT, WORDS)),
    row("an exit at the way out", Call::Egress, At::Egress, NoStart, |_| std::process::exit(0)),
    row("a way out that is opened twice", Call::Egress, At::Egress, Lost, |v| { v.opened(); v.opened(); }),
    row("a way out that ends at once", Call::Egress, At::Egress, Lost, |v| { v.opened(); v.end(); }),
    row("a stream without a door", Call::Run, At::Run, Lost, |v| { v.started(); v.data(SYN, OWN, b"GET http://plain.lab.test/ HTTP/1.1\r\n"); }),
    egress("more connections than there may be", Lost, |v| { v.started(); for at in 0..40 { v.data(SYN, OWN + 2 * at, b"G"); } }),
    egress("a million connections, each cut at once", Lost, |v| { v.started(); million(v, |at| {
        [&header(DATA, SYN, OWN + 2 * at, 0)[..], &header(DATA, RST, OWN + 2 * at, 0)].concat()
    }); }),
    egress("the same connection twice", Lost, |v| { v.started(); v.data(SYN, OWN, b"G"); v.data(SYN, OWN, b"G"); }),
    egress("connections full of tiny frames that nobody reads", LostOrLate, |v| {
        v.started();
        // A server that never answers: nothing is read behind the request.
        let server = v.variable("SERVER");
        let ask = format!("GET http://{server}/ HTTP/1.1\r\nHost: {server}\r\n\r\n");
        for at in 0..32 { v.data(SYN, OWN + 2 * at, ask.as_bytes()); }
        let round: Vec<u8> = (0..32).flat_map(|at| data(0, OWN + 2 * at, b"x").repeat(64)).collect();
        // Beyond the windows in the end.
        v.forever(&round)
    }),
    egress("heads that dribble", Status("timed_out"), |v| {
        v.started();
        for at in 0..32 { v.data(SYN, OWN + 2 * at, b"GET "); }
        loop {
            for at in 0..32 { v.data(0, OWN + 2 * at, b"x"); }
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
    }),
    egress("everything at once on every stream", LostOrLate, |v| {
        v.started();
        let stream = v.stream;
        let mut all = Vec::new();
        for at in 0..32 { v.data(SYN, OWN + 2 * at, WORDS); all.extend(data(0, OWN + 2 * at, WORDS)); }
        all.extend(data(0, stream, &[&[STDOUT, 0, 0, 0, 1][..], b"x"].concat()));
        all.extend(data(0, 1, WORDS));
        all.extend(header(PING, SYN, 0, 1));
        all.extend(header(WINDOW, 0, stream, 1));
        v.forever(&all)
    }),
];
