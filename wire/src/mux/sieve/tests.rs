use futures_util::FutureExt as _;
use futures_util::io::{AsyncReadExt as _, AsyncWriteExt as _};
use futures_util::task::noop_waker;
use proptest::prelude::*;

use super::*;
use crate::limits::{MAX_DATA, MAX_TUNNELS, MAX_UNREAD};
use crate::mux::tests::{End, pipe};
use crate::mux::{Driver, Gate, Incoming, MuxError, Side, Stream, connect};

const WINDOW: usize = 256 * 1024;
/// A stream that the guest opens.
const OURS: u32 = 2;

fn frame(tag: u8, flags: u16, stream: u32, length: u32) -> Vec<u8> {
    let mut bytes = vec![0, tag];
    bytes.extend_from_slice(&flags.to_be_bytes());
    bytes.extend_from_slice(&stream.to_be_bytes());
    bytes.extend_from_slice(&length.to_be_bytes());
    bytes
}

fn data(flags: u16, stream: u32, body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(body.len()).unwrap();
    [frame(DATA, flags, stream, length), body.to_vec()].concat()
}

/// A server with its gate open, and a guest that is nothing but bytes.
struct World {
    server: Driver<End>,
    guest: End,
    incoming: Incoming,
    gate: Gate,
    opener: crate::mux::Opener,
}

impl World {
    fn new() -> Self {
        let (near, guest) = pipe();
        let (opener, gate, server) = connect(near, Side::Server);
        Self {
            server,
            guest,
            incoming: gate.open().unwrap(),
            gate,
            opener,
        }
    }

    /// The guest says this; how the server took it.
    fn say(&mut self, bytes: &[u8]) -> Poll<Result<(), MuxError>> {
        self.guest.write_all(bytes).now_or_never().unwrap().unwrap();
        self.poll()
    }

    fn poll(&mut self) -> Poll<Result<(), MuxError>> {
        let waker = noop_waker();
        Pin::new(&mut self.server).poll(&mut Context::from_waker(&waker))
    }

    /// A stream of the guest's.
    fn open(&mut self) -> Stream {
        assert!(self.say(&frame(DATA, SYN, OURS, 0)).is_pending());
        self.incoming.next().now_or_never().unwrap().unwrap()
    }

    fn is_broken_by(&mut self, bytes: &[u8]) -> bool {
        matches!(self.say(bytes), Poll::Ready(Err(MuxError::Broken(_))))
    }

    /// Everything of the stream that there is, and whether it has ended.
    fn read(&mut self, stream: &mut Stream) -> (Vec<u8>, bool) {
        let mut whole = Vec::new();
        let mut buffer = [0; 1000];
        loop {
            match stream.read(&mut buffer).now_or_never() {
                Some(Ok(0)) => return (whole, true),
                Some(count) => whole.extend_from_slice(&buffer[..count.unwrap()]),
                None => {
                    let before = self.server.backlogs.frames();
                    assert!(self.poll().is_pending());
                    if self.server.backlogs.frames() == before {
                        return (whole, false);
                    }
                }
            }
        }
    }
}

#[test]
fn bytes_that_nobody_reads_cost_what_they_are_and_come_out_whole() {
    let mut world = World::new();
    let mut stream = world.open();
    let bytes: Vec<u8> = (0..=250).cycle().take(WINDOW).collect();
    for byte in &bytes {
        let _ = world
            .guest
            .write_all(&data(0, OURS, &[*byte]))
            .now_or_never();
    }
    assert!(world.say(&frame(DATA, FIN, OURS, 0)).is_pending());
    assert_eq!(world.server.backlogs.frames(), MAX_UNREAD);
    let held = world.server.backlogs.held();
    assert!((WINDOW - MAX_UNREAD..2 * WINDOW).contains(&held), "{held}");
    let (whole, ended) = world.read(&mut stream);
    assert!(whole == bytes && ended, "{} bytes, {ended}", whole.len());
    assert_eq!(world.server.backlogs.held(), 0);
}

#[test]
fn what_is_held_back_goes_with_its_stream_and_what_comes_later_too() {
    let mut world = World::new();
    let stream = world.open();
    let tiny = data(0, OURS, b"x").repeat(10 * MAX_UNREAD);
    assert!(world.say(&tiny).is_pending());
    assert!(world.server.backlogs.held() > 0);
    drop(stream);
    assert_eq!(world.server.backlogs.held(), 0);
    assert!(world.say(&tiny).is_pending());
    assert_eq!(
        (world.server.backlogs.held(), world.server.backlogs.frames()),
        (0, 0)
    );
    // The connection still serves.
    assert!(world.say(&data(SYN, OURS + 2, b"next")).is_pending());
    let mut next = world.incoming.next().now_or_never().unwrap().unwrap();
    assert_eq!(world.read(&mut next), (b"next".to_vec(), false));
}

