//! The bounds of the tether, each with the attack that it stops.
//!
//! Both sides keep them. A peer that breaks one has lost the connection.

/// Payload of a frame of bytes (stdin, stdout, stderr, a piece of a file). Stops a guest from making
/// the server allocate what a length field claims.
pub const MAX_DATA: usize = 64 * 1024;

/// Payload of a control frame from the server to the guest: source text, arguments and small inputs
/// travel in it. Stops a confused server from eating the container's memory, which the guest shares
/// with the program.
pub const MAX_REQUEST: usize = 4 * 1024 * 1024;

/// Payload of a control frame from the guest to the server. Large enough for one path and some
/// numbers; stops a guest from feeding the decoder megabytes of structure.
pub const MAX_REPLY: usize = 16 * 1024;

/// Bytes in a path below the workspace. The kernel's own `PATH_MAX`; stops names that no later step
/// could use anyway.
pub const MAX_PATH: usize = 4096;

/// Nesting of a path below the workspace. Stops a tree so deep that walking it, or removing what was
/// collected from it, exhausts a stack or a quadratic algorithm.
pub const MAX_DEPTH: usize = 64;

/// Streams that the server opens at the same time, one for each request. Stops a server that leaks
/// requests from filling the guest's memory, which it shares with the program.
pub const MAX_OPEN: usize = 16;

/// Streams that the guest opens at the same time, one for each connection of a program's that it
/// carries. Stops a program, or a guest in its hands, from making the server hold connections until
/// it runs out of memory or descriptors.
pub const MAX_TUNNELS: usize = 32;

/// Streams on one connection, both directions together. Stops either side from opening streams until
/// the other runs out of memory (yamux allows 512 unless told). No more than is of use: each stream
/// is owed 256 KiB of [`MAX_WINDOWS`], and only what is left lets the window of a busy one grow.
pub const MAX_STREAMS: usize = MAX_OPEN + MAX_TUNNELS;

/// Receive windows of one connection in all. Stops a guest from filling the server's memory with
/// bytes that nobody reads yet (yamux allows 1 GiB unless told). 8 MiB more than the streams are owed,
/// those included that have ended and are not yet forgotten: the first window is less than what is in
/// flight on the way through the daemon, so that output at full speed would wait for every update of it.
pub const MAX_WINDOWS: usize = 24 * 1024 * 1024;

/// Frames of one stream that the multiplexer holds and nobody has read yet; what comes beyond is put together first. Each
/// costs some 100 bytes whatever it carries: stops a program or a guest that sends byte by byte into a stream which
/// nobody reads from making the other side hold many times what it sent. Without a bound: [`MAX_WINDOWS`] times 100.
pub const MAX_UNREAD: usize = 256;

/// Frames that bring nothing (pings, empty ones, those of streams that are over) or next to nothing (a new stream) that may come at once. Stops a guest
/// from keeping a processor of the server busy for ever. As many as the first window of a stream that the server has
/// let go of may still bring, byte by byte.
pub const IDLE_FRAMES: u32 = 256 * 1024;

/// Frames that bring nothing that may come per second besides [`IDLE_FRAMES`].
pub const IDLE_FRAMES_PER_SECOND: u32 = 8 * 1024;
