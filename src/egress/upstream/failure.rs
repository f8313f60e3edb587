//! What went wrong on the way to a server, in the few words that a program can act on.

use std::{error::Error, io};

use tokio_rustls::rustls::{self, CertificateError};

use crate::egress::{
    dial::{CertificateFault, DialError, UpstreamFailure},
    meter::denial_of,
};

/// The first error of a chain that says what happened.
pub(super) fn of(error: &(dyn Error + 'static)) -> DialError {
    let mut link = Some(error);
    while let Some(error) = link {
        if let Some(known) = known(error) {
            return known;
        }
        link = error.source();
    }
    // The connection was there and the answer is not: closed, reset, or no HTTP.
    DialError::Failed(UpstreamFailure::Reset)
}

/// Why a handshake failed.
pub(super) fn of_handshake(error: &io::Error) -> DialError {
    known(error).unwrap_or(DialError::Failed(UpstreamFailure::Tls))
}

fn fault(error: &CertificateError) -> CertificateFault {
    match error {
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            CertificateFault::Expired
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            CertificateFault::NotYetValid
        }
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            CertificateFault::OtherHost
        }
        // An authority of a known name and another key is an unknown one.
        CertificateError::UnknownIssuer | CertificateError::BadSignature => {
            CertificateFault::UnknownIssuer
        }
        _ => CertificateFault::Invalid,
    }
}

fn known(error: &(dyn Error + 'static)) -> Option<DialError> {
    if let Some(error) = error.downcast_ref::<DialError>() {
        return Some(*error);
    }
    if let Some(error) = error.downcast_ref::<rustls::Error>() {
        return Some(DialError::Failed(match error {
            rustls::Error::InvalidCertificate(error) => UpstreamFailure::Certificate(fault(error)),
            _ => UpstreamFailure::Tls,
        }));
    }
    if let Some(error) = error.downcast_ref::<hyper::Error>()
        && error.is_parse()
    {
        return Some(DialError::Failed(UpstreamFailure::Protocol));
    }
    let error = error.downcast_ref::<io::Error>()?;
    if let Some(denial) = denial_of(error) {
        return Some(DialError::Denied(denial));
    }
    // The source of an `io::Error` is that of the error inside, not the error inside.
    if let Some(inner) = error.get_ref().and_then(|inner| known(inner)) {
        return Some(inner);
    }
    let failure = match error.kind() {
        io::ErrorKind::TimedOut => UpstreamFailure::Timeout,
        io::ErrorKind::ConnectionReset
        | io::ErrorKind::ConnectionAborted
        | io::ErrorKind::BrokenPipe
        | io::ErrorKind::UnexpectedEof => UpstreamFailure::Reset,
        _ => return None,
    };
    Some(DialError::Failed(failure))
}
