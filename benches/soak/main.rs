//! Many clients at a time for many minutes, and afterwards a server that is as it was: `make soak`.
//!
//! One server over HTTP, eight clients that each go through every kind of call in turn ([`kinds`]): short and long runs,
//! floods, deadlines, calls that are taken back, sessions that are closed and sessions that are left to expire, uploads
//! and fetches, runs out of memory, runs with a way out. At rest before and after, the server's process is measured; while
//! it works, each minute. Then what must hold is judged ([`verdict`]), and the exit status says whether it does.
//!
//! It needs a Docker daemon on this machine and belljar's images, and a machine that does nothing else where its latencies
//! shall mean something. It removes what it made.
//!
//! | argument | |
//! |---|---|
//! | `--minutes N` | how long; 20, at least 3 |
//! | `--write` | the table goes into `SECURITY.md`, between its two marks |
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "the table is this program's output"
)]

mod client;
mod kinds;
mod process;
mod server;
mod table;
mod verdict;

use std::{
    fs,
    process::ExitCode,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use anyhow::Context as _;
use belljar_test_upstream::{Options, Upstream};

use client::Client;
use kinds::{Call, KINDS, Place};
use process::Sample;
use server::Server;
use table::Soak;

/// Clients at a time.
const CLIENTS: usize = 8;
/// Minutes unless an argument says otherwise.
const MINUTES: u64 = 20;
/// The fewest: one to warm up, one to compare with, and the last.
const LEAST_MINUTES: u64 = 3;
/// The part of the minutes that warms the server up, at least one of them: one in so many. The C library's allocator
/// keeps for each thread as much as its largest calls took, so memory is level only once every thread has had some of
/// every kind. A leak goes on after it.
const WARM_UP: u64 = 4;
const MINUTE: Duration = Duration::from_mins(1);
/// Between two samples while clients work.
const SAMPLE_EVERY: Duration = Duration::from_secs(1);
/// The document that the table goes into, and the marks that it goes between.
const DOCUMENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/SECURITY.md");
const MARKS: [&str; 2] = ["<!-- soak -->\n", "<!-- /soak -->"];

/// What the clients did so far. A thread that panicked leaves it as good as it was.
#[derive(Default)]
struct Shared {
    calls: Mutex<Vec<Call>>,
    /// Those that are to be silent for a while.
    paused: AtomicBool,
    ended: AtomicBool,
    /// Clients in the middle of a call.
    busy: AtomicUsize,
}

/// What was asked for.
struct Arguments {
    minutes: u64,
    write: bool,
}

impl Arguments {
    /// `None` where `cargo test --benches` only wants to see whether it starts.
    fn parse(mut arguments: impl Iterator<Item = String>) -> anyhow::Result<Option<Self>> {
        let mut asked = Self {
            minutes: MINUTES,
            write: false,
        };
        while let Some(argument) = arguments.next() {
            match argument.as_str() {
                // What cargo itself says.
                "--bench" => {}
                "--test" => return Ok(None),
                "--write" => asked.write = true,
                "--minutes" => {
                    let text = arguments.next().unwrap_or_default();
                    asked.minutes = text.parse().context("--minutes takes a whole number")?;
                }
                other => anyhow::bail!("{other} is no argument of this: --minutes N, --write"),
            }
        }
        anyhow::ensure!(
            asked.minutes >= LEAST_MINUTES,
            "--minutes is at least {LEAST_MINUTES}"
        );
        Ok(Some(asked))
    }
}

fn main() -> anyhow::Result<ExitCode> {
    let Some(Arguments { minutes, write }) = Arguments::parse(std::env::args().skip(1))? else {
        return Ok(ExitCode::SUCCESS);
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .context("start the upstream")?;
    let upstream = runtime.block_on(Upstream::start(Options::default()));
    let server = Server::start(upstream.plain().port())?;
    let soak = run(&server, upstream.plain().port(), minutes)?;
    let end = server.stop()?;
    let findings = verdict::judge(&soak, &end);
    let text = table::render(&soak, &end, &findings);
    println!("{text}");
    if write {
        update(&text)?;
    }
    let held = findings.iter().all(|finding| finding.held);
    Ok(if held {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// The minutes of warming up, a rest, the others, a rest.
fn run(server: &Server, port: u16, minutes: u64) -> anyhow::Result<Soak> {
    let shared = Arc::new(Shared::default());
    let place = Place { port };
    let clients: Vec<_> = (0..CLIENTS)
        .map(|number| {
            let client = Client::new(server);
            let shared = Arc::clone(&shared);
            thread::spawn(move || work(&client, place, number, &shared))
        })
        .collect();
    let mut soak = Soak {
        warm_up: (minutes / WARM_UP).max(1),
        ..Soak::default()
    };
    for minute in 1..=minutes {
        let began = Instant::now();
        let mut samples = Vec::new();
        while began.elapsed() < MINUTE {
            thread::sleep(SAMPLE_EVERY);
            samples.push(server.sample()?);
        }
        let calls = std::mem::take(&mut *lock(&shared.calls));
        soak.minutes.push(table::Minute::of(&samples, calls));
        eprintln!(
            "soak: {}",
            soak.minutes[soak.minutes.len() - 1].line(minute)
        );
        if minute == soak.warm_up {
            soak.warm = Some(rest(server, &shared)?);
            shared.paused.store(false, Ordering::SeqCst);
        }
    }
    shared.ended.store(true, Ordering::SeqCst);
    for client in clients {
        // A panic of a client is a fault of this program.
        if let Err(panic) = client.join() {
            std::panic::resume_unwind(panic);
        }
    }
    soak.after = Some(rest(server, &shared)?);
    let late = std::mem::take(&mut *lock(&shared.calls));
    if let Some(last) = soak.minutes.last_mut() {
        last.calls.extend(late);
    }
    Ok(soak)
}

/// Lets all calls come to their end, and measures the server once it has nothing to do.
fn rest(server: &Server, shared: &Shared) -> anyhow::Result<Sample> {
    shared.paused.store(true, Ordering::SeqCst);
    while shared.busy.load(Ordering::SeqCst) > 0 {
        thread::sleep(Duration::from_millis(50));
    }
    server.at_rest()
}

/// One client's life: every kind in turn, each client from another one on, so that no two do the same and every minute
/// has some of each.
fn work(client: &Client, place: Place, number: usize, shared: &Shared) {
    let mut turn = number * KINDS.len() / CLIENTS;
    while !shared.ended.load(Ordering::SeqCst) {
        // Counted before it looks: who waits for silence sees every call that has begun.
        shared.busy.fetch_add(1, Ordering::SeqCst);
        if shared.paused.load(Ordering::SeqCst) {
            shared.busy.fetch_sub(1, Ordering::SeqCst);
            thread::sleep(Duration::from_millis(50));
            continue;
        }
        let calls = kinds::play(client, place, KINDS[turn % KINDS.len()]);
        lock(&shared.calls).extend(calls);
        shared.busy.fetch_sub(1, Ordering::SeqCst);
        turn += 1;
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Puts the table into the document.
fn update(text: &str) -> anyhow::Result<()> {
    let document = fs::read_to_string(DOCUMENT).context("read SECURITY.md")?;
    let [begin, end] = MARKS;
    let (before, rest) = document
        .split_once(begin)
        .with_context(|| format!("SECURITY.md has no line {}", begin.trim()))?;
    let (_, after) = rest
        .split_once(end)
        .with_context(|| format!("SECURITY.md has no line {end}"))?;
    fs::write(DOCUMENT, format!("{before}{begin}{text}{end}{after}")).context("write SECURITY.md")
}
