//! Unguessable ids. An id is a capability only together with its caller, but it is made so that
//! guessing one is hopeless all the same.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Random bytes in an id: 128 bits, so that ids can be neither guessed nor met by accident.
const ID_BYTES: usize = 16;

/// A string that is not an id of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not an id: expected {} lower-case hexadecimal digits", ID_BYTES * 2)]
pub struct IdError;

/// Fresh randomness from the operating system, in lower-case hexadecimal.
///
/// # Panics
/// Where the operating system has no randomness to give, no id may be made at all.
#[must_use]
#[expect(
    clippy::expect_used,
    reason = "without randomness every id would be guessable: stop"
)]
pub(crate) fn random_hex<const N: usize>() -> String {
    let mut bytes = [0u8; N];
    getrandom::fill(&mut bytes).expect("the operating system gives randomness");
    bytes
        .iter()
        .fold(String::with_capacity(N * 2), |mut text, byte| {
            use fmt::Write as _;
            let _ = write!(text, "{byte:02x}");
            text
        })
}

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(String);

        impl $name {
            /// A new id of 128 random bits.
            #[must_use]
            pub fn random() -> Self {
                Self(random_hex::<ID_BYTES>())
            }

            /// Parses what a client or a file says; anything but the exact form is refused.
            pub fn parse(text: &str) -> Result<Self, IdError> {
                let right = text.len() == ID_BYTES * 2
                    && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
                if right { Ok(Self(text.to_owned())) } else { Err(IdError) }
            }

            /// The id as text: safe in file names, labels and URIs.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl TryFrom<String> for $name {
            type Error = IdError;
            fn try_from(text: String) -> Result<Self, IdError> {
                Self::parse(&text)
            }
        }

        impl From<$name> for String {
            fn from(id: $name) -> Self {
                id.0
            }
        }
    };
}

id!(
    /// One running server. Its lock file says whether it lives.
    InstanceId
);
id!(
    /// One container, and, once it is leased, the session that it serves.
    SandboxId
);
id!(
    /// One run of one program.
    RunId
);
id!(
    /// One kept output or file, as its caller knows it.
    ArtifactId
);
id!(
    /// One uploaded file, held for later runs.
    FileId
);

impl RunId {
    /// The id of a run that has a sandbox of its own: the sandbox's, which its container bears as a label.
    #[must_use]
    pub fn of_sandbox(id: &SandboxId) -> Self {
        Self(id.0.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_survives_its_own_text_and_nothing_else_parses() {
        let id = RunId::random();
        assert_eq!(RunId::parse(id.as_str()), Ok(id.clone()));
        assert_ne!(id, RunId::random());
        for bad in [
            "",
            "00",
            &"A".repeat(32),
            &"g".repeat(32),
            &"0".repeat(33),
            "../../../../../../../../etc/passw",
        ] {
            assert_eq!(RunId::parse(bad), Err(IdError), "{bad}");
        }
    }
}
