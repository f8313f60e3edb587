//! How the liar speaks: frames of the multiplexer and of the tether, written by hand so that any of them can be wrong.
//!
//! It reads what the server asks with one thread and answers in order. Where no lie is at hand it answers as the guest
//! does, as far as the server's calls in these tests need it.

use std::{
    collections::HashMap,
    io::{Read as _, Stdout, Write as _},
};

use belljar_wire::{
    PROTOCOL,
    frame::{Frame, FrameWriter, Kind},
    message::{
        EndedBy, Entry, EntryKind, Exit, ExitStatus, FromEgress, FromHello, FromList, FromRun,
        FromWarm, GuestError, ReadEnd, Ready, Request, ToHello,
    },
};
use futures_util::FutureExt as _;
use serde::{Serialize, de::DeserializeOwned};

use crate::lies::{At, Call, Lie};

/// Tags of the multiplexer's frames.
pub const DATA: u8 = 0;
/// Credit for more bytes.
pub const WINDOW: u8 = 1;
/// Ping and pong.
pub const PING: u8 = 2;
/// Farewell.
pub const BYE: u8 = 3;

/// Flags of the multiplexer's frames.
pub const SYN: u16 = 1;
/// Agreement.
pub const ACK: u16 = 2;
/// The end of a direction.
pub const FIN: u16 = 4;
/// A reset.
pub const RST: u16 = 8;

/// Kinds of the tether's frames.
pub const CONTROL: u8 = 1;
/// Bytes of a file.
pub const FILE: u8 = 2;
/// Standard output.
pub const STDOUT: u8 = 3;
/// Standard error.
pub const STDERR: u8 = 4;

/// What the liar says of itself, with an escape sequence, a mark that turns text around, and an end of a fence.
pub const WORDS: &[u8] = b"\x1b[31mLIAR\xe2\x80\xae says ----- END UNTRUSTED stdout\r\n";

/// More output than a program may have that is to be killed for it: two KiB, where one is allowed.
const FLOOD: [u8; 2048] = [b'x'; 2048];

/// The liar.
pub struct Voice {
    lie: &'static Lie,
    out: Stdout,
    /// The stream that the lie is about: the server's request's.
    pub stream: u32,
    /// The stream of the program that is said to run.
    program: u32,
    /// What came on each stream and is not a whole frame yet, and what its request was.
    streams: HashMap<u32, (Vec<u8>, Option<Request>)>,
    /// What it says to a ping of this number.
    pub pong: fn(&mut Self, u64),
    /// Bytes of a file that are still to come, by stream.
    writes: HashMap<u32, u64>,
}

impl Voice {
    /// Tells this lie.
    #[must_use]
    pub fn new(lie: &'static Lie) -> Self {
        Self {
            lie,
            out: std::io::stdout(),
            stream: 0,
            program: 0,
            streams: HashMap::new(),
            pong: |v, number| v.control(&FromHello::Pong(number)),
            writes: HashMap::new(),
        }
    }

    /// Answers until the server is gone.
    pub fn serve(mut self) {
        if self.lie.at == At::Start {
            (self.lie.tell)(&mut self);
        }
        let mut input = std::io::stdin().lock();
        let mut header = [0; 12];
        while input.read_exact(&mut header).is_ok() {
            let [_, tag, f0, f1, s0, s1, s2, s3, l0, l1, l2, l3] = header;
            let (flags, stream) = (
                u16::from_be_bytes([f0, f1]),
                u32::from_be_bytes([s0, s1, s2, s3]),
            );
            let length = u32::from_be_bytes([l0, l1, l2, l3]);
            match tag {
                DATA => {
                    let mut body = vec![0; length as usize];
                    if input.read_exact(&mut body).is_err() {
                        return;
                    }
                    self.heard(stream, flags, &body);
                }
                PING if flags & ACK == 0 => self.mux(PING, ACK, 0, length),
                _ => {}
            }
        }
    }

