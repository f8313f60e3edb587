//! Files over the tether: write, read, list.
//!
//! Sizes and counts that the guest reports bound nothing here: what was asked for does.

use std::pin::pin;
use std::time::Duration;

use belljar_wire::frame::{Frame, Kind};
use belljar_wire::limits::MAX_DATA;
use belljar_wire::message::{
    Entry, FromList, GuestError, Hidden, ListDir, ReadEnd, ReadFile, Request, WriteFile,
};
use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::time::{Instant, timeout};

use super::{Exchange, STALL_DEADLINE, Tether, TetherError, Violation, check, received, sent};

/// Bytes of a file that must have moved for each second that the guest is waited for, beyond [`STALL_DEADLINE`] in all. No
/// machine is so slow. Stops a guest that moves a byte, or tells a name, now and then from holding its session's turn, and
/// the caller, for as long as the session lives.
const LEAST_BYTES_A_SECOND: u64 = 64 * 1024;

/// How long a guest was waited for, and what it did meanwhile. Time that goes to a disk of ours is not its own.
#[derive(Debug, Default)]
struct Pace {
    waited: Duration,
    bytes: u64,
}

impl Pace {
    /// A step of the guest's, which may take at most [`STALL_DEADLINE`], and what it has left.
    async fn wait<T>(
        &mut self,
        step: impl Future<Output = Result<T, TetherError>>,
    ) -> Result<T, TetherError> {
        let earned = Duration::from_secs(self.bytes / LEAST_BYTES_A_SECOND);
        let left = (STALL_DEADLINE + earned).saturating_sub(self.waited);
        let began = Instant::now();
        let done = timeout(left.min(STALL_DEADLINE), step).await;
        self.waited += began.elapsed();
        done.map_err(|_| Violation::Stalled)?
    }

    fn moved(&mut self, bytes: u64) {
        self.bytes = self.bytes.saturating_add(bytes);
    }
}

/// The entries of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listing {
    /// Sorted by path.
    pub entries: Vec<Entry>,
    /// How many there are besides, as the guest says.
    pub omitted: u64,
}

/// The bytes of one file. Dropping it ends the transfer.
#[derive(Debug)]
pub struct FileStream {
    entry: Entry,
    exchange: Exchange,
    left: u64,
    pace: Pace,
    ended: bool,
}

impl Tether {
    /// Writes a file of exactly `size` bytes at `path`, relative to the workspace, whole or not at
    /// all. A file that is there is replaced.
    ///
    /// # Errors
    /// [`TetherError::Guest`] if the workspace does not take it, [`TetherError::Source`] if `source`
    /// fails or ends early, and those of every request.
    pub async fn write(
        &self,
        path: &[u8],
        size: u64,
        source: impl AsyncRead + Send,
    ) -> Result<Entry, TetherError> {
        let written = async {
            let request = Request::Write(WriteFile {
                path: path.to_vec(),
                size,
            });
            let exchange = self.link.ask(&request).await?;
            write(exchange, size, source).await
        };
        written.await.map_err(|error| self.link.judge(error))
    }

    /// Opens a regular file for reading: at most `length` bytes from `offset`.
    ///
    /// # Errors
    /// [`TetherError::Guest`] if there is no such regular file, and those of every request.
    pub async fn read(
        &self,
        path: &[u8],
        offset: u64,
        length: u64,
    ) -> Result<FileStream, TetherError> {
        let opened = async {
            let request = Request::Read(ReadFile {
                path: path.to_vec(),
                offset,
                length,
            });
            let mut exchange = self.link.ask(&request).await?;
            let mut pace = Pace::default();
            let entry = entry_answer(&pace.wait(exchange.frame()).await?)?;
            Ok(FileStream {
                entry,
                exchange,
                left: length,
                pace,
                ended: false,
            })
        };
        opened.await.map_err(|error| self.link.judge(error))
    }

    /// Lists what is below `path` (empty for the whole workspace), recursively.
    ///
    /// # Errors
    /// [`TetherError::Guest`] if there is no such directory, and those of every request.
    pub async fn list(
        &self,
        path: &[u8],
        max_entries: u32,
        hidden: Hidden,
    ) -> Result<Listing, TetherError> {
        let listed = async {
            let request = Request::List(ListDir {
                path: path.to_vec(),
                max_entries,
                hidden,
            });
            list(self.link.ask(&request).await?, max_entries).await
        };
        listed.await.map_err(|error| self.link.judge(error))
    }
}

