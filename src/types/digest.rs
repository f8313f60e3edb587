//! SHA-256 digests as a value: what content is known by in the store and in the audit log.

use std::fmt;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256 as Hasher};

/// Bytes of a SHA-256 digest.
const DIGEST_BYTES: usize = 32;

/// Text that is not a digest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a SHA-256 digest: expected {} lower-case hexadecimal digits", DIGEST_BYTES * 2)]
pub struct DigestError;

/// The SHA-256 of some content. Its text is 64 lower-case hexadecimal digits, safe in file names.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Sha256([u8; DIGEST_BYTES]);

impl Sha256 {
    /// What stands where there is nothing before: the start of a chain.
    pub const ZERO: Self = Self([0; DIGEST_BYTES]);

    /// The digest of `bytes`.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        Self(Hasher::digest(bytes).into())
    }

    /// A digest that was computed as content flowed by, or a keyed one.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; DIGEST_BYTES]) -> Self {
        Self(bytes)
    }

    /// The digest itself.
    #[must_use]
    pub const fn to_bytes(self) -> [u8; DIGEST_BYTES] {
        self.0
    }

    /// Parses the text form; anything but the exact form is refused, since it names files.
    pub fn parse(text: &str) -> Result<Self, DigestError> {
        let text = text.as_bytes();
        if text.len() != DIGEST_BYTES * 2 {
            return Err(DigestError);
        }
        let digit = |byte: u8| match byte {
            b'0'..=b'9' => Ok(byte - b'0'),
            b'a'..=b'f' => Ok(byte - b'a' + 10),
            _ => Err(DigestError),
        };
        let mut bytes = [0; DIGEST_BYTES];
        for (byte, pair) in bytes.iter_mut().zip(text.chunks_exact(2)) {
            *byte = digit(pair[0])? << 4 | digit(pair[1])?;
        }
        Ok(Self(bytes))
    }
}

impl fmt::Display for Sha256 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Sha256 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl TryFrom<String> for Sha256 {
    type Error = DigestError;
    fn try_from(text: String) -> Result<Self, DigestError> {
        Self::parse(&text)
    }
}

impl From<Sha256> for String {
    fn from(digest: Sha256) -> Self {
        digest.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_is_the_known_one_and_survives_its_text() {
        let empty = Sha256::of(b"");
        let text = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(empty.to_string(), text);
        assert_eq!(Sha256::parse(text), Ok(empty));
        for bad in [
            "",
            &text[1..],
            &text.to_uppercase(),
            &"é".repeat(32),
            &"../".repeat(22)[..64],
        ] {
            assert_eq!(Sha256::parse(bad), Err(DigestError), "{bad}");
        }
    }
}
