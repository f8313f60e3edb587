//! What a program may reach, decided.

use std::sync::Arc;

use crate::{config::Profile, types::NO_NETWORK};

/// What a program may reach. Its container never has an interface but loopback, whatever this says, so that any
/// sandbox can serve any network: a profile is served through the tether, while a program runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Network {
    /// Nothing at all: the closed default.
    #[default]
    None,
    /// What this profile of the operator's allows.
    Profile(Arc<Profile>),
}

impl Network {
    /// The name shown in results and written to the audit log.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::None => NO_NETWORK,
            Self::Profile(profile) => profile.name.as_str(),
        }
    }

    /// The profile, if there is one.
    #[must_use]
    pub fn profile(&self) -> Option<&Arc<Profile>> {
        match self {
            Self::None => None,
            Self::Profile(profile) => Some(profile),
        }
    }
}
