//! Names into vetted addresses, and connections to exactly these.

use std::{
    io,
    net::{IpAddr, SocketAddr, ToSocketAddrs as _, UdpSocket},
    sync::Arc,
    time::Duration,
};

use tokio::{
    net::TcpStream,
    task::spawn_blocking,
    time::{Instant, timeout, timeout_at},
};

use super::{ledger::Refused, meter::Metered, relay::Shared};
use crate::{
    policy::{self, EgressDenial},
    types::{DnsName, Endpoint, Host},
};

/// How long a name may take to be resolved. Stops a slow resolver from holding the places of connections.
const RESOLVE: Duration = Duration::from_secs(10);
/// The most addresses of one name. Stops a name with thousands of them from being a scan.
const MAX_ADDRESSES: usize = 16;
/// The most names of one run that are resolved at a time; more wait. Each takes a thread of those that also serve files,
/// for as long as the system's resolver tries. Stops a run with many names, or one that nobody resolves, from taking all.
pub(super) const MAX_LOOKUPS: usize = 8;
/// How long one address may take to answer.
const CONNECT: Duration = Duration::from_secs(5);
/// How long all addresses of one name may take together.
const CONNECT_IN_ALL: Duration = Duration::from_secs(15);

/// Why there is no connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum DialError {
    /// It is not allowed; recorded already.
    #[error(transparent)]
    Denied(EgressDenial),
    /// It was tried.
    #[error(transparent)]
    Failed(UpstreamFailure),
}

/// What is wrong on the other side. No denial: to try again may help.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub(super) enum UpstreamFailure {
    /// The name has no address.
    #[error("the name has no address")]
    Unresolvable,
    /// Nobody answers there.
    #[error("no connection to the server")]
    Unreachable,
    /// Too slow.
    #[error("the server took too long")]
    Timeout,
    /// The server cut the connection.
    #[error("the server ended the connection too early")]
    Reset,
    /// Its certificate is no good.
    #[error(transparent)]
    Certificate(CertificateFault),
    /// No TLS with it for another reason.
    #[error("no TLS connection with the server")]
    Tls,
    /// What it answers is no HTTP.
    #[error("the server's answer is no valid HTTP")]
    Protocol,
    /// A secret that the request needs is not available.
    #[error("a secret that this request needs is not available")]
    SecretUnavailable,
}

/// What is wrong with a server's certificate. Its own words are not shown, since the server chose them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub(super) enum CertificateFault {
    /// Out of its time.
    #[error("the server's certificate has expired")]
    Expired,
    /// Ahead of its time.
    #[error("the server's certificate is not valid yet")]
    NotYetValid,
    /// Another host's.
    #[error("the server's certificate is for another host")]
    OtherHost,
    /// Of an authority that is unknown here.
    #[error(
        "the server's certificate is signed by nobody who is trusted: the operator can add its authority with upstream_ca"
    )]
    UnknownIssuer,
    /// Something else.
    #[error("the server's certificate is not valid")]
    Invalid,
}

impl UpstreamFailure {
    /// The constant name of the reason.
    pub(super) fn reason(self) -> &'static str {
        match self {
            Self::Unresolvable => "unresolvable",
            Self::Unreachable => "upstream_unreachable",
            Self::Timeout => "upstream_timeout",
            Self::Reset => "upstream_reset",
            Self::Certificate(_) => "upstream_certificate",
            Self::Tls => "upstream_tls",
            Self::Protocol => "upstream_protocol",
            Self::SecretUnavailable => "secret_unavailable",
        }
    }

    /// 504 for what took too long, 502 for the rest.
    pub(super) fn status(self) -> u16 {
        match self {
            Self::Timeout => 504,
            _ => 502,
        }
    }
}

/// Connects to a vetted address of `endpoint`, whose request or connection was allowed by the ledger.
///
/// # Errors
/// [`DialError`].
pub(super) async fn connect(
    shared: &Shared,
    endpoint: &Endpoint,
) -> Result<Metered<TcpStream>, DialError> {
    let record = |address| shared.ledger.dials(endpoint, address);
    connect_each(shared, endpoint, record).await
}