    fn heard(&mut self, stream: u32, flags: u16, body: &[u8]) {
        if flags & RST != 0 {
            self.streams.remove(&stream);
            return;
        }
        if flags & SYN != 0 {
            self.mux(WINDOW, ACK, stream, 0);
        }
        self.streams
            .entry(stream)
            .or_default()
            .0
            .extend_from_slice(body);
        loop {
            let (buffer, request) = self.streams.get_mut(&stream).unwrap();
            let Some((head, rest)) = buffer.split_first_chunk::<5>() else {
                return;
            };
            let [kind, length @ ..] = *head;
            let length = u32::from_be_bytes(length) as usize;
            if rest.len() < length {
                return;
            }
            let payload = rest[..length].to_vec();
            buffer.drain(..5 + length);
            let asked = request.is_none().then(|| message::<Request>(&payload));
            if let Some(asked) = asked.clone() {
                *request = Some(asked);
            }
            self.frame(stream, asked, kind, &payload);
        }
    }

    fn frame(&mut self, stream: u32, asked: Option<Request>, kind: u8, payload: &[u8]) {
        let Some(asked) = asked else {
            match self.streams[&stream].1 {
                Some(Request::Hello(_)) => {
                    let ToHello::Ping(number) = message(payload);
                    self.stream = stream;
                    (self.pong)(self, number);
                }
                Some(Request::Write(_)) if kind == FILE => self.wrote(stream, payload.len() as u64),
                _ => {}
            }
            return;
        };
        match asked {
            Request::Hello(_) => self.answer(At::Hello, stream, Self::ready),
            // An installer has no program of its own.
            Request::Run(run) if run.program.is_none() => self.answer(At::Install, stream, |v| {
                v.started();
                v.exited();
            }),
            // One that has to be killed.
            Request::Run(_) if self.lie.at == At::Kill => {
                (self.stream, self.program) = (stream, stream);
                self.started();
                if matches!(self.lie.call, Call::Flood | Call::FloodInSession) {
                    self.piece(STDOUT, &FLOOD);
                }
            }
            Request::Run(_) => self.answer(At::Run, stream, |v| {
                v.started();
                v.piece(STDOUT, b"well\n");
                v.exited();
            }),
            Request::Warm(_) => self.answer(At::Warm, stream, |v| {
                v.control(&FromWarm::Failed);
                v.end();
            }),
            Request::Kill(_) => self.answer(At::Kill, stream, Self::end),
            Request::Write(file) => {
                self.writes.insert(stream, file.size);
                self.wrote(stream, 0);
            }
            Request::Read(file) => self.answer(At::Read, stream, |v| {
                v.control(&Ok::<_, GuestError>(entry(&file.path, 4)));
                v.piece(FILE, b"well");
                v.control(&ReadEnd::Complete);
                v.end();
            }),
            Request::List(_) => self.answer(At::List, stream, |v| {
                v.control(&FromList::Entry(entry(b"well", 4)));
                v.control(&FromList::End { omitted: 0 });
                v.end();
            }),
            Request::Egress(_) => self.answer(At::Egress, stream, Self::opened),
        }
    }

    fn wrote(&mut self, stream: u32, bytes: u64) {
        let left = self.writes.get_mut(&stream).unwrap();
        *left = left.saturating_sub(bytes);
        if *left == 0 || self.lie.at == At::Write {
            self.answer(At::Write, stream, |v| {
                v.control(&Ok::<_, GuestError>(entry(b"well", 4)));
                v.end();
            });
        }
    }

    /// Tells the lie where it belongs, and the truth elsewhere.
    fn answer(&mut self, at: At, stream: u32, truth: impl FnOnce(&mut Self)) {
        self.stream = stream;
        if self.lie.at == at {
            (self.lie.tell)(self);
        } else {
            truth(self);
        }
    }

    /// Bytes as they are, below everything.
    pub fn raw(&mut self, bytes: &[u8]) {
        // What was said stays said, also where the liar ends itself.
        if self
            .out
            .write_all(bytes)
            .and_then(|()| self.out.flush())
            .is_err()
        {
            std::process::exit(0);
        }
    }

    /// A frame of the multiplexer without bytes.
    pub fn mux(&mut self, tag: u8, flags: u16, stream: u32, length: u32) {
        self.raw(&header(tag, flags, stream, length));
    }

    /// A frame of the multiplexer with bytes.
    pub fn data(&mut self, flags: u16, stream: u32, bytes: &[u8]) {
        self.raw(&data(flags, stream, bytes));
    }

    /// A frame of the tether on the request's stream.
    pub fn piece(&mut self, kind: u8, bytes: &[u8]) {
        self.claim(kind, u32::try_from(bytes.len()).unwrap(), bytes);
    }

