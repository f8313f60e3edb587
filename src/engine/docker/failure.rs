//! What a failed call means, in our own words and the daemon's, bounded.

use std::{error::Error as StdError, io::ErrorKind, time::Duration};

use bollard::errors::Error;

use crate::engine::daemon::{DaemonError, quoted};

/// Links of a chain of errors that are followed.
const MAX_CHAIN: usize = 16;

/// Sorts the client's error.
pub(super) fn of(
    call: &'static str,
    limit: Duration,
    endpoint: &str,
    error: &Error,
) -> DaemonError {
    match error {
        Error::DockerResponseServerError {
            status_code,
            message,
        } => {
            let why = quoted(message);
            match status_code {
                404 => DaemonError::NotFound { call, why },
                409 => DaemonError::Conflict { call, why },
                _ => DaemonError::Failed { call, why },
            }
        }
        Error::RequestTimeoutError => DaemonError::Timeout {
            call,
            seconds: limit.as_secs(),
        },
        Error::HyperLegacyError { .. }
        | Error::HyperResponseError { .. }
        | Error::IOError { .. }
        | Error::SocketNotFoundError(_) => DaemonError::Unreachable {
            endpoint: endpoint.to_owned(),
            why: reason(error),
        },
        // The client's other errors are of one kind for us: the call did not do what it should.
        other => DaemonError::Failed {
            call,
            why: quoted(&other.to_string()),
        },
    }
}

/// The innermost cause, which is the one that people know ("connection refused"), with advice where there is some.
pub(super) fn reason(error: &Error) -> String {
    let first: &dyn StdError = match error {
        // It passes its cause off as itself.
        Error::IOError { err } => err,
        other => other,
    };
    let chain: Vec<&dyn StdError> =
        std::iter::successors(Some(first), |link| StdError::source(*link))
            .take(MAX_CHAIN)
            .collect();
    let denied = chain.iter().any(|error| {
        error
            .downcast_ref::<std::io::Error>()
            .is_some_and(|error| error.kind() == ErrorKind::PermissionDenied)
    });
    if denied {
        return "permission denied; add yourself to the group `docker` (`sudo usermod -aG docker $USER`, then log in again)"
            .to_owned();
    }
    chain
        .last()
        .map_or_else(String::new, |error| quoted(&error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_daemon_s_own_words_are_bounded() {
        let error = Error::DockerResponseServerError {
            status_code: 500,
            message: "\u{1b}[2J".repeat(1000),
        };
        let DaemonError::Failed { why, .. } = of("x", Duration::ZERO, "unix:///x", &error) else {
            panic!("sorted wrongly")
        };
        assert!(why.len() < 1000 && !why.contains('\u{1b}'));
    }

    #[test]
    fn a_socket_without_permission_says_what_to_do() {
        let error = Error::IOError {
            err: ErrorKind::PermissionDenied.into(),
        };
        let text = of("x", Duration::ZERO, "unix:///x", &error).to_string();
        assert!(text.contains("usermod"), "{text}");
    }
}
