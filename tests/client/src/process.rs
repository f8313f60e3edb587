//! The process itself: what the kernel says of it, and its end.

use std::{
    io,
    process::{Child, Command},
};

use crate::{PATIENCE, holds_within};

/// A process that ends with this, in good order where it can: what a killed server leaves would wait for another one of
/// the same state directory.
#[derive(Debug)]
pub struct Process(Child);

impl Process {
    /// Starts it.
    pub fn start(command: &mut Command) -> io::Result<Self> {
        command.spawn().map(Self)
    }

    /// Its number.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.0.id()
    }

    /// Its pipes, where it was started with some.
    pub fn child(&mut self) -> &mut Child {
        &mut self.0
    }

    /// Sends a signal by its name.
    pub fn signal(&self, name: &str) {
        let pid = self.id().to_string();
        let sent = Command::new("kill").args(["-s", name, &pid]).status();
        assert!(sent.unwrap().success(), "{name}");
    }

    /// The end that leaves it no time for anything.
    pub fn kill(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }

    /// Waits for its end; its exit code, and none for another end or none at all.
    pub fn ended(&mut self) -> Option<i32> {
        let mut code = None;
        holds_within(PATIENCE, || {
            let status = self.0.try_wait().unwrap();
            code = status.and_then(|status| status.code());
            status.is_some()
        });
        code
    }

    /// A figure of the kernel's about its memory, in KiB, such as `VmRSS` or `VmHWM`.
    #[must_use]
    pub fn memory_kib(&self, key: &str) -> u64 {
        self.figure(key)
    }

    /// How many threads it has.
    #[must_use]
    pub fn threads(&self) -> u64 {
        self.figure("Threads")
    }

    fn figure(&self, key: &str) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.id())).unwrap();
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix(key)?.strip_prefix(':'));
        let figure = line.and_then(|line| line.split_whitespace().next());
        figure.expect("a figure of the kernel's").parse().unwrap()
    }

    /// Begins to look for the peak of its memory anew; what it holds now, in KiB.
    #[must_use]
    pub fn mark(&self) -> u64 {
        std::fs::write(format!("/proc/{}/clear_refs", self.id()), "5").unwrap();
        self.memory_kib("VmRSS")
    }

    /// How many files it has open.
    #[must_use]
    pub fn open_files(&self) -> usize {
        let files = format!("/proc/{}/fd", self.id());
        std::fs::read_dir(files).unwrap().count()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if matches!(self.0.try_wait(), Ok(None)) {
            let pid = self.id().to_string();
            let _ = Command::new("kill").args(["-s", "TERM", &pid]).status();
            let process = &mut self.0;
            holds_within(PATIENCE, || !matches!(process.try_wait(), Ok(None)));
        }
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
