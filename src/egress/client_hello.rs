//! A look at the first message of TLS: which server it names.
//!
//! rustls reads it, and refuses what is malformed; only whether it has an encrypted server name is looked for here,
//! which rustls does not tell. Nothing is taken out of the bytes: they go on as they came.

use tokio_rustls::rustls::server::Acceptor;

use crate::{policy::EgressDenial, types::Host};

/// The longest first message, in bytes as they come. Those of real clients have less than 4 KiB, with keys that resist
/// quantum computers too. Stops a message without an end from filling the memory.
pub const MAX_HELLO_BYTES: usize = 16 * 1024;

/// The content type of a record that carries a handshake.
const HANDSHAKE: u8 = 22;
/// The type of the handshake message.
const CLIENT_HELLO: u8 = 1;
/// The extension with the server's name (RFC 6066).
const SERVER_NAME: u16 = 0;
/// The extension with an encrypted client hello (RFC 9849).
const ENCRYPTED_CLIENT_HELLO: u16 = 0xfe0d;

/// What the first message says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// The server that it names, in canonical form.
    pub server_name: Option<Host>,
}

/// Looks at the beginning of a connection; nothing yet where the message is not whole.
///
/// # Errors
/// [`EgressDenial::NotTls`], [`EgressDenial::EncryptedClientHello`], and [`EgressDenial::ServerNameMismatch`] for a
/// server name that is no host name.
pub fn inspect(bytes: &[u8]) -> Result<Option<Seen>, EgressDenial> {
    let Some((hello, length)) = reassemble(bytes)? else {
        return if bytes.len() < MAX_HELLO_BYTES {
            Ok(None)
        } else {
            Err(EgressDenial::NotTls)
        };
    };
    let extensions = extensions(&hello).ok_or(EgressDenial::NotTls)?;
    if extensions.contains(&ENCRYPTED_CLIENT_HELLO) {
        return Err(EgressDenial::EncryptedClientHello);
    }
    let mut acceptor = Acceptor::default();
    let mut records = &bytes[..length];
    while !records.is_empty() {
        acceptor
            .read_tls(&mut records)
            .map_err(|_| EgressDenial::NotTls)?;
    }
    let accepted = acceptor.accept().map_err(|_| EgressDenial::NotTls)?;
    let accepted = accepted.ok_or(EgressDenial::NotTls)?;
    let server_name = match accepted.client_hello().server_name() {
        Some(name) => Some(Host::parse(name).map_err(|_| EgressDenial::ServerNameMismatch)?),
        // rustls passes over a name that is an address or none at all.
        None if extensions.contains(&SERVER_NAME) => {
            return Err(EgressDenial::ServerNameMismatch);
        }
        None => None,
    };
    Ok(Some(Seen { server_name }))
}

impl Seen {
    /// Whether it names exactly `host`. An address is never named in TLS, so that for one nothing may be.
    ///
    /// # Errors
    /// [`EgressDenial::ServerNameMissing`], [`EgressDenial::ServerNameMismatch`].
    pub fn names(&self, host: &Host) -> Result<(), EgressDenial> {
        match (&self.server_name, host) {
            (None, Host::Ip(_)) => Ok(()),
            (None, Host::Name(_)) => Err(EgressDenial::ServerNameMissing),
            (Some(named), Host::Name(_)) if named == host => Ok(()),
            (Some(_), _) => Err(EgressDenial::ServerNameMismatch),
        }
    }
}

/// The body of the client hello, and the length of the records that carry it.
fn reassemble(bytes: &[u8]) -> Result<Option<(Vec<u8>, usize)>, EgressDenial> {
    let mut message = Vec::new();
    let mut at = 0;
    loop {
        let record = &bytes[at..];
        let right = record.first().is_none_or(|kind| *kind == HANDSHAKE)
            && record.get(1).is_none_or(|major| *major == 3);
        if !right {
            return Err(EgressDenial::NotTls);
        }
        let [_, _, _, high, low, payload @ ..] = record else {
            return Ok(None);
        };
        let length = usize::from(u16::from_be_bytes([*high, *low]));
        if length == 0 || length > MAX_HELLO_BYTES {
            return Err(EgressDenial::NotTls);
        }
        let Some(payload) = payload.get(..length) else {
            return Ok(None);
        };
        message.extend_from_slice(payload);
        at += 5 + length;
        if message[0] != CLIENT_HELLO {
            return Err(EgressDenial::NotTls);
        }
        if let [_, high, middle, low, body @ ..] = message.as_slice() {
            let length = u32::from_be_bytes([0, *high, *middle, *low]) as usize;
            if let Some(body) = body.get(..length) {
                return Ok(Some((body.to_vec(), at)));
            }
        }
    }
}