#[test]
fn a_reset_lets_go_of_what_is_held_back() {
    let mut world = World::new();
    let mut stream = world.open();
    let tiny = data(0, OURS, b"x").repeat(10 * MAX_UNREAD);
    assert!(world.say(&tiny).is_pending());
    assert!(world.say(&frame(DATA, RST, OURS, 0)).is_pending());
    assert_eq!(world.server.backlogs.held(), 0);
    let (whole, ended) = world.read(&mut stream);
    assert_eq!((whole.len(), ended), (MAX_UNREAD, true));
}

#[test]
fn a_reader_that_waits_is_woken_by_what_was_held_back() {
    let mut world = World::new();
    let mut stream = world.open();
    assert!(
        world
            .say(&data(0, OURS, b"x").repeat(MAX_UNREAD + 1))
            .is_pending()
    );
    let (waker, woken) = noting();
    let mut context = Context::from_waker(&waker);
    assert!(Pin::new(&mut world.server).poll(&mut context).is_pending());
    let mut buffer = [0; 2 * MAX_UNREAD];
    let count = stream.read(&mut buffer).now_or_never().unwrap().unwrap();
    assert_eq!(count, MAX_UNREAD);
    assert!(woken.load(std::sync::atomic::Ordering::SeqCst));
}

/// A waker that notes whether it was used.
fn noting() -> (
    std::task::Waker,
    std::sync::Arc<std::sync::atomic::AtomicBool>,
) {
    #[derive(Debug, Default)]
    struct Flag(std::sync::Arc<std::sync::atomic::AtomicBool>);
    impl std::task::Wake for Flag {
        fn wake(self: std::sync::Arc<Self>) {
            self.0.store(true, std::sync::atomic::Ordering::SeqCst);
        }
    }
    let woken = std::sync::Arc::default();
    let flag = Flag(std::sync::Arc::clone(&woken));
    (std::sync::Arc::new(flag).into(), woken)
}

#[test]
fn what_breaks_the_multiplexer_s_rules_ends_the_connection() {
    let large = vec![0; SPLIT + 1];
    let full = vec![0; MAX_DATA];
    let many = 2 * IDLE_FRAMES as usize;
    let lies: [(&str, Vec<u8>); 21] = [
        ("another version", [vec![1], vec![0; 11]].concat()),
        ("an unknown tag", frame(4, 0, OURS, 0)),
        ("unknown flags", frame(DATA, 16, OURS, 0)),
        ("a frame that is too large", data(0, OURS, &large)),
        ("a length without its bytes", frame(DATA, 0, OURS, u32::MAX)),
        ("more than the window", data(0, OURS, &full).repeat(5)),
        // Held back, so that the multiplexer never sees how much it is.
        (
            "more than the window, in tiny frames",
            data(0, OURS, b"xy").repeat(WINDOW / 2 + 1),
        ),
        ("a stream opened twice", data(SYN, OURS, b"x")),
        ("a stream of the server's", data(SYN, 3, b"x")),
        ("a stream with number 0", data(SYN, 0, b"x")),
        (
            "bytes after the end",
            [data(FIN, OURS, b"x"), data(0, OURS, b"y")].concat(),
        ),
        (
            "bytes after a reset",
            [frame(DATA, RST, OURS, 0), data(0, OURS, b"y")].concat(),
        ),
        ("a reset with bytes", data(RST, OURS, b"x")),
        (
            "an end in a window update",
            frame(WINDOW_UPDATE, FIN, OURS, 0),
        ),
        (
            "windows that overflow",
            frame(WINDOW_UPDATE, 0, OURS, u32::MAX).repeat(2),
        ),
        ("a pong for no ping", frame(PING, ACK, 0, 77)),
        (
            "pings without end",
            frame(PING, SYN, 0, 1).repeat(8 * (IDLE_FRAMES / PING_COST) as usize),
        ),
        (
            "empty frames without end",
            frame(DATA, ACK, OURS, 0).repeat(many),
        ),
        (
            "resets of a stream without end",
            frame(DATA, RST, OURS, 0).repeat(many),
        ),
        (
            "updates that reset a stream without end",
            frame(WINDOW_UPDATE, RST, OURS, 0).repeat(many),
        ),
        (
            "updates that reset what there is not",
            frame(WINDOW_UPDATE, RST, OURS + 2, 0).repeat(many),
        ),
    ];
    for (name, bytes) in lies {
        let mut world = World::new();
        let _stream = world.open();
        assert!(world.is_broken_by(&bytes), "{name}");
    }
}

#[test]
fn a_guest_that_says_goodbye_ends_the_connection() {
    let mut world = World::new();
    assert!(world.say(&frame(GO_AWAY, 0, 0, 0)).is_ready());
}

