//! The scripted guest's language: one command a line, carried out in order. Empty lines and lines
//! that start with `#` are passed over. A script that comes to its end exits with 0; a line that is
//! no command ends it with 127 and says so on standard error. A run without a program is an installer's, which
//! installs every package but `missing`, and never ends with `endless`.
//!
//! | line | does |
//! |---|---|
//! | `out TEXT`, `err TEXT` | writes the text and a newline to standard output or error |
//! | `raw HEX` | writes these bytes to standard output |
//! | `flood N` | writes N bytes `x` to standard output |
//! | `cat` | copies standard input to standard output |
//! | `env NAME` | writes the variable's value (or `unset`) and a newline |
//! | `args` | writes each argument after the program's path on a line |
//! | `file PATH TEXT` | writes a file |
//! | `touch PATH` | has a file that is there reported as changed |
//! | `fill` | fills the workspace: no file can be written from outside any more |
//! | `show PATH` | writes a file's content to standard output |
//! | `dial TEXT` | connects to the way out, sends the text (with `\r`, `\n`, `\\` and `\xHH`), and writes what comes back to standard output; a refusal or a reset is said on standard error |
//! | `knock` | opens a stream whether there is a way out or not, and writes `cut`, `ended` or `answered` to standard output |
//! | `trust` | writes the certificates to trust to standard output |
//! | `sleep MS`, `hang` | waits; a kill and the deadline end it |
//! | `exit N`, `signal N` | ends the program |
//! | `oom` | ends it like the kernel's out-of-memory killer |
//! | `lie KIND` | breaks the protocol, see [`Lie`] |

use std::time::Duration;

/// One line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// `out TEXT`, `raw HEX`.
    Out(Vec<u8>),
    /// `err TEXT`.
    Err(Vec<u8>),
    /// `flood N`.
    Flood(u64),
    /// `cat`.
    Cat,
    /// `env NAME`.
    Env(String),
    /// `args`.
    Args,
    /// `file PATH TEXT`.
    File(Vec<u8>, Vec<u8>),
    /// `touch PATH`.
    Touch(Vec<u8>),
    /// `fill`.
    Fill,
    /// `show PATH`.
    Show(Vec<u8>),
    /// `dial TEXT`.
    Dial(Vec<u8>),
    /// `knock`.
    Knock,
    /// `trust`.
    Trust,
    /// `sleep MS`.
    Sleep(Duration),
    /// `hang`.
    Hang,
    /// `exit N`.
    Exit(i32),
    /// `signal N`.
    Signal(i32),
    /// `oom`.
    Oom,
    /// `lie KIND`.
    Lie(Lie),
}

/// How to break the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lie {
    /// `oversized`: a frame that claims 4 GiB.
    Oversized,
    /// `garbage`: bytes that are no frame.
    Garbage,
    /// `twice`: says that it exited, twice.
    Twice,
    /// `late`: output after the exit.
    Late,
    /// `escape`: a new file whose path leaves the workspace.
    Escape,
    /// `count`: more new files than were asked for.
    Count,
    /// `reset`: drops the run's stream without a word.
    Reset,
    /// `vanish`: drops the connection.
    Vanish,
    /// `streams`: opens streams and cuts them, without end.
    Streams,
    /// `stubborn`: hangs, and heeds neither kill nor deadline.
    Stubborn,
}

/// Parses a whole script.
///
/// # Errors
/// The first line that is no command.
pub fn parse(text: &str) -> Result<Vec<Step>, String> {
    let lines = text
        .lines()
        .filter(|line| !line.trim().is_empty() && !line.starts_with('#'));
    lines
        .map(|line| parse_line(line).ok_or_else(|| line.to_owned()))
        .collect()
}

fn parse_line(line: &str) -> Option<Step> {
    let (command, rest) = line.split_once(' ').unwrap_or((line.trim_end(), ""));
    Some(match command {
        "out" => Step::Out(format!("{rest}\n").into_bytes()),
        "err" => Step::Err(format!("{rest}\n").into_bytes()),
        "raw" => Step::Out(hex(rest.trim())?),
        "flood" => Step::Flood(rest.trim().parse().ok()?),
        "cat" => Step::Cat,
        "env" => Step::Env(rest.trim().to_owned()),
        "args" => Step::Args,
        "file" => {
            let (path, text) = rest.split_once(' ').unwrap_or((rest, ""));
            Step::File(path.into(), text.into())
        }
        "touch" => Step::Touch(rest.trim().into()),
        "fill" => Step::Fill,
        "show" => Step::Show(rest.trim().into()),
        "dial" => Step::Dial(unescape(rest)?),
        "knock" => Step::Knock,
        "trust" => Step::Trust,
        "sleep" => Step::Sleep(Duration::from_millis(rest.trim().parse().ok()?)),
        "hang" => Step::Hang,
        "exit" => Step::Exit(rest.trim().parse().ok()?),
        "signal" => Step::Signal(rest.trim().parse().ok()?),
        "oom" => Step::Oom,
        "lie" => Step::Lie(lie(rest.trim())?),
        _ => return None,
    })
}

fn lie(kind: &str) -> Option<Lie> {
    Some(match kind {
        "oversized" => Lie::Oversized,
        "garbage" => Lie::Garbage,
        "twice" => Lie::Twice,
        "late" => Lie::Late,
        "escape" => Lie::Escape,
        "count" => Lie::Count,
        "reset" => Lie::Reset,
        "vanish" => Lie::Vanish,
        "streams" => Lie::Streams,
        "stubborn" => Lie::Stubborn,
        _ => return None,
    })
}

fn hex(text: &str) -> Option<Vec<u8>> {
    let digits = text.as_bytes();
    if !digits.len().is_multiple_of(2) {
        return None;
    }
    digits
        .chunks(2)
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok())
        .collect()
}

/// The bytes of a text with escapes.
fn unescape(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut rest = text;
    while let Some((plain, escaped)) = rest.split_once('\\') {
        bytes.extend_from_slice(plain.as_bytes());
        let (byte, length) = match escaped.as_bytes().first()? {
            b'r' => (b'\r', 1),
            b'n' => (b'\n', 1),
            b'\\' => (b'\\', 1),
            b'x' => (*hex(escaped.get(1..3)?)?.first()?, 3),
            _ => return None,
        };
        bytes.push(byte);
        rest = escaped.get(length..)?;
    }
    bytes.extend_from_slice(rest.as_bytes());
    Some(bytes)
}
