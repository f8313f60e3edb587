//! How long the machine needs to start a program in a container that runs already: the least that anybody could
//! wait, who does not have it running before.
//!
//! Measured from inside, by bash around its own fork, exec and wait, so that `docker exec` (80 ms) is no part of it.

use std::{
    fs::File,
    io::{BufRead as _, BufReader, Read as _, Seek as _, Write as _},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    time::Duration,
};

use anyhow::{Context as _, ensure};

use crate::{blueprint::Blueprint, program::Program};

/// Starts the program once for each line that it reads, and answers with the time before and after, in seconds.
/// First it makes of `/workspace` what belljar makes of it.
const LOOP: &str = r#"
cp -a /usr/share/belljar/skel "$HOME" 2>/dev/null || mkdir -p "$HOME"
printf '%s' "$2" >"$1"
shift 2
echo ready
while read -r _; do
    before=$EPOCHREALTIME
    "$@" </dev/null >/workspace/.printed
    status=$?
    after=$EPOCHREALTIME
    read -r printed </workspace/.printed
    echo "$before $after $status $printed"
done
"#;

/// Bytes of an error that are shown.
const MAX_SAID: u64 = 4096;

/// A running container that starts a program whenever it is told.
pub(crate) struct Inside {
    process: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    /// What docker and the program say beside their output.
    errors: File,
    prints: &'static str,
}

impl Inside {
    /// Starts the container; `command` is what it will start for `program`.
    pub(crate) fn start(
        blueprint: &Blueprint,
        program: &Program,
        command: &[&str],
    ) -> anyhow::Result<Self> {
        let around = [
            "bash",
            "-c",
            LOOP,
            "bash",
            program.language.file,
            program.code,
        ];
        let arguments = blueprint.docker_run(&["--interactive"], &[&around, command].concat())?;
        let errors = tempfile::tempfile().context("make a file for errors")?;
        let mut process = Command::new("docker")
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(errors.try_clone()?)
            .spawn()
            .context("start docker run")?;
        let input = process.stdin.take();
        let output = process.stdout.take().context("the container's output")?;
        let mut inside = Self {
            process,
            input,
            output: BufReader::new(output),
            errors,
            prints: program.prints,
        };
        let ready = inside.line()?;
        ensure!(ready == "ready", "the container said {ready:?}");
        Ok(inside)
    }

    fn line(&mut self) -> anyhow::Result<String> {
        let mut line = String::new();
        let count = self.output.read_line(&mut line)?;
        ensure!(count > 0, "the container ended and said: {}", self.said());
        Ok(line.trim().to_owned())
    }

    fn said(&mut self) -> String {
        let mut said = String::new();
        // Without its words an error is still an error.
        let _ = self.errors.rewind();
        let _ = (&self.errors).take(MAX_SAID).read_to_string(&mut said);
        said.trim().to_owned()
    }

    /// Starts the program, waits for its end and gives how long both took.
    pub(crate) fn once(&mut self) -> anyhow::Result<Duration> {
        let input = self.input.as_mut().context("the container's input")?;
        input.write_all(b"\n").context("tell the container")?;
        let line = self.line()?;
        let mut words = line.split(' ');
        let mut next = || words.next().context("a word of the container's");
        let (before, after) = (next()?.to_owned(), next()?.to_owned());
        let (status, printed) = (next()?, next()?);
        ensure!(
            status == "0" && printed == self.prints.trim(),
            "the program ended with {status} and printed {printed:?}"
        );
        let took = micros(&after)?
            .checked_sub(micros(&before)?)
            .context("a clock that goes on")?;
        Ok(Duration::from_micros(took))
    }
}

/// bash writes seconds with six digits behind the point.
fn micros(seconds: &str) -> anyhow::Result<u64> {
    let digits: String = seconds.chars().filter(char::is_ascii_digit).collect();
    digits
        .parse()
        .with_context(|| format!("a time: {seconds:?}"))
}

impl Drop for Inside {
    fn drop(&mut self) {
        // The end of its input ends the loop, and the container with it.
        drop(self.input.take());
        if let Err(error) = self.process.wait() {
            eprintln!("bench: a container did not end: {error}");
        }
    }
}