#[test]
fn frames_for_nobody_are_borne_up_to_a_bound() {
    let mut world = World::new();
    let some = frame(WINDOW_UPDATE, 0, 40, 1 << 20).repeat(1000);
    assert!(world.say(&some).is_pending());
    assert!(world.say(&data(0, 40, b"x").repeat(1000)).is_pending());
    assert!(world.is_broken_by(&data(0, 40, b"x").repeat(2 * IDLE_FRAMES as usize)));
}

#[test]
fn streams_that_are_opened_and_reset_at_once_are_borne_up_to_a_bound() {
    let mut world = World::new();
    let ids = || (OURS..).step_by(2).take(MAX_TUNNELS);
    let frames = |tag, flags| ids().flat_map(move |id| frame(tag, flags, id, 0));
    let round: Vec<u8> = frames(DATA, SYN)
        .chain(frames(WINDOW_UPDATE, RST))
        .collect();
    let mut rounds = 0..2 * IDLE_FRAMES as usize / MAX_TUNNELS;
    assert!(rounds.any(|_| {
        let broken = world.is_broken_by(&round);
        while let Some(Some(stream)) = world.incoming.next().now_or_never() {
            drop(stream);
        }
        broken
    }));
}

#[test]
fn an_update_is_due_once_for_half_a_window_that_was_sent() {
    let backlogs = Backlogs::default();
    let _reader = backlogs.reader(OURS);
    let half = u32::try_from(LEAST_CREDIT).unwrap();
    assert!(!backlogs.earns_credit(OURS), "nothing was sent");
    backlogs.sent(OURS, half - 1);
    assert!(!backlogs.earns_credit(OURS));
    backlogs.sent(OURS, half + 1);
    assert!(backlogs.earns_credit(OURS) && backlogs.earns_credit(OURS));
    assert!(!backlogs.earns_credit(OURS));
    backlogs.sent(OURS + 2, half);
    assert!(!backlogs.earns_credit(OURS + 2), "there is no such stream");
}

#[test]
fn an_honest_side_that_has_much_to_say_is_no_breach() {
    // What an honest side sends in abundance: streams, ends, updates of half a window.
    let mut world = World::new();
    let mut round = || {
        for stream in (2..).step_by(2).take(50) {
            let id = stream;
            assert!(world.say(&data(SYN, id, b"x")).is_pending());
            let mut ours = world.incoming.next().now_or_never().unwrap().unwrap();
            assert_eq!(world.read(&mut ours), (b"x".to_vec(), false));
            assert!(world.say(&data(FIN, id, &vec![7; MAX_DATA])).is_pending());
            assert_eq!(world.read(&mut ours), (vec![7; MAX_DATA], true));
        }
    };
    round();
    drop(world.gate);
    drop(world.opener);
    assert_eq!(MAX_TUNNELS, 32, "streams are bounded by the gate");
}

proptest! {
    #[test]
    fn any_frames_in_any_order_of_reading_give_the_same_bytes(
        steps in proptest::collection::vec(
            prop_oneof![
                8 => (1_usize..3, 1_usize..400).prop_map(Step::Send),
                2 => (500_usize..3000, 1_usize..3).prop_map(Step::Send),
                3 => (1_usize..5000).prop_map(Step::Read),
            ],
            0..40,
        ),
        cut in 1_usize..50,
    ) {
        let mut world = World::new();
        let mut stream = world.open();
        let (mut sent, mut got) = (Vec::new(), Vec::new());
        let mut room = WINDOW;
        for step in steps {
            match step {
                Step::Send((size, count)) => {
                    for _ in 0..count {
                        if room < size {
                            break;
                        }
                        room -= size;
                        let body: Vec<u8> = (0..=250).cycle().skip(sent.len() % 251).take(size).collect();
                        sent.extend_from_slice(&body);
                        // Frames come in whatever parts.
                        for part in data(0, OURS, &body).chunks(cut) {
                            prop_assert!(world.say(part).is_pending());
                        }
                    }
                }
                Step::Read(most) => {
                    let mut buffer = vec![0; most];
                    if let Some(count) = stream.read(&mut buffer).now_or_never() {
                        got.extend_from_slice(&buffer[..count.unwrap()]);
                    }
                }
            }
            prop_assert!(world.server.backlogs.held() <= 2 * WINDOW);
        }
        prop_assert!(world.say(&frame(DATA, FIN, OURS, 0)).is_pending());
        let (rest, ended) = world.read(&mut stream);
        got.extend_from_slice(&rest);
        prop_assert!(ended);
        prop_assert!(got == sent, "{} of {} bytes", got.len(), sent.len());
    }
}

#[derive(Clone, Copy, Debug)]
enum Step {
    /// Frames of this size, this many.
    Send((usize, usize)),
    /// So many bytes are read at most.
    Read(usize),
}