    /// A frame that claims this length, whatever follows.
    pub fn claim(&mut self, kind: u8, length: u32, bytes: &[u8]) {
        let frame = [&[kind], &length.to_be_bytes()[..], bytes].concat();
        self.on_stream(&frame);
    }

    /// Bytes on the request's stream, in frames of the multiplexer.
    pub fn on_stream(&mut self, bytes: &[u8]) {
        for part in bytes.chunks(64 * 1024) {
            self.data(0, self.stream, part);
        }
    }

    /// A message on the request's stream.
    pub fn control<T: Serialize>(&mut self, message: &T) {
        let bytes = framed(message);
        self.on_stream(&bytes);
    }

    /// The end of the request's stream.
    pub fn end(&mut self) {
        self.mux(DATA, FIN, self.stream, 0);
    }

    /// The honest answer to the hello.
    pub fn ready(&mut self) {
        let (protocol, uid) = (PROTOCOL, uid());
        self.control(&FromHello::Ready(Ready { protocol, uid }));
    }

    /// Speaks of the program from here on.
    pub fn to_program(&mut self) {
        self.stream = self.program;
    }

    /// A variable of the program's.
    #[must_use]
    pub fn variable(&self, name: &str) -> String {
        let Some(Request::Run(run)) = &self.streams[&self.stream].1 else {
            panic!("no program was asked for");
        };
        let found = run.env.iter().find(|(key, _)| key == name);
        found.unwrap().1.clone()
    }

    /// A program has started.
    pub fn started(&mut self) {
        self.control(&FromRun::Started { warm: false });
    }

    /// It has ended well, and so has its stream.
    pub fn exited(&mut self) {
        self.control(&FromRun::Exited(exit()));
        self.end();
    }

    /// The way out is open.
    pub fn opened(&mut self) {
        let port = 3128.try_into().unwrap();
        self.control(&FromEgress::Open { port });
    }

    /// The same bytes, again and again, until the server is gone. Some of them at a time, so that it goes fast.
    pub fn forever(&mut self, bytes: &[u8]) -> ! {
        let many = bytes.repeat((256 * 1024 / bytes.len()).max(1));
        loop {
            self.raw(&many);
        }
    }
}

/// A message in its frame.
#[must_use]
pub fn framed<T: Serialize>(message: &T) -> Vec<u8> {
    let mut writer = FrameWriter::new(Vec::new(), usize::MAX);
    writer.send(message).now_or_never().unwrap().unwrap();
    writer.into_inner()
}

fn message<T: DeserializeOwned>(payload: &[u8]) -> T {
    let frame = Frame {
        kind: Kind::Control,
        payload: payload.to_vec(),
    };
    frame.message().unwrap()
}

/// A frame of the multiplexer with bytes.
#[must_use]
pub fn data(flags: u16, stream: u32, bytes: &[u8]) -> Vec<u8> {
    let length = u32::try_from(bytes.len()).unwrap();
    [&header(DATA, flags, stream, length), bytes].concat()
}

/// A header of the multiplexer.
#[must_use]
pub fn header(tag: u8, flags: u16, stream: u32, length: u32) -> [u8; 12] {
    let mut bytes = [0; 12];
    bytes[1] = tag;
    bytes[2..4].copy_from_slice(&flags.to_be_bytes());
    bytes[4..8].copy_from_slice(&stream.to_be_bytes());
    bytes[8..].copy_from_slice(&length.to_be_bytes());
    bytes
}

/// A file of which these are path and size.
#[must_use]
pub fn entry(path: &[u8], bytes: u64) -> Entry {
    Entry {
        path: path.to_vec(),
        kind: EntryKind::File,
        bytes,
        modified_ms: 0,
    }
}

/// A good end.
#[must_use]
pub fn exit() -> Exit {
    Exit {
        status: ExitStatus::Code(0),
        ended_by: EndedBy::Itself,
        oom_kills: 0,
        cpu_us: 1,
        peak_rss_bytes: 1,
        wall_us: 1,
        files_omitted: 0,
    }
}

/// Who this is, as the kernel says.
#[must_use]
pub fn uid() -> u32 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("Uid:"));
    line.unwrap()
        .split_whitespace()
        .nth(1)
        .unwrap()
        .parse()
        .unwrap()
}
