//! What the system says of the server's process.

use std::{fs, path::Path};

use anyhow::Context as _;

/// A process at one moment.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sample {
    /// Resident memory, in KiB.
    pub(crate) memory_kib: u64,
    /// Open descriptors.
    pub(crate) descriptors: u64,
    pub(crate) threads: u64,
    /// Containers of this server, whatever they do.
    pub(crate) containers: u64,
    /// Children that have ended and were not waited for.
    pub(crate) zombies: u64,
}

/// Reads what the system says of process `pid`; containers are not its business.
pub(crate) fn sample(pid: u32) -> anyhow::Result<Sample> {
    let status =
        fs::read_to_string(format!("/proc/{pid}/status")).context("the server's process")?;
    let number = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        let digits = line.and_then(|line| line.split_whitespace().next());
        digits
            .and_then(|digits| digits.parse().ok())
            .with_context(|| format!("{name} of the server's process"))
    };
    Ok(Sample {
        memory_kib: number("VmRSS:")?,
        threads: number("Threads:")?,
        descriptors: fs::read_dir(format!("/proc/{pid}/fd"))?.count() as u64,
        containers: 0,
        zombies: zombies(pid)?,
    })
}

/// Processes that have ended and whose parent is `pid` or a guest: neither may leave any.
fn zombies(pid: u32) -> anyhow::Result<u64> {
    let mut count = 0;
    for entry in fs::read_dir("/proc")? {
        let path = entry?.path();
        // Processes come and go meanwhile.
        let Some((state, parent)) = stat(&path) else {
            continue;
        };
        if state == "Z" && (parent == pid || is_guest(parent)) {
            count += 1;
        }
    }
    Ok(count)
}

/// State and parent of a process.
fn stat(path: &Path) -> Option<(String, u32)> {
    let text = fs::read_to_string(path.join("stat")).ok()?;
    // The name in brackets may hold anything.
    let mut rest = text.rsplit_once(')')?.1.split_whitespace();
    Some((rest.next()?.to_owned(), rest.next()?.parse().ok()?))
}

fn is_guest(pid: u32) -> bool {
    fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| line.starts_with(b"/.belljar/"))
}