/// The types of the extensions, if the message can be split at all.
fn extensions(mut hello: &[u8]) -> Option<Vec<u16>> {
    let rest = &mut hello;
    // Version and random; session id, cipher suites, compression methods.
    take(rest, 2 + 32)?;
    counted::<1>(rest)?;
    counted::<2>(rest)?;
    counted::<1>(rest)?;
    let mut types = Vec::new();
    if rest.is_empty() {
        return Some(types);
    }
    let mut list = counted::<2>(rest)?;
    while !list.is_empty() {
        let kind = take(&mut list, 2)?;
        types.push(u16::from_be_bytes([kind[0], kind[1]]));
        counted::<2>(&mut list)?;
    }
    rest.is_empty().then_some(types)
}

fn take<'a>(rest: &mut &'a [u8], length: usize) -> Option<&'a [u8]> {
    let (taken, left) = rest.split_at_checked(length)?;
    *rest = left;
    Some(taken)
}

/// What stands behind its own length of `WIDTH` bytes.
fn counted<'a, const WIDTH: usize>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let length = take(rest, WIDTH)?;
    let length = length
        .iter()
        .fold(0, |sum, byte| sum << 8 | usize::from(*byte));
    take(rest, length)
}

#[cfg(test)]
pub(super) mod tests {
    use std::sync::Arc;

    use proptest::prelude::*;
    use rustls_pki_types::ServerName;
    use tokio_rustls::rustls::{
        ClientConfig, ClientConnection, RootCertStore, crypto::ring::default_provider,
    };

    use super::*;

    /// What a real client begins with.
    pub(in crate::egress) fn hello(host: &str, sni: bool) -> Vec<u8> {
        let mut config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(RootCertStore::empty())
            .with_no_client_auth();
        config.enable_sni = sni;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        let name = ServerName::try_from(host.to_owned()).unwrap();
        let mut client = ClientConnection::new(Arc::new(config), name).unwrap();
        let mut bytes = Vec::new();
        while client.wants_write() {
            client.write_tls(&mut bytes).unwrap();
        }
        bytes
    }

    /// The same message with one more extension at its end.
    fn with_extension(hello: &[u8], kind: u16, data: &[u8]) -> Vec<u8> {
        let (mut body, _) = reassemble(hello).unwrap().unwrap();
        let mut rest = &body[..];
        take(&mut rest, 34).unwrap();
        counted::<1>(&mut rest).unwrap();
        counted::<2>(&mut rest).unwrap();
        counted::<1>(&mut rest).unwrap();
        let list_at = body.len() - rest.len();
        body.extend_from_slice(&kind.to_be_bytes());
        body.extend_from_slice(&u16::try_from(data.len()).unwrap().to_be_bytes());
        body.extend_from_slice(data);
        let list = u16::try_from(body.len() - list_at - 2).unwrap();
        body[list_at..list_at + 2].copy_from_slice(&list.to_be_bytes());
        in_records(&message(&body), usize::MAX)
    }

    fn message(body: &[u8]) -> Vec<u8> {
        let length = u32::try_from(body.len()).unwrap().to_be_bytes();
        [&[CLIENT_HELLO], &length[1..], body].concat()
    }

    fn in_records(message: &[u8], size: usize) -> Vec<u8> {
        let mut bytes = Vec::new();
        for piece in message.chunks(size.min(message.len())) {
            bytes.extend_from_slice(&[HANDSHAKE, 3, 1]);
            bytes.extend_from_slice(&u16::try_from(piece.len()).unwrap().to_be_bytes());
            bytes.extend_from_slice(piece);
        }
        bytes
    }

    fn host(text: &str) -> Host {
        Host::parse(text).unwrap()
    }

    fn judged(bytes: &[u8], at: &str) -> Result<(), EgressDenial> {
        inspect(bytes)?.expect("whole").names(&host(at))
    }

    #[test]
    fn the_server_name_must_be_the_host_that_was_asked_for() {
        let bytes = hello("x.org", true);
        assert_eq!(judged(&bytes, "x.org"), Ok(()));
        assert_eq!(judged(&bytes, "X.ORG."), Ok(()), "one form");
        for other in ["y.org", "a.x.org", "org", "1.2.3.4"] {
            assert_eq!(
                judged(&bytes, other),
                Err(EgressDenial::ServerNameMismatch),
                "{other}"
            );
        }
        assert_eq!(judged(&hello("X.org", true), "x.org"), Ok(()));
    }

