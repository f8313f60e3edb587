//! Carries out a script as if it were a program's run.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use belljar_wire::frame::{FrameError, Kind};
use belljar_wire::message::{
    EndedBy, Exit, ExitStatus, FromRun, GuestError, RunSpec, StdinKind, ToRun,
};
use futures_util::io::AsyncWriteExt as _;
use tokio_util::sync::CancellationToken;

use super::script::{Lie, Step, parse};
use super::{Guest, Reader, Writer, entry, is_hidden};

/// What every run claims to have used.
const CPU_US: u64 = 1_000;
const PEAK_RSS: u64 = 1024 * 1024;
/// How long a connection lasts that is to be dropped.
const VANISH_AFTER: Duration = Duration::from_millis(20);
/// Signal number of SIGKILL.
const SIGKILL: i32 = 9;

/// How a script ended.
enum End {
    Status(ExitStatus),
    Oom,
    Lie(Lie),
}

/// A run under way.
struct Script<'a> {
    guest: &'a Guest,
    spec: &'a RunSpec,
    reader: Reader,
    writer: Writer,
    new_files: Vec<Vec<u8>>,
    stdin_open: bool,
}

impl Guest {
    pub(super) async fn run(
        &self,
        spec: RunSpec,
        reader: Reader,
        mut writer: Writer,
    ) -> Result<(), FrameError> {
        let kill = CancellationToken::new();
        let busy = {
            let mut current = self.current();
            let busy = current.is_some();
            if !busy {
                *current = Some((spec.id, kill.clone()));
            }
            busy
        };
        if busy {
            writer.send(&FromRun::Failed(GuestError::Busy)).await?;
            return writer.close().await;
        }
        self.workspace.with(|files| {
            for file in &spec.files {
                files.insert(file.path.clone(), file.bytes.clone());
            }
        });
        let stdin_open = spec.stdin == StdinKind::Stream;
        let script = Script {
            guest: self,
            spec: &spec,
            reader,
            writer,
            new_files: Vec::new(),
            stdin_open,
        };
        script.play(&kill).await
    }
}

/// What an installer does: there is every package but `missing`, and it never comes to the end of `endless`.
fn install(argv: &[String]) -> Vec<u8> {
    let wants = |package: &str| argv.iter().any(|word| word == package);
    if wants("missing") {
        b"err no such package: missing\nexit 1".to_vec()
    } else if wants("endless") {
        b"hang".to_vec()
    } else {
        Vec::new()
    }
}

