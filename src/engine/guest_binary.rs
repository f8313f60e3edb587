//! The guest's binaries, one for each architecture that a daemon may have.
//!
//! They are built with the server by `build.rs`, so that both speak the same protocol, and picked by
//! the daemon's architecture, never by the server's own.

use std::sync::LazyLock;

use sha2::{Digest as _, Sha256};

static X86_64: &[u8] = include_bytes!(concat!(
    env!("OUT_DIR"),
    "/belljar-guest-x86_64-unknown-linux-musl"
));
static AARCH64: &[u8] = include_bytes!(concat!(
    env!("OUT_DIR"),
    "/belljar-guest-aarch64-unknown-linux-musl"
));

static X86_64_VERSION: LazyLock<String> = LazyLock::new(|| version_of(X86_64));
static AARCH64_VERSION: LazyLock<String> = LazyLock::new(|| version_of(AARCH64));

/// Hexadecimal digits in a version. Half of a SHA-256: nobody but us chooses the content, and a
/// volume's name should stay readable.
const VERSION_DIGITS: usize = 32;

/// An architecture that there is a guest for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Architecture {
    /// 64-bit x86.
    X86_64,
    /// 64-bit ARM.
    Aarch64,
}

impl Architecture {
    /// Parses what a daemon or an image calls its architecture; `None` if there is no guest for it.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        match name {
            "x86_64" | "amd64" => Some(Self::X86_64),
            "aarch64" | "arm64" => Some(Self::Aarch64),
            _ => None,
        }
    }

    /// The static binary that runs as PID 1 in a container of this architecture.
    #[must_use]
    pub fn guest(self) -> &'static [u8] {
        match self {
            Self::X86_64 => X86_64,
            Self::Aarch64 => AARCH64,
        }
    }

    /// Names this very binary: 32 hexadecimal digits of its hash. A volume that carries it in its
    /// name is never taken for another build's.
    #[must_use]
    pub fn guest_version(self) -> &'static str {
        match self {
            Self::X86_64 => &X86_64_VERSION,
            Self::Aarch64 => &AARCH64_VERSION,
        }
    }
}

fn version_of(binary: &[u8]) -> String {
    use std::fmt::Write as _;
    let mut version = String::with_capacity(VERSION_DIGITS);
    for byte in Sha256::digest(binary).iter().take(VERSION_DIGITS / 2) {
        // Writing to a string cannot fail.
        let _ = write!(version, "{byte:02x}");
    }
    version
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `e_machine` of an ELF file.
    fn machine(binary: &[u8]) -> u16 {
        u16::from_le_bytes([binary[18], binary[19]])
    }

    #[test]
    fn each_binary_is_for_its_architecture() {
        assert_eq!(machine(Architecture::X86_64.guest()), 62);
        assert_eq!(machine(Architecture::Aarch64.guest()), 183);
    }

    #[test]
    fn versions_are_of_the_content() {
        let (x86, arm) = (
            Architecture::X86_64.guest_version(),
            Architecture::Aarch64.guest_version(),
        );
        assert_eq!(x86.len(), VERSION_DIGITS);
        assert_ne!(x86, arm);
        assert_eq!(version_of(b""), "e3b0c44298fc1c149afbf4c8996fb924");
    }

    #[test]
    fn both_spellings_are_understood_and_others_refused() {
        assert_eq!(Architecture::parse("amd64"), Some(Architecture::X86_64));
        assert_eq!(Architecture::parse("x86_64"), Some(Architecture::X86_64));
        assert_eq!(Architecture::parse("arm64"), Some(Architecture::Aarch64));
        assert_eq!(Architecture::parse("aarch64"), Some(Architecture::Aarch64));
        assert_eq!(Architecture::parse("riscv64"), None);
    }

    #[test]
    fn no_path_of_the_building_machine_is_inside() {
        let needle = env!("CARGO_MANIFEST_DIR").as_bytes();
        for binary in [X86_64, AARCH64] {
            assert!(!binary.windows(needle.len()).any(|window| window == needle));
        }
    }
}