/// As [`connect`], and asks `before` with the address each time before one is dialled.
///
/// # Errors
/// [`DialError`]; what `before` denies is recorded by itself.
pub(super) async fn connect_each(
    shared: &Shared,
    endpoint: &Endpoint,
    before: impl Fn(IpAddr) -> Result<(), EgressDenial>,
) -> Result<Metered<TcpStream>, DialError> {
    let deadline = Instant::now() + CONNECT_IN_ALL;
    let mut failure = UpstreamFailure::Unresolvable;
    let socket = timeout_at(deadline, shared.ledger.places.socket())
        .await
        .map_err(|_| {
            let denial = EgressDenial::TooManyConnections;
            DialError::Denied(shared.ledger.denied(Refused::Endpoint(endpoint), denial))
        })?
        .map_err(DialError::Denied)?;
    for address in vetted(shared, endpoint).await? {
        before(address.ip()).map_err(DialError::Denied)?;
        let each = deadline.min(Instant::now() + CONNECT);
        failure = match timeout_at(each, TcpStream::connect(address)).await {
            // Whoever sits between must not have made another address of it.
            Ok(Ok(stream)) if stream.peer_addr().ok() == Some(address) => {
                // Small writes are what TLS and HTTP/2 are made of; without it the program waits, and nothing else.
                let _ = stream.set_nodelay(true);
                return Ok(
                    Metered::new(stream, shared.ledger.clone(), endpoint.clone()).holding(socket),
                );
            }
            Ok(_) => UpstreamFailure::Unreachable,
            Err(_) => UpstreamFailure::Timeout,
        };
    }
    Err(DialError::Failed(failure))
}

/// The addresses of `endpoint` that may be dialled, at least one.
async fn vetted(shared: &Shared, endpoint: &Endpoint) -> Result<Vec<SocketAddr>, DialError> {
    let found = resolve(shared, endpoint).await.map_err(DialError::Failed)?;
    let allowed: Vec<SocketAddr> = found
        .into_iter()
        .map(|ip| ip.to_canonical())
        .filter(|ip| {
            policy::egress::address(*ip, is_own(*ip), &shared.profile.allow_private).is_ok()
        })
        .map(|ip| SocketAddr::new(ip, endpoint.port))
        .collect();
    if allowed.is_empty() {
        let denial = EgressDenial::AddressDenied;
        return Err(DialError::Denied(
            shared.ledger.denied(Refused::Endpoint(endpoint), denial),
        ));
    }
    Ok(allowed)
}

/// Whether the system's resolver, and with it servers outside, will be asked for the name of `endpoint`.
pub(super) fn is_looked_up(shared: &Shared, endpoint: &Endpoint) -> bool {
    match &endpoint.host {
        Host::Name(name) => !shared.profile.resolve.contains_key(name),
        Host::Ip(_) => false,
    }
}

/// The addresses of a host, at least one and at most [`MAX_ADDRESSES`]: what the profile says, or else the system's
/// resolver.
async fn resolve(shared: &Shared, endpoint: &Endpoint) -> Result<Vec<IpAddr>, UpstreamFailure> {
    let name = match &endpoint.host {
        Host::Ip(address) => return Ok(vec![*address]),
        Host::Name(name) => name,
    };
    let mut found: Vec<IpAddr> = match shared.profile.resolve.get(name) {
        Some(addresses) => addresses.clone(),
        None => timeout(RESOLVE, look_up(shared, name.clone(), endpoint.port))
            .await
            .map_err(|_| UpstreamFailure::Timeout)?
            .map_err(|_| UpstreamFailure::Unresolvable)?,
    };
    found.truncate(MAX_ADDRESSES);
    if found.is_empty() {
        return Err(UpstreamFailure::Unresolvable);
    }
    Ok(found)
}

