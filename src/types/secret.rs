//! Text that must not be shown by accident.

use std::fmt;

use zeroize::Zeroizing;

/// A secret. It has no text form but [`Self::expose`], so that no log line, error or report shows it unasked, and its
/// memory is overwritten when it is dropped.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Zeroizing<String>);

impl Secret {
    /// Keeps `text` from being shown.
    #[must_use]
    pub fn new(text: String) -> Self {
        Self(Zeroizing::new(text))
    }

    /// The text itself, for the one place that needs it.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debugging_shows_nothing() {
        let secret = Secret::new("hunter2".to_owned());
        assert_eq!(
            format!("{secret:?} {:?}", Some(&secret)),
            "Secret(…) Some(Secret(…))"
        );
        assert_eq!(secret.expose(), "hunter2");
    }
}
