//! The network axis of a sandbox.

use std::fmt;

/// The name that means no network at all; no profile can have it.
pub const NO_NETWORK: &str = "none";
/// The longest name of a profile, in bytes.
const MAX_PROFILE_NAME_BYTES: usize = 64;

/// What a sandbox may reach. The container never has an interface but loopback, whatever this says:
/// a profile is served through the tether.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum Network {
    /// Nothing at all: the closed default.
    #[default]
    None,
    /// What this profile of the operator's allows.
    Profile(ProfileName),
}

impl Network {
    /// The name shown in results and written to the audit log.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::None => NO_NETWORK,
            Self::Profile(name) => name.as_str(),
        }
    }
}

/// The name of an egress profile: ASCII letters, digits, `-`, `_` and `.`, and not `none`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ProfileName(String);

/// Text that names no profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "names have up to {MAX_PROFILE_NAME_BYTES} letters, digits, `-`, `_` and `.`, and `{NO_NETWORK}` is taken"
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
            && text != NO_NETWORK
            && text.bytes().all(plain);
        if right {
            Ok(Self(text.to_owned()))
        } else {
            Err(ProfileNameError)
        }
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
