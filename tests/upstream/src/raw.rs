//! Answers that no HTTP library would send.

/// What is sent in place of an answer, and whether the connection ends after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Raw {
    /// The bytes.
    pub(crate) bytes: &'static [u8],
    /// Whether the connection stays open, silently, until the other side ends it.
    pub(crate) stalls: bool,
}

/// What a path stands for, if it is one of these.
pub(crate) fn of(path: &str) -> Option<Raw> {
    let (bytes, stalls): (&[u8], bool) = match path {
        // No HTTP at all.
        "/garbage" => (b"\x00\xff\x16 this is no HTTP\r\n\r\n", false),
        // Both lengths: whoever believes one reads another answer than whoever believes the other.
        "/cl-te" => (
            b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n\
              1\r\na\r\n0\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\nsmuggled",
            false,
        ),
        // Two lengths.
        "/cl-cl" => (
            b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
            false,
        ),
        // A change of protocol that nobody asked for.
        "/switch" => (
            b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: anything\r\nConnection: upgrade\r\n\r\nanything",
            false,
        ),
        // An answer to a question that was not asked yet.
        "/answers" => (
            b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nfirst\
              HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nsecond",
            false,
        ),
        // The end instead of an answer.
        "/close" => (b"", false),
        // A head that is never whole.
        "/half-head" => (b"HTTP/1.1 200 OK\r\nContent-Le", false),
        "/stall" => (b"HTTP/1.1 200 OK\r\nContent-Le", true),
        _ => return None,
    };
    Some(Raw { bytes, stalls })
}
