//! The strong digests by which files of packages are known.

use std::fmt;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use sha2::{Digest as _, Sha256, Sha512};

/// Bytes of the two digests.
const SHA256_BYTES: usize = 32;
const SHA512_BYTES: usize = 64;

/// A SHA-256 or SHA-512 of a whole file. Weaker ones are no proof of anything, so there is no value for them.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Digest {
    /// Python's.
    Sha256([u8; SHA256_BYTES]),
    /// JavaScript's.
    Sha512([u8; SHA512_BYTES]),
}

impl Digest {
    /// Parses lower-case hexadecimal digits, of which there are as many as one of the digests has.
    pub(crate) fn parse_hex(text: &str) -> Option<Self> {
        if let Some(bytes) = unhex(text) {
            return Some(Self::Sha256(bytes));
        }
        unhex(text).map(Self::Sha512)
    }

    /// The SHA-512 of a value of subresource integrity, which is what npm calls `integrity`: digests apart by white space,
    /// each `<name>-<base64>`.
    pub(crate) fn of_integrity(text: &str) -> Option<Self> {
        let base64 = text
            .split_ascii_whitespace()
            .find_map(|one| one.strip_prefix("sha512-"))?;
        let base64 = base64.split('?').next().unwrap_or_default();
        let bytes = STANDARD.decode(base64).ok()?;
        Some(Self::Sha512(bytes.try_into().ok()?))
    }

    /// The form that npm reads; none for Python's.
    pub(crate) fn integrity(&self) -> Option<String> {
        match self {
            Self::Sha256(_) => None,
            Self::Sha512(bytes) => Some(format!("sha512-{}", STANDARD.encode(bytes))),
        }
    }

    /// The file's name in the cache.
    pub(crate) fn file_name(&self) -> String {
        match self {
            Self::Sha256(_) => format!("sha256-{self}"),
            Self::Sha512(_) => format!("sha512-{self}"),
        }
    }

    /// Begins to compute a digest of the same kind.
    pub(crate) fn hasher(&self) -> Hasher {
        match self {
            Self::Sha256(_) => Hasher::Sha256(Sha256::new()),
            Self::Sha512(_) => Hasher::Sha512(Box::new(Sha512::new())),
        }
    }
}

/// Lower-case hexadecimal digits.
impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes: &[u8] = match self {
            Self::Sha256(bytes) => bytes,
            Self::Sha512(bytes) => bytes,
        };
        bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file_name())
    }
}

impl From<crate::types::Sha256> for Digest {
    fn from(digest: crate::types::Sha256) -> Self {
        Self::Sha256(digest.to_bytes())
    }
}

/// A digest under way.
#[derive(Debug)]
pub(crate) enum Hasher {
    Sha256(Sha256),
    Sha512(Box<Sha512>),
}

impl Hasher {
    pub(crate) fn update(&mut self, bytes: &[u8]) {
        match self {
            Self::Sha256(hasher) => hasher.update(bytes),
            Self::Sha512(hasher) => hasher.update(bytes),
        }
    }

    pub(crate) fn finish(self) -> Digest {
        match self {
            Self::Sha256(hasher) => Digest::Sha256(hasher.finalize().into()),
            Self::Sha512(hasher) => Digest::Sha512(hasher.finalize().into()),
        }
    }
}

fn unhex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let text = text.as_bytes();
    if text.len() != 2 * N {
        return None;
    }
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    let mut bytes = [0; N];
    for (byte, pair) in bytes.iter_mut().zip(text.chunks_exact(2)) {
        *byte = digit(pair[0])? << 4 | digit(pair[1])?;
    }
    Some(bytes)
}

#[cfg(test)]
pub(crate) fn sha256(bytes: &[u8]) -> Digest {
    let mut hasher = Hasher::Sha256(Sha256::new());
    hasher.update(bytes);
    hasher.finish()
}

#[cfg(test)]
pub(crate) fn sha512(bytes: &[u8]) -> Digest {
    let mut hasher = Hasher::Sha512(Box::default());
    hasher.update(bytes);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_survives_its_text_forms() {
        let (short, long) = (sha256(b"a"), sha512(b"a"));
        assert_eq!(Digest::parse_hex(&short.to_string()), Some(short));
        assert_eq!(Digest::parse_hex(&long.to_string()), Some(long));
        assert_eq!(Digest::of_integrity(&long.integrity().unwrap()), Some(long));
        assert_eq!(short.integrity(), None);
        assert_eq!(
            Digest::of_integrity(&format!("sha1-AAAA {}?x", long.integrity().unwrap())),
            Some(long)
        );
    }

    #[test]
    fn a_weak_or_malformed_digest_is_none() {
        let long = sha512(b"a");
        for bad in [
            "",
            "0cc175b9c0f1b6a831c399e269772661",
            "86f7e437faa5a7fce15d1ddcb9eaeaea377667b8",
            &sha256(b"a").to_string().to_uppercase(),
            &long.to_string()[1..],
            &"../".repeat(22)[..64],
            &"é".repeat(32),
        ] {
            assert_eq!(Digest::parse_hex(bad), None, "{bad}");
        }
        for bad in [
            "",
            "sha1-hvfkN/qlp/zhXR3cuerq6jd2Z7g=",
            "sha512-",
            "sha512-AAAA",
            "sha384-AAAA",
            &long.to_string(),
        ] {
            assert_eq!(Digest::of_integrity(bad), None, "{bad}");
        }
    }
}