impl FileStream {
    /// What the guest says of the file.
    #[must_use]
    pub fn entry(&self) -> &Entry {
        &self.entry
    }

    /// The next bytes, never empty; `None` at the end of what was asked for or of the file.
    ///
    /// # Errors
    /// [`TetherError::Guest`] if the file cannot be read further, and those of every request.
    pub async fn next(&mut self) -> Result<Option<Bytes>, TetherError> {
        if self.ended {
            return Ok(None);
        }
        match self.advance().await {
            Ok(Some(bytes)) => Ok(Some(bytes)),
            Ok(None) => {
                self.ended = true;
                Ok(None)
            }
            Err(error) => {
                self.ended = true;
                Err(self.exchange.link.judge(error))
            }
        }
    }

    async fn advance(&mut self) -> Result<Option<Bytes>, TetherError> {
        let frame = self.pace.wait(self.exchange.frame()).await?;
        match frame.kind {
            Kind::Data => {
                let count = u64::try_from(frame.payload.len()).unwrap_or(u64::MAX);
                if count == 0 {
                    return Err(Violation::Order.into());
                }
                self.left = self.left.checked_sub(count).ok_or(Violation::Count)?;
                self.pace.moved(count);
                Ok(Some(frame.payload.into()))
            }
            Kind::Control => match frame.message::<ReadEnd>().map_err(received)? {
                ReadEnd::Complete => self.exchange.end().await.map(|()| None),
                ReadEnd::Broken(error) => Err(error.into()),
            },
            Kind::Stdout | Kind::Stderr => Err(Violation::Order.into()),
        }
    }
}

async fn write(
    exchange: Exchange,
    size: u64,
    source: impl AsyncRead + Send,
) -> Result<Entry, TetherError> {
    let Exchange {
        mut reader,
        mut writer,
        link,
    } = exchange;
    let mut pace = Pace::default();
    let sending = async {
        let mut source = pin!(source);
        let mut left = size;
        while left > 0 {
            let most = usize::try_from(left).unwrap_or(MAX_DATA).min(MAX_DATA);
            let space = &mut writer.space()[..most];
            let count = source.read(space).await.map_err(TetherError::Source)?;
            if count == 0 {
                return Err(TetherError::Source(
                    std::io::ErrorKind::UnexpectedEof.into(),
                ));
            }
            // The deadline is for the guest, which takes the bytes, not for the source.
            pace.wait(async { writer.send_space(Kind::Data, count).await.map_err(sent) })
                .await?;
            let count = u64::try_from(count).unwrap_or(left);
            pace.moved(count);
            left -= count;
        }
        Ok(())
    };
    let early = tokio::select! {
        biased;
        // The guest may give up before it has everything: the rest would wait for ever.
        frame = reader.next() => Some(frame),
        result = sending => {
            result?;
            None
        }
    };
    let mut exchange = Exchange {
        reader,
        writer,
        link,
    };
    let (frame, complete) = match early {
        Some(frame) => (frame.map_err(received)?.ok_or(TetherError::Lost)?, false),
        None => (pace.wait(exchange.frame()).await?, true),
    };
    let entry = entry_answer(&frame)?;
    if !complete {
        return Err(Violation::Order.into());
    }
    exchange.end().await?;
    Ok(entry)
}

async fn list(mut exchange: Exchange, max_entries: u32) -> Result<Listing, TetherError> {
    let mut left = max_entries;
    let mut entries = Vec::new();
    // Names earn nothing: an honest guest gives up its walk after a second.
    let mut pace = Pace::default();
    loop {
        let frame = pace.wait(exchange.frame()).await?;
        match frame.message().map_err(received)? {
            FromList::Entry(entry) => {
                left = left.checked_sub(1).ok_or(Violation::Count)?;
                entries.push(check::entry(entry)?);
            }
            FromList::End { omitted } => {
                exchange.end().await?;
                entries.sort_unstable_by(|a, b| a.path.cmp(&b.path));
                return Ok(Listing { entries, omitted });
            }
            FromList::Failed(_) if !entries.is_empty() => return Err(Violation::Order.into()),
            FromList::Failed(error) => return Err(error.into()),
        }
    }
}

fn entry_answer(frame: &Frame) -> Result<Entry, TetherError> {
    let answer: Result<Entry, GuestError> = frame.message().map_err(received)?;
    Ok(check::entry(answer?)?)
}
