//! The names of networks, and how long what goes out over one may be called.

use std::fmt;

/// The name that means no network at all; no profile can have it.
pub const NO_NETWORK: &str = "none";
/// The name under which packages are fetched; no profile of the operator's can have it.
const PACKAGES_NETWORK: &str = "packages";
/// The longest name of a profile, in bytes.
const MAX_PROFILE_NAME_BYTES: usize = 64;
/// The longest method of a request, in bytes; longer than any that is registered. As with targets.
pub const MAX_METHOD_BYTES: usize = 64;
/// The longest target of a request, path and query, in bytes: what servers take at most. Stops a program from sending
/// more in one than the audit log keeps of it.
pub const MAX_TARGET_BYTES: usize = 8 * 1024;

/// The name of an egress profile: ASCII letters, digits, `-`, `_` and `.`, and not `none`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ProfileName(String);

/// Text that names no profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "names have up to {MAX_PROFILE_NAME_BYTES} letters, digits, `-`, `_` and `.`, and `{NO_NETWORK}` and `{PACKAGES_NETWORK}` are taken"
)]
pub struct ProfileNameError;

impl ProfileName {
    /// Parses a name.
    ///
    /// # Errors
    /// [`ProfileNameError`].
    pub fn parse(text: &str) -> Result<Self, ProfileNameError> {
        let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
        let right = !text.is_empty()
            && text.len() <= MAX_PROFILE_NAME_BYTES
            && ![NO_NETWORK, PACKAGES_NETWORK].contains(&text)
            && text.bytes().all(plain);
        if right {
            Ok(Self(text.to_owned()))
        } else {
            Err(ProfileNameError)
        }
    }

    /// The name under which packages are fetched before a program; the operator cannot give it to a profile.
    #[must_use]
    pub fn of_packages() -> Self {
        Self(PACKAGES_NETWORK.to_owned())
    }

    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ProfileName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
