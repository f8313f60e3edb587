//! A large file into a session and out of it, side by side with the bare attach stream.

use std::{
    fs::{self, File},
    io::Read as _,
    path::Path,
    time::{Duration, Instant},
};

use anyhow::{Context as _, ensure};
use bollard::models::ContainerCreateBody;
use serde_json::json;

use crate::{
    api::Api,
    client::Server,
    context::{Context, Runtime},
    machine,
    program::BASH,
    quiet::settle,
    report::{Reach, Report, Shown},
    stats::Series,
};

/// The size of the file.
const BYTES: usize = 100 * 1024 * 1024;
/// The same in megabytes.
const MEGABYTES: f64 = 104.857_6;
/// Takes the file, says so, and gives it back once a line has come.
const THERE_AND_BACK: &str =
    "head -c 104857600 >/workspace/file && echo taken\nread -r _\nexec cat /workspace/file";
/// Bytes written to the raw stream at a time.
const CHUNK_BYTES: usize = 256 * 1024;
/// The least of the raw rate.
const LEAST: f64 = 0.4;
/// The most that the server may have resident, in MiB.
const MOST_MIB: f64 = 64.0;

pub(super) fn both_ways(context: &Context, rounds: usize) -> anyhow::Result<Report> {
    let folder = tempfile::tempdir().context("make a folder for the files")?;
    let body =
        context
            .blueprint(&BASH, Runtime::Default)?
            .create(&["bash", "-c", THERE_AND_BACK])?;
    let allowed = folder.path().to_str().context("a folder with a name")?;
    let server = Server::start("", &["--allow-dir-rw", allowed])?;
    let session = server.open_session(BASH.name)?;
    let rated = |name: &str| Series::new(name).with_work(MEGABYTES, "MB");
    let (mut up, mut raw_up) = (rated("belljar: `upload_file`"), rated("attach stream, in"));
    let (mut down, mut raw_down) = (
        rated("belljar: `fetch_artifact`"),
        rated("attach stream, out"),
    );
    for round in 0..rounds {
        let (from, to) = (folder.path().join("from"), folder.path().join("to"));
        let bytes = content(round);
        fs::write(&from, &bytes).context("write the file")?;
        settle();
        up.record(upload(&server, &session, &from));
        settle();
        down.record(fetch(&server, &session, &to, &bytes));
        settle();
        match by_hand(&context.api, body.clone(), &from) {
            Ok((there, back)) => {
                raw_up.record(Ok(there));
                raw_down.record(Ok(back));
            }
            Err(error) => raw_up.fail(&error),
        }
    }
    let peak = machine::peak_mib(server.pid())?;
    server.stop()?;

    let mut report = Report::new(
        "`upload_file` of a local file of 100 MiB into a session's workspace, and `fetch_artifact` of it to another local \
         file, each from the call to its answer; in both a copy is hashed and kept in the store on the way. Beside it \
         the attach stream of a container of the same hardening: the same file read and written to the program's input until \
         the program says that its file is whole; and the file printed, read and thrown away.",
    );
    let to_raw = |raw: &Series, ours: &Series| anyhow::Ok(raw.p50()? / ours.p50()?);
    let least = Reach::AtLeast(LEAST);
    report.claim(
        "upload: throughput to the raw attach stream's",
        to_raw(&raw_up, &up)?,
        Shown::Times,
        least,
    );
    report.claim(
        "fetch: throughput to the raw attach stream's",
        to_raw(&raw_down, &down)?,
        Shown::Times,
        least,
    );
    report.claim(
        "peak memory of the server",
        peak,
        Shown::Mib,
        Reach::AtMost(MOST_MIB),
    );
    report.series = vec![up, raw_up, down, raw_down];
    Ok(report)
}

/// Other bytes in each round, and none that compress: what is stored by its digest is stored once only.
fn content(round: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64 ^ (round as u64 + 1);
    let mut bytes = Vec::with_capacity(BYTES);
    while bytes.len() < BYTES {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes
}

fn upload(server: &Server, session: &str, from: &Path) -> anyhow::Result<Duration> {
    let ask = json!({"path": "file", "local_path": from, "session": session});
    let began = Instant::now();
    let result = server.call("upload_file", &ask)?;
    let took = began.elapsed();
    ensure!(result["bytes"] == BYTES, "uploaded {}", result["bytes"]);
    Ok(took)
}

fn fetch(server: &Server, session: &str, to: &Path, content: &[u8]) -> anyhow::Result<Duration> {
    let ask = json!({"session": session, "path": "file", "save_to": to, "overwrite": true});
    let began = Instant::now();
    server.call("fetch_artifact", &ask)?;
    let took = began.elapsed();
    ensure!(
        fs::read(to).context("read what was saved")? == content,
        "the file that came back is another"
    );
    Ok(took)
}

/// How long the file took on its way in, and out.
fn by_hand(
    api: &Api,
    body: ContainerCreateBody,
    from: &Path,
) -> anyhow::Result<(Duration, Duration)> {
    let made = api.create(body)?;
    let mut attached = made.attach()?;
    made.start()?;
    settle();
    let mut buffer = vec![0; CHUNK_BYTES];
    let began = Instant::now();
    let mut file = File::open(from).context("open the file")?;
    loop {
        let count = file.read(&mut buffer).context("read the file")?;
        if count == 0 {
            break;
        }
        attached.write(&buffer[..count])?;
    }
    attached.expect("taken\n")?;
    let there = began.elapsed();
    settle();
    let began = Instant::now();
    attached.write(b"\n")?;
    let count = attached.drain()?;
    let back = began.elapsed();
    ensure!(count == BYTES as u64, "the stream had {count} bytes");
    Ok((there, back))
}
