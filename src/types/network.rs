//! The network axis of a sandbox.

/// What a sandbox may reach. The container never has an interface but loopback, whatever this says:
/// a profile is served through the tether.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum Network {
    /// Nothing at all: the closed default.
    #[default]
    None,
}

impl Network {
    /// The name shown in results and written to the audit log.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::None => "none",
        }
    }
}
