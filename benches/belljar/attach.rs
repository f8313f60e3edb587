//! The attach stream of a container, read with as little as possible between: a socket and one buffer.
//!
//! By hand rather than by a client, because it is the floor: what a library costs must not flatter belljar. Never reads
//! for ever: the socket has a deadline.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    os::unix::net::UnixStream,
    time::Duration,
};

use anyhow::{Context as _, bail, ensure};

/// Bytes read from the socket at a time.
const BUFFER_BYTES: usize = 256 * 1024;
/// The longest silence.
const SILENCE: Duration = Duration::from_mins(1);
/// Lines of the daemon's answer; stops the reading of something that is no answer.
const MAX_HEADERS: usize = 64;
/// The head of a piece of output: which stream, three zeros, the length in four bytes.
const HEAD_BYTES: usize = 8;

/// A container's streams.
pub(crate) struct Attached {
    input: UnixStream,
    output: BufReader<UnixStream>,
    /// What is left of the piece that is being read.
    left: usize,
}

impl Attached {
    /// Opens them.
    pub(crate) fn open(socket: &str, container: &str) -> anyhow::Result<Self> {
        let mut input = UnixStream::connect(socket).context("connect to the daemon")?;
        input.set_read_timeout(Some(SILENCE))?;
        input.set_write_timeout(Some(SILENCE))?;
        let request = format!(
            "POST /containers/{container}/attach?stream=1&stdin=1&stdout=1&stderr=1 HTTP/1.1\r\n\
             Host: docker\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n"
        );
        input.write_all(request.as_bytes()).context("attach")?;
        let mut output = BufReader::with_capacity(BUFFER_BYTES, input.try_clone()?);
        let status = line(&mut output)?;
        ensure!(status.contains(" 101 "), "attach: {status}");
        for _ in 0..MAX_HEADERS {
            if line(&mut output)?.is_empty() {
                return Ok(Self {
                    input,
                    output,
                    left: 0,
                });
            }
        }
        bail!("attach: more headers than an answer has")
    }

    /// Writes to the program's input.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> anyhow::Result<()> {
        self.input
            .write_all(bytes)
            .context("write to the container")
    }

    /// What came next, in `take`; `false` at the end.
    fn next(&mut self, take: impl FnOnce(&[u8])) -> anyhow::Result<bool> {
        if self.left == 0 {
            if self.output.fill_buf().context("read")?.is_empty() {
                return Ok(false);
            }
            let mut head = [0; HEAD_BYTES];
            self.output.read_exact(&mut head).context("read")?;
            let [_, _, _, _, length @ ..] = head;
            self.left = u32::from_be_bytes(length) as usize;
            return Ok(true);
        }
        let bytes = self.output.fill_buf().context("read")?;
        ensure!(!bytes.is_empty(), "the stream ended within a piece");
        let count = bytes.len().min(self.left);
        take(&bytes[..count]);
        self.output.consume(count);
        self.left -= count;
        Ok(true)
    }

    /// Reads up to the end and gives the number of bytes.
    pub(crate) fn drain(&mut self) -> anyhow::Result<u64> {
        let mut count = 0;
        while self.next(|bytes| count += bytes.len() as u64)? {}
        Ok(count)
    }

    /// Reads up to the end and gives the text, which must not be longer than `most` bytes.
    pub(crate) fn text(&mut self, most: usize) -> anyhow::Result<String> {
        let mut seen = Vec::new();
        while self.next(|bytes| seen.extend_from_slice(bytes))? {
            ensure!(seen.len() <= most, "more output than {most} bytes");
        }
        String::from_utf8(seen).context("the output is no text")
    }

    /// Reads until this text has come.
    pub(crate) fn expect(&mut self, text: &str) -> anyhow::Result<()> {
        let mut seen = String::new();
        while !seen.contains(text) {
            let more = self.next(|bytes| seen.push_str(&String::from_utf8_lossy(bytes)))?;
            ensure!(more, "the container ended and said {seen:?}");
        }
        Ok(())
    }
}

fn line(output: &mut BufReader<UnixStream>) -> anyhow::Result<String> {
    let mut line = String::new();
    output
        .take(BUFFER_BYTES as u64)
        .read_line(&mut line)
        .context("read the daemon's answer")?;
    Ok(line.trim().to_owned())
}
