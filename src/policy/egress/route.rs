//! What becomes of a connection.

/// What becomes of a connection that is allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route {
    /// TLS that is passed through unread, once its server name was compared.
    Tunnel,
    /// TLS that is ended here, so that every request inside is decided.
    Intercept,
    /// HTTP in the clear, of which every request is decided.
    Plain,
}
