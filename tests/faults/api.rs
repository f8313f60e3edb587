//! Asks a daemon directly, past the server and its proxy.

use std::{
    io::{Read as _, Write as _},
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
};

use serde_json::Value;

/// The daemon of this machine, where the tests' images are.
pub(crate) fn daemon() -> PathBuf {
    let host = std::env::var("DOCKER_HOST").unwrap_or_default();
    let path = host
        .strip_prefix("unix://")
        .unwrap_or("/var/run/docker.sock");
    PathBuf::from(path)
}

/// One call of the API, and its answer.
pub(crate) fn ask(daemon: &Path, method: &str, path: &str) -> std::io::Result<(u16, Value)> {
    let mut stream = UnixStream::connect(daemon)?;
    // So old a version of HTTP has no chunks and ends with the connection.
    write!(stream, "{method} {path} HTTP/1.0\r\nHost: docker\r\n\r\n")?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
    let status = head.split(' ').nth(1).and_then(|code| code.parse().ok());
    let body = serde_json::from_str(body).unwrap_or(Value::Null);
    Ok((status.unwrap_or(0), body))
}

/// The names of all containers, in whatever state, of a server.
pub(crate) fn containers(daemon: &Path, instance: &str) -> Vec<String> {
    let (status, all) = ask(daemon, "GET", "/containers/json?all=1").expect("a Docker daemon");
    assert_eq!(status, 200, "these tests need a Docker daemon: {all}");
    let names = all.as_array().unwrap().iter();
    names
        .map(|container| container["Names"][0].as_str().unwrap().to_owned())
        .filter(|name| name.contains(instance))
        .collect()
}

/// Whether there is something of this name.
pub(crate) fn is_there(daemon: &Path, kind: &str, name: &str) -> bool {
    let path = match kind {
        "volumes" => format!("/volumes/{name}"),
        kind => format!("/{kind}/{name}/json"),
    };
    let (status, _) = ask(daemon, "GET", &path).expect("a Docker daemon");
    status == 200
}