impl Script<'_> {
    async fn play(mut self, kill: &CancellationToken) -> Result<(), FrameError> {
        let started = Instant::now();
        let waited = self.guest.waiting.swap(false, Ordering::Relaxed);
        let warm =
            waited && self.spec.warm.is_some() || self.guest.always_warm.load(Ordering::Relaxed);
        self.writer.send(&FromRun::Started { warm }).await?;
        let text = match &self.spec.program {
            Some(file) => file.bytes.clone(),
            None => install(&self.spec.argv),
        };
        let steps = parse(&String::from_utf8_lossy(&text));
        let timeout = Duration::from_millis(self.spec.timeout_ms);
        let (end, ended_by) = match steps {
            Ok(steps) => tokio::select! {
                end = self.steps(&steps) => (end?, EndedBy::Itself),
                () = kill.cancelled() => (End::Status(ExitStatus::Signal(SIGKILL)), EndedBy::Killed),
                () = tokio::time::sleep(timeout) => {
                    (End::Status(ExitStatus::Signal(SIGKILL)), EndedBy::Deadline)
                }
            },
            Err(line) => {
                let complaint = format!("no such command: {line}\n");
                self.writer
                    .send_bytes(Kind::Stderr, complaint.as_bytes())
                    .await?;
                (End::Status(ExitStatus::Code(127)), EndedBy::Itself)
            }
        };
        let (status, oom_kills) = match end {
            End::Status(status) => (status, 0),
            End::Oom => (ExitStatus::Signal(SIGKILL), 1),
            End::Lie(lie) => return self.lie(lie).await,
        };
        let files_omitted = self.report_files().await?;
        let wall_us = u64::try_from(started.elapsed().as_micros()).unwrap_or(u64::MAX);
        *self.guest.current() = None;
        let exit = Exit {
            status,
            ended_by,
            oom_kills,
            cpu_us: CPU_US,
            peak_rss_bytes: PEAK_RSS,
            wall_us,
            files_omitted,
        };
        self.writer.send(&FromRun::Exited(exit)).await?;
        self.writer.close().await
    }

    async fn steps(&mut self, steps: &[Step]) -> Result<End, FrameError> {
        for step in steps {
            match step {
                Step::Out(bytes) => self.writer.send_bytes(Kind::Stdout, bytes).await?,
                Step::Err(bytes) => self.writer.send_bytes(Kind::Stderr, bytes).await?,
                Step::Flood(count) => self.flood(*count).await?,
                Step::Cat => self.cat().await?,
                Step::Env(name) => {
                    let found = self.spec.env.iter().find(|(known, _)| known == name);
                    let value = found.map_or("unset", |(_, value)| value);
                    self.writer
                        .send_bytes(Kind::Stdout, format!("{value}\n").as_bytes())
                        .await?;
                }
                Step::Args => {
                    for argument in self.arguments() {
                        let line = format!("{argument}\n");
                        self.writer
                            .send_bytes(Kind::Stdout, line.as_bytes())
                            .await?;
                    }
                }
                Step::File(path, text) => {
                    self.guest
                        .workspace
                        .with(|files| files.insert(path.clone(), text.clone()));
                    self.new_files.retain(|known| known != path);
                    self.new_files.push(path.clone());
                }
                Step::Touch(path) => {
                    self.new_files.retain(|known| known != path);
                    self.new_files.push(path.clone());
                }
                Step::Fill => self.guest.full.store(true, Ordering::Relaxed),
                Step::Show(path) => {
                    let bytes = self.guest.workspace.with(|files| files.get(path).cloned());
                    let (kind, bytes) = match bytes {
                        Some(bytes) => (Kind::Stdout, bytes),
                        None => (Kind::Stderr, b"no such file\n".to_vec()),
                    };
                    self.writer.send_bytes(kind, &bytes).await?;
                }
                Step::Dial(bytes) => self.guest.dial(bytes, &mut self.writer).await?,
                Step::Knock => self.guest.knock(&mut self.writer).await?,
                Step::Trust => match self.guest.egress.trust() {
                    Some(trust) => self.writer.send_bytes(Kind::Stdout, &trust).await?,
                    None => {
                        self.writer
                            .send_bytes(Kind::Stderr, b"no such file\n")
                            .await?;
                    }
                },
                Step::Sleep(time) => tokio::time::sleep(*time).await,
                Step::Hang => std::future::pending().await,
                Step::Exit(code) => return Ok(End::Status(ExitStatus::Code(*code))),
                Step::Signal(number) => return Ok(End::Status(ExitStatus::Signal(*number))),
                Step::Oom => return Ok(End::Oom),
                Step::Lie(lie) => return Ok(End::Lie(*lie)),
            }
        }
        Ok(End::Status(ExitStatus::Code(0)))
    }

    /// What follows the program's path in the command.
    fn arguments(&self) -> Vec<String> {
        let program = self
            .spec
            .program
            .as_ref()
            .map(|file| file.path.clone())
            .unwrap_or_default();
        let mut argv = self.spec.argv.iter();
        let _ = argv.find(|argument| argument.as_bytes().ends_with(&program));
        argv.cloned().collect()
    }

    async fn flood(&mut self, mut left: u64) -> Result<(), FrameError> {
        self.writer.space().fill(b'x');
        while left > 0 {
            let most = self.writer.space().len();
            let count = usize::try_from(left).unwrap_or(most).min(most);
            self.writer.send_space(Kind::Stdout, count).await?;
            left -= u64::try_from(count).unwrap_or(left);
        }
        Ok(())
    }

    async fn cat(&mut self) -> Result<(), FrameError> {
        while self.stdin_open {
            let Some(frame) = self.reader.next().await? else {
                break;
            };
            match frame.kind {
                Kind::Data => self.writer.send_bytes(Kind::Stdout, &frame.payload).await?,
                Kind::Control => match frame.message()? {
                    ToRun::StdinEnd => self.stdin_open = false,
                },
                Kind::Stdout | Kind::Stderr => return Err(FrameError::Kind),
            }
        }
        Ok(())
    }

    /// Reports what `file` wrote, as the real guest would; the number of files left out.
    async fn report_files(&mut self) -> Result<u64, FrameError> {
        let collect = &self.spec.collect;
        let skipped = |path: &[u8]| {
            let mut directories = path.split(|byte| *byte == b'/').rev().skip(1);
            directories.any(|name| collect.skip_dirs.iter().any(|skip| skip.as_bytes() == name))
        };
        let mut left = collect.max_files;
        let mut omitted = 0;
        for path in &self.new_files {
            if is_hidden(path) || skipped(path) {
                continue;
            }
            if left == 0 {
                omitted += 1;
                continue;
            }
            left -= 1;
            let bytes = self.guest.workspace.with(|files| files.get(path).cloned());
            let entry = entry(path, &bytes.unwrap_or_default());
            self.writer.send(&FromRun::NewFile(entry)).await?;
        }
        Ok(omitted)
    }

    async fn lie(mut self, lie: Lie) -> Result<(), FrameError> {
        let exited = FromRun::Exited(Exit {
            status: ExitStatus::Code(0),
            ended_by: EndedBy::Itself,
            oom_kills: 0,
            cpu_us: 0,
            peak_rss_bytes: 0,
            wall_us: 0,
            files_omitted: 0,
        });
        match lie {
            Lie::Oversized => self.raw(&[3, 0xff, 0xff, 0xff, 0xff]).await,
            Lie::Garbage => self.raw(b"\xde\xad\xbe\xef not a frame").await,
            Lie::Twice => {
                self.writer.send(&exited).await?;
                self.writer.send(&exited).await?;
                self.writer.close().await
            }
            Lie::Late => {
                self.writer.send(&exited).await?;
                self.writer
                    .send_bytes(Kind::Stdout, b"after the end")
                    .await?;
                self.writer.close().await
            }
            Lie::Escape => {
                self.writer
                    .send(&FromRun::NewFile(entry(b"../escaped", b"")))
                    .await?;
                std::future::pending().await
            }
            Lie::Count => loop {
                self.writer
                    .send(&FromRun::NewFile(entry(b"again", b"")))
                    .await?;
            },
            Lie::Reset => Ok(()),
            Lie::Vanish => {
                // What was written before is on its way.
                tokio::time::sleep(VANISH_AFTER).await;
                self.guest.vanish.cancel();
                Ok(())
            }
            Lie::Streams => self.guest.flood_streams().await,
            Lie::Stubborn => std::future::pending().await,
        }
    }

    async fn raw(self, bytes: &[u8]) -> Result<(), FrameError> {
        let mut stream = self.writer.into_inner();
        stream.write_all(bytes).await?;
        stream.flush().await?;
        std::future::pending().await
    }
}
