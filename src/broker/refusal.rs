//! Why the broker did not do what it was asked, in words that help.

/// An action that was not done. Its message is belljar's own; what it quotes from inside a sandbox is kept
/// apart, so that it is fenced before it leaves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    reason: &'static str,
    message: String,
    quoted: Option<String>,
}

impl Refusal {
    /// A refusal with a constant `reason` for the audit log and a message that says what to do.
    pub(crate) fn new(reason: &'static str, message: impl Into<String>) -> Self {
        Self { reason, message: message.into(), quoted: None }
    }

    /// Arguments that do not parse.
    pub(crate) fn arguments(message: impl Into<String>) -> Self {
        Self::new("bad_arguments", message)
    }

    /// A fault of belljar's own. The details are in its log, not in front of the model.
    pub(crate) fn internal() -> Self {
        Self::new(
            "internal",
            "the call failed inside belljar; the server goes on. Its log on standard error has the details",
        )
    }

    /// The call was taken back by its client.
    pub(crate) fn cancelled() -> Self {
        Self::new("cancelled", "the call was cancelled")
    }

    /// The server stops.
    pub(crate) fn closing() -> Self {
        Self::new("closing", "belljar is shutting down: nothing is started any more")
    }

    /// Adds text that came from inside a sandbox.
    #[must_use]
    pub(crate) fn quoting(mut self, text: impl Into<String>) -> Self {
        self.quoted = Some(text.into());
        self
    }

    /// The constant name of the reason.
    #[must_use]
    pub fn reason(&self) -> &'static str {
        self.reason
    }

    /// What happened and what to do, in belljar's own words.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }

    /// What came from inside the sandbox and must be fenced.
    #[must_use]
    pub fn quoted(&self) -> Option<&str> {
        self.quoted.as_deref()
    }
}