/// Asks the system's resolver, which cannot be interrupted: its place is free when it has ended, not when nobody waits
/// for it any more.
async fn look_up(shared: &Shared, name: DnsName, port: u16) -> io::Result<Vec<IpAddr>> {
    let place = Arc::clone(&shared.lookups).acquire_owned().await;
    let place = place.map_err(io::Error::other)?;
    let asked = spawn_blocking(move || {
        let _place = place;
        let found = (name.as_str(), port).to_socket_addrs()?;
        Ok(found.map(|address| address.ip()).collect())
    });
    asked.await?
}

/// Whether an address is one of this machine's: only these can be bound to. Whatever else goes wrong counts as yes, and
/// so does every address where the system lets a program bind to those of others (`ip_nonlocal_bind`).
fn is_own(address: IpAddr) -> bool {
    match UdpSocket::bind((address, 0)) {
        Ok(_) => true,
        // Also where the machine has no such protocol: then it has no such address either.
        Err(error) => !matches!(
            error.kind(),
            io::ErrorKind::AddrNotAvailable | io::ErrorKind::Unsupported
        ),
    }
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;
    use crate::{
        config::Profile,
        egress::fixtures::{Notes, shared},
        policy::egress::fixtures::{endpoint, profile, rule},
    };

    fn name(text: &str) -> DnsName {
        match Host::parse(text).unwrap() {
            Host::Name(name) => name,
            Host::Ip(_) => panic!("{text} is an address"),
        }
    }

    async fn listening() -> (TcpListener, u16) {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        (listener, port)
    }

    fn resolving(addresses: &[&str], open: &[&str]) -> Profile {
        let mut profile = profile(vec![rule("lab.test:443")]);
        let addresses = addresses.iter().map(|ip| ip.parse().unwrap()).collect();
        profile.resolve.insert(name("lab.test"), addresses);
        profile.allow_private = open.iter().map(|net| net.parse().unwrap()).collect();
        profile
    }

    async fn failing(profile: Profile, at: &str) -> (DialError, Vec<&'static str>) {
        let notes = Notes::shared();
        let shared = shared(profile, &notes);
        let error = connect(&shared, &endpoint(at)).await.unwrap_err();
        let reasons = notes
            .all()
            .iter()
            .map(|seen| seen.verdict.err().map_or("allowed", EgressDenial::reason))
            .collect();
        (error, reasons)
    }

    #[tokio::test]
    async fn a_name_is_dialled_at_the_address_that_the_profile_says() {
        let (listener, port) = listening().await;
        let shared = shared(
            resolving(&["127.0.0.1"], &["127.0.0.1/32"]),
            &Notes::shared(),
        );
        let at = endpoint(&format!("lab.test:{port}"));
        let (connected, accepted) = tokio::join!(connect(&shared, &at), listener.accept());
        assert!(connected.is_ok());
        assert!(accepted.is_ok());
    }

    #[tokio::test]
    async fn a_name_with_only_denied_addresses_is_denied_and_recorded() {
        let profile = resolving(&["127.0.0.1", "10.0.0.1", "::1", "169.254.169.254"], &[]);
        let (error, reasons) = failing(profile, "lab.test:443").await;
        assert_eq!(error, DialError::Denied(EgressDenial::AddressDenied));
        assert_eq!(reasons, ["address_denied"]);
    }

    #[tokio::test]
    async fn an_address_that_a_rule_names_is_denied_all_the_same() {
        for at in [
            "127.0.0.1:80",
            "[::1]:80",
            "[::ffff:10.0.0.1]:80",
            "169.254.169.254:80",
        ] {
            let (error, reasons) = failing(profile(vec![]), at).await;
            assert_eq!(
                error,
                DialError::Denied(EgressDenial::AddressDenied),
                "{at}"
            );
            assert_eq!(reasons, ["address_denied"], "{at}");
        }
    }

    #[tokio::test]
    async fn a_denied_address_among_others_is_dropped_and_never_dialled() {
        let (listener, port) = listening().await;
        // 127.0.0.2 would be answered by the same listener's machine; it is not open.
        let profile = resolving(&["127.0.0.2", "127.0.0.1"], &["127.0.0.1/32"]);
        let shared = shared(profile, &Notes::shared());
        let at = endpoint(&format!("lab.test:{port}"));
        let dialled = std::sync::Mutex::new(Vec::new());
        let connected = connect_each(&shared, &at, |ip| {
            dialled.lock().unwrap().push(ip.to_string());
            Ok(())
        });
        let (connected, _) = tokio::join!(connected, listener.accept());
        assert!(connected.is_ok());
        assert_eq!(*dialled.lock().unwrap(), ["127.0.0.1"]);
    }

    #[tokio::test]
    async fn of_a_name_with_many_addresses_only_the_first_are_looked_at() {
        let (_listener, port) = listening().await;
        let mut addresses = vec!["127.0.0.2"; MAX_ADDRESSES];
        addresses.push("127.0.0.1");
        let profile = resolving(&addresses, &["127.0.0.1/32"]);
        let (error, _) = failing(profile, &format!("lab.test:{port}")).await;
        assert_eq!(error, DialError::Denied(EgressDenial::AddressDenied));
    }

    #[tokio::test]
    async fn the_next_address_is_tried_where_nobody_answers() {
        let (listener, port) = listening().await;
        let profile = resolving(&["127.0.0.2", "127.0.0.1"], &["127.0.0.0/8"]);
        let shared = shared(profile, &Notes::shared());
        let at = endpoint(&format!("lab.test:{port}"));
        let (connected, accepted) = tokio::join!(connect(&shared, &at), listener.accept());
        assert!(connected.is_ok());
        assert!(accepted.is_ok());
    }

    #[tokio::test]
    async fn a_server_that_is_down_is_a_failure_and_no_denial() {
        let (listener, port) = listening().await;
        drop(listener);
        let profile = resolving(&["127.0.0.1"], &["127.0.0.1/32"]);
        let (error, reasons) = failing(profile, &format!("lab.test:{port}")).await;
        assert_eq!(error, DialError::Failed(UpstreamFailure::Unreachable));
        assert_eq!(reasons, ["allowed"], "the address that was dialled");
    }

    #[tokio::test]
    async fn a_name_without_an_address_is_a_failure_and_no_denial() {
        let (error, reasons) = failing(resolving(&[], &[]), "lab.test:443").await;
        assert_eq!(error, DialError::Failed(UpstreamFailure::Unresolvable));
        assert!(reasons.is_empty());
    }

    #[tokio::test]
    async fn a_name_is_asked_for_only_when_there_is_a_place_for_it() {
        let shared = shared(profile(vec![]), &Notes::shared());
        let all = u32::try_from(MAX_LOOKUPS).unwrap();
        let taken = shared.lookups.acquire_many(all).await.unwrap();
        let mut asking = Box::pin(look_up(&shared, name("localhost"), 443));
        assert!(futures_util::poll!(&mut asking).is_pending());
        assert_eq!(shared.lookups.available_permits(), 0);
        drop(taken);
        let _ = asking.await;
        assert_eq!(shared.lookups.available_permits(), MAX_LOOKUPS);
    }

    #[tokio::test]
    async fn what_is_denied_before_an_address_is_dialled_is_not_dialled() {
        let profile = resolving(&["127.0.0.1"], &["127.0.0.1/32"]);
        let shared = shared(profile, &Notes::shared());
        let at = endpoint("lab.test:443");
        let denied = connect_each(&shared, &at, |_| Err(EgressDenial::NotRecorded));
        assert_eq!(
            denied.await.unwrap_err(),
            DialError::Denied(EgressDenial::NotRecorded)
        );
    }

    #[test]
    fn this_machines_own_addresses_are_known() {
        assert!(is_own("127.0.0.1".parse().unwrap()));
        assert!(!is_own("203.0.113.7".parse().unwrap()));
    }
}
