//! A socket between the server and its daemon that puts the liar where the guest belongs.
//!
//! Names of volumes and the hostname are replaced by others of the same length as they pass, in both directions, so that
//! the server, which knows nothing of it, finds what it asked for. Nothing of what is attached to a container is looked
//! at, and nothing else is changed.

use std::{
    io::{Read, Write},
    net::Shutdown,
    os::unix::net::{UnixListener, UnixStream},
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
    thread,
};

/// What is replaced by what, of the same length; `?` stands for any byte.
pub(crate) type Pair = (Vec<u8>, Vec<u8>);

/// What is replaced on its way to the daemon, and on its way back.
#[derive(Default)]
pub(crate) struct Rules {
    pub(crate) there: Vec<Pair>,
    pub(crate) back: Vec<Pair>,
}

/// Listens on `socket` and passes everything to `daemon`.
pub(crate) fn start(socket: &Path, daemon: PathBuf, rules: Arc<Mutex<Rules>>) {
    let listener = UnixListener::bind(socket).unwrap();
    thread::spawn(move || {
        for client in listener.incoming() {
            let (client, daemon, rules) = (client.unwrap(), daemon.clone(), Arc::clone(&rules));
            thread::spawn(move || {
                if let Ok(server) = UnixStream::connect(daemon) {
                    serve(client, server, rules);
                }
            });
        }
    });
}

fn serve(mut client: UnixStream, mut server: UnixStream, rules: Arc<Mutex<Rules>>) {
    let mut first = vec![0; 64 * 1024];
    let Ok(count) = client.read(&mut first) else {
        return;
    };
    first.truncate(count);
    let line = first.split(|b| *b == b'\r').next().unwrap();
    let attached = contains(line, b"/attach?");
    let (mut from_client, mut to_client) = (client.try_clone().unwrap(), client);
    let (mut from_server, mut to_server) = (server.try_clone().unwrap(), &mut server);
    let back = Arc::clone(&rules);
    let answers = thread::spawn(move || {
        let pairs = move || back.lock().unwrap().back.clone();
        pass(
            &mut from_server,
            &mut to_client,
            &[],
            (!attached).then_some(&pairs),
        );
        let _ = to_client.shutdown(Shutdown::Write);
    });
    let pairs = move || rules.lock().unwrap().there.clone();
    pass(
        &mut from_client,
        &mut to_server,
        &first,
        (!attached).then_some(&pairs),
    );
    let _ = to_server.shutdown(Shutdown::Write);
    let _ = answers.join();
}

fn pass(
    from: &mut impl Read,
    to: &mut impl Write,
    first: &[u8],
    pairs: Option<&dyn Fn() -> Vec<Pair>>,
) {
    let mut held = first.to_vec();
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let mut ready = held.len();
        if let Some(pairs) = pairs {
            let pairs = pairs();
            for (find, put) in &pairs {
                replace(&mut held, find, put);
            }
            // What may go on in the next read.
            let cut = |at: &usize| {
                let rest = &held[*at..];
                pairs
                    .iter()
                    .any(|(find, _)| rest.len() < find.len() && matches(rest, find))
            };
            ready = (0..held.len()).find(cut).unwrap_or(ready);
        }
        if to.write_all(&held[..ready]).is_err() {
            return;
        }
        held.drain(..ready);
        match from.read(&mut buffer) {
            Ok(count) if count > 0 => held.extend_from_slice(&buffer[..count]),
            _ => {
                let _ = to.write_all(&held);
                return;
            }
        }
    }
}

/// Whether the text begins like the pattern, as far as both go.
fn matches(text: &[u8], pattern: &[u8]) -> bool {
    text.iter().zip(pattern).all(|(a, b)| a == b || *b == b'?')
}

fn replace(text: &mut [u8], find: &[u8], put: &[u8]) {
    assert_eq!(find.len(), put.len());
    let mut at = 0;
    while at + find.len() <= text.len() {
        if matches(&text[at..], find) {
            text[at..at + put.len()].copy_from_slice(put);
            at += put.len();
        } else {
            at += 1;
        }
    }
}

fn contains(text: &[u8], what: &[u8]) -> bool {
    text.windows(what.len()).any(|window| window == what)
}
