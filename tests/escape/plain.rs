//! Probes in a plain container, made by the `docker` command without belljar, and on the host.

use std::{
    io::{BufRead as _, BufReader, Lines, Write as _},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};

use belljar::types::SandboxId;
use serde_json::{Value, json};

use crate::docker::PYTHON;

/// What runs probes, wherever they run.
pub(crate) const AGENT: &str = include_str!("agent.py");

/// What stands for a random name in the flags of a head.
const RANDOM: &str = "{random}";

/// A process of an ordinary user in the namespaces of the daemon's machine: a container but for its files. Its uid is that of the
/// plain containers whose flags say so, and of no account.
const HOST: &str = "--network host --pid host --ipc host --uts host --user 61234:61234 --security-opt seccomp=unconfined";

/// A container that runs one program after another; removed with the value.
pub(crate) struct Plain {
    name: String,
    volume: Option<String>,
    child: Child,
    stdin: Option<ChildStdin>,
    said: Lines<BufReader<ChildStdout>>,
}

impl Plain {
    /// With these flags of `docker run`; `random` is for what several containers share.
    pub(crate) fn start(flags: &str, random: &str, facts: &Value) -> Self {
        let name = format!("belljar-test-{}", SandboxId::random());
        let volume = flags
            .contains(RANDOM)
            .then(|| format!("belljar-test-{random}"));
        let flags = flags.replace(RANDOM, random);
        let mut child = Command::new("docker")
            .args(["run", "--rm", "--interactive", "--name", &name])
            .args(words(&flags))
            .args([PYTHON, "python3", "-c", AGENT])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("these tests need the `docker` command");
        let stdin = child.stdin.take();
        let said = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut plain = Self {
            name,
            volume,
            child,
            stdin,
            said,
        };
        plain.tell(facts);
        plain
    }

    /// On the host.
    pub(crate) fn host(facts: &Value) -> Self {
        Self::start(HOST, "", facts)
    }

    /// The verdict of a program.
    pub(crate) fn run(&mut self, program: &str) -> String {
        self.tell(&json!({ "run": program }));
        self.line()
    }

    /// Starts a program that takes something, and waits until it has.
    pub(crate) fn hold(&mut self, program: &str) {
        self.tell(&json!({ "hold": program }));
        let said = self.line();
        // One that is refused has nothing to hold.
        let took = said.starts_with("READY") || said.starts_with("HELD");
        assert!(took, "a holder said: {said}");
    }

    /// Ends it.
    pub(crate) fn release(&mut self) {
        self.tell(&json!({ "release": 1 }));
        assert_eq!(self.line(), "RELEASED");
    }

    fn tell(&mut self, line: &Value) {
        writeln!(self.stdin.as_mut().unwrap(), "{line}").unwrap();
    }

    fn line(&mut self) -> String {
        self.said
            .next()
            .unwrap_or_else(|| panic!("the container {} has ended", self.name))
            .unwrap()
    }
}

impl Drop for Plain {
    fn drop(&mut self) {
        drop(self.stdin.take());
        // Gone already where it has ended by itself.
        let _ = Command::new("docker")
            .args(["rm", "--force", &self.name])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        let _ = self.child.wait();
        if let Some(volume) = &self.volume {
            // The last of those that share it can remove it.
            let _ = Command::new("docker")
                .args(["volume", "rm", "--force", volume])
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .status();
        }
    }
}

/// The flags one by one: words, or what stands between single quotes.
fn words(flags: &str) -> Vec<String> {
    let mut words = Vec::new();
    let (mut word, mut quoted) = (String::new(), false);
    for c in flags.chars() {
        match c {
            '\'' => quoted = !quoted,
            ' ' if !quoted => words.push(std::mem::take(&mut word)),
            c => word.push(c),
        }
    }
    words.push(word);
    words.retain(|word| !word.is_empty());
    words
}