    #[test]
    fn a_host_by_name_needs_a_server_name_and_an_address_may_have_none() {
        let bytes = hello("x.org", false);
        assert_eq!(
            judged(&bytes, "x.org"),
            Err(EgressDenial::ServerNameMissing)
        );
        assert_eq!(judged(&bytes, "1.2.3.4"), Ok(()));
        assert_eq!(judged(&hello("1.2.3.4", true), "1.2.3.4"), Ok(()));
    }

    #[test]
    fn a_server_name_that_is_an_address_is_refused() {
        let name = b"1.2.3.4";
        let entry = [&[0, 0, 10, 0, 0, 7][..], name].concat();
        let bytes = with_extension(&hello("x.org", false), SERVER_NAME, &entry[1..]);
        assert_eq!(inspect(&bytes), Err(EgressDenial::ServerNameMismatch));
    }

    #[test]
    fn two_server_names_are_refused() {
        let entry = [&[0, 8, 0, 0, 5][..], b"x.org"].concat();
        let bytes = with_extension(&hello("x.org", true), SERVER_NAME, &entry);
        assert_eq!(inspect(&bytes), Err(EgressDenial::NotTls));
    }

    #[test]
    fn an_encrypted_client_hello_is_refused_whatever_it_holds() {
        for data in [&b""[..], b"\x00", &[0; 200]] {
            let bytes = with_extension(&hello("x.org", true), ENCRYPTED_CLIENT_HELLO, data);
            assert_eq!(inspect(&bytes), Err(EgressDenial::EncryptedClientHello));
        }
        let other = with_extension(&hello("x.org", true), 0xfafa, b"grease");
        assert_eq!(judged(&other, "x.org"), Ok(()));
    }

    #[test]
    fn a_message_in_many_records_is_read_as_in_one() {
        let whole = hello("x.org", true);
        let (body, length) = reassemble(&whole).unwrap().unwrap();
        assert_eq!(length, whole.len());
        for size in [1, 2, 3, 50, 500] {
            let bytes = in_records(&message(&body), size);
            assert_eq!(judged(&bytes, "x.org"), Ok(()), "{size}");
            assert_eq!(
                judged(&bytes, "y.org"),
                Err(EgressDenial::ServerNameMismatch)
            );
        }
    }

    #[test]
    fn until_it_is_whole_nothing_is_said_and_what_follows_does_not_matter() {
        let bytes = hello("x.org", true);
        for length in 0..bytes.len() {
            assert_eq!(inspect(&bytes[..length]), Ok(None), "{length}");
        }
        let more = [&bytes[..], &[23, 3, 3, 0, 1, 7]].concat();
        assert_eq!(judged(&more, "x.org"), Ok(()));
    }

    #[test]
    fn what_is_no_client_hello_is_refused_at_its_first_wrong_byte() {
        for bytes in [
            &b"G"[..],
            b"SSH-2.0",
            &[HANDSHAKE, 2],
            &[HANDSHAKE, 3, 1, 0, 0],
            &[HANDSHAKE, 3, 1, 0xff, 0xff],
            &[HANDSHAKE, 3, 1, 0, 1, 2],
            // SSL 2.
            &[0x80, 0x2e, 1, 3, 1],
            // An alert.
            &[21, 3, 1],
            &in_records(&message(&[0; 40]), usize::MAX),
        ] {
            assert_eq!(inspect(bytes), Err(EgressDenial::NotTls), "{bytes:?}");
        }
    }

    #[test]
    fn a_message_without_an_end_is_refused() {
        let endless = in_records(&message(&vec![0; 3 * MAX_HELLO_BYTES]), 1000);
        assert_eq!(
            inspect(&endless[..MAX_HELLO_BYTES]),
            Err(EgressDenial::NotTls)
        );
    }

    proptest! {
        #[test]
        fn any_bytes_can_be_looked_at(bytes in any::<Vec<u8>>()) {
            let _ = inspect(&bytes);
            let _ = inspect(&in_records(&message(&bytes), usize::MAX));
        }

        #[test]
        fn a_message_with_one_byte_changed_never_names_a_host_far_from_its_own(at in 0_usize..400, to: u8) {
            let mut bytes = hello("x.org", true);
            let at = at % bytes.len();
            bytes[at] = to;
            if let Ok(Some(seen)) = inspect(&bytes) {
                prop_assert!(seen.names(&host("other.net")).is_err());
            }
        }
    }
}
