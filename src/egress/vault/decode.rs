//! Undoes the coding of a body, so that it can be searched.
//!
//! What is decoded is bounded against what came: a body that is nearly nothing but grows without end is cut off.

use std::io::{self, Write};

use flate2::write::{DeflateDecoder, MultiGzDecoder, ZlibDecoder};
use hyper::{HeaderMap, header::CONTENT_ENCODING};

use super::redact::Unreadable;

/// How much a body may grow to whatever its size, in bytes. Short texts of one kind shrink a lot.
pub(super) const FREE_BYTES: u64 = 4 * 1024 * 1024;
/// How many times its size a body may grow to beyond that. Stops a bomb, which grows a thousandfold.
pub(super) const MAX_GROWTH: u64 = 128;

/// How a body is coded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Coding {
    /// Not at all.
    Identity,
    /// `gzip`, one member or several.
    Gzip,
    /// `deflate`: zlib's format as the standard has it, or the bare one that some servers send.
    Deflate,
}

impl Coding {
    /// The coding that headers name; none where it is one that is not undone here, or several.
    pub(super) fn of(headers: &HeaderMap) -> Option<Self> {
        let mut coding = Self::Identity;
        for value in headers.get_all(CONTENT_ENCODING) {
            for name in value.to_str().ok()?.split(',').map(str::trim) {
                let named = match name.to_ascii_lowercase().as_str() {
                    "" | "identity" => continue,
                    "gzip" | "x-gzip" => Self::Gzip,
                    "deflate" => Self::Deflate,
                    _ => return None,
                };
                if coding != Self::Identity {
                    return None;
                }
                coding = named;
            }
        }
        Some(coding)
    }
}

/// Undoes one body's coding, piece by piece.
pub(super) enum Decoder {
    Identity,
    Gzip(Box<MultiGzDecoder<Sink>>),
    /// No byte of a `deflate` body came yet, or the first one only: two tell the formats apart.
    Undecided(Option<u8>),
    Zlib(Box<ZlibDecoder<Sink>>),
    Bare(Box<DeflateDecoder<Sink>>),
}

impl Decoder {
    pub(super) fn new(coding: Coding) -> Self {
        match coding {
            Coding::Identity => Self::Identity,
            Coding::Gzip => Self::Gzip(Box::new(MultiGzDecoder::new(Sink::default()))),
            Coding::Deflate => Self::Undecided(None),
        }
    }

    /// Decodes one more piece behind what is in `out`. After an error it must not be used again.
    ///
    /// # Errors
    /// [`Unreadable`].
    pub(super) fn push(&mut self, piece: &[u8], out: &mut Vec<u8>) -> Result<(), Unreadable> {
        if piece.is_empty() {
            return Ok(());
        }
        match self {
            Self::Identity => out.extend_from_slice(piece),
            Self::Gzip(decoder) => {
                decoder.get_mut().came(piece);
                decode(decoder, piece)?;
                out.append(&mut decoder.get_mut().decoded);
            }
            Self::Zlib(decoder) => {
                decoder.get_mut().came(piece);
                decode(decoder, piece)?;
                out.append(&mut decoder.get_mut().decoded);
            }
            Self::Bare(decoder) => {
                decoder.get_mut().came(piece);
                decode(decoder, piece)?;
                out.append(&mut decoder.get_mut().decoded);
            }
            Self::Undecided(first) => match (*first, piece) {
                (None, [only]) => *first = Some(*only),
                (None, [first, second, ..]) => {
                    *self = Self::deflate(*first, *second);
                    return self.push(piece, out);
                }
                (Some(first), [second, ..]) => {
                    *self = Self::deflate(first, *second);
                    self.push(&[first], out)?;
                    return self.push(piece, out);
                }
                (_, []) => {}
            },
        }
        Ok(())
    }

    /// Tells zlib's format from the bare one by its header (RFC 1950, 2.2).
    fn deflate(first: u8, second: u8) -> Self {
        let method_is_deflate = first & 0x0f == 8 && first >> 4 <= 7;
        if method_is_deflate && u16::from_be_bytes([first, second]).is_multiple_of(31) {
            Self::Zlib(Box::new(ZlibDecoder::new(Sink::default())))
        } else {
            Self::Bare(Box::new(DeflateDecoder::new(Sink::default())))
        }
    }

    /// The end came: decodes the rest. A body of no bytes at all is empty, whatever its coding.
    ///
    /// # Errors
    /// [`Unreadable`] where the coding does not end here.
    pub(super) fn finish(self, out: &mut Vec<u8>) -> Result<(), Unreadable> {
        let sink = match self {
            Self::Identity | Self::Undecided(None) => return Ok(()),
            Self::Undecided(Some(_)) => return Err(Unreadable),
            Self::Gzip(decoder) if decoder.get_ref().encoded == 0 => return Ok(()),
            Self::Gzip(decoder) => decoder.finish(),
            Self::Zlib(decoder) => decoder.finish(),
            Self::Bare(decoder) => decoder.finish(),
        };
        out.append(&mut sink.map_err(|_| Unreadable)?.decoded);
        Ok(())
    }
}

/// Decodes all of a piece, up to the last byte that can be decoded by now: a stream of events waits for it.
fn decode(decoder: &mut impl Write, piece: &[u8]) -> Result<(), Unreadable> {
    decoder
        .write_all(piece)
        .and_then(|()| decoder.flush())
        .map_err(|_| Unreadable)
}

/// Takes what was decoded, up to the bound.
#[derive(Default)]
pub(super) struct Sink {
    decoded: Vec<u8>,
    /// Bytes that came, in all.
    encoded: u64,
    /// Bytes that were decoded, in all.
    total: u64,
}

impl Sink {
    fn came(&mut self, piece: &[u8]) {
        self.encoded = self.encoded.saturating_add(piece.len() as u64);
    }
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.total = self.total.saturating_add(bytes.len() as u64);
        let most = self
            .encoded
            .saturating_mul(MAX_GROWTH)
            .saturating_add(FREE_BYTES);
        if self.total > most {
            return Err(io::Error::other("grows too much"));
        }
        self.decoded.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
