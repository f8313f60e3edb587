//! SOCKS 5 (RFC 1928), as far as it exists here: no authentication, `CONNECT`.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use bytes::{Buf as _, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _};

use super::gather::{Ended, gather};
use crate::{
    policy::EgressDenial,
    types::{Endpoint, Host, HostError},
};

/// The first byte of every message.
pub const VERSION: u8 = 5;

/// What may follow in a reply.
const NO_AUTHENTICATION: u8 = 0;
const NO_METHOD: u8 = 0xff;
const CONNECT: u8 = 1;

/// What a reply says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Code {
    /// The connection is there.
    Succeeded = 0,
    /// Policy.
    NotAllowed = 2,
    /// `BIND`, `UDP ASSOCIATE`.
    CommandNotSupported = 7,
    /// What is asked for is no host.
    AddressNotSupported = 8,
}

/// Why a message is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Why.
    pub denial: EgressDenial,
    /// What was asked for, as it came.
    pub asked: Vec<u8>,
    /// What is sent.
    pub reply: Vec<u8>,
}

/// The reply to a request.
#[must_use]
pub fn reply(code: Code) -> [u8; 10] {
    // The address that it was bound to is nobody's business inside.
    [VERSION, code as u8, 0, 1, 0, 0, 0, 0, 0, 0]
}

/// Reads the greeting, answers it, and reads what is asked for. The reply to that is still to be sent.
///
/// # Errors
/// [`Ended`].
pub(super) async fn negotiate<T>(
    io: &mut T,
    read: &mut BytesMut,
) -> Result<Endpoint, Ended<Refusal>>
where
    T: AsyncRead + AsyncWrite + Unpin,
{
    let length = gather(io, read, greeting).await?;
    read.advance(length);
    let chosen = io.write_all(&[VERSION, NO_AUTHENTICATION]).await;
    chosen.and(io.flush().await).map_err(|_| Ended::Gone)?;
    let (length, endpoint) = gather(io, read, request).await?;
    read.advance(length);
    Ok(endpoint)
}

/// Reads a greeting: its length, once it is whole.
///
/// # Errors
/// [`Refusal`] where it does not offer to go without authentication.
pub fn greeting(bytes: &[u8]) -> Result<Option<usize>, Refusal> {
    let refused = || Refusal {
        denial: EgressDenial::Protocol,
        asked: Vec::new(),
        reply: vec![VERSION, NO_METHOD],
    };
    if bytes.first().is_some_and(|version| *version != VERSION) {
        return Err(refused());
    }
    let [_, count, methods @ ..] = bytes else {
        return Ok(None);
    };
    let count = usize::from(*count);
    match methods.get(..count) {
        None => Ok(None),
        Some(methods) if methods.contains(&NO_AUTHENTICATION) => Ok(Some(2 + count)),
        Some(_) => Err(refused()),
    }
}

/// Reads a request: its length and where it wants to go, once it is whole.
///
/// # Errors
/// [`Refusal`] for other commands than `CONNECT`, and where the target is none.
pub fn request(bytes: &[u8]) -> Result<Option<(usize, Endpoint)>, Refusal> {
    let refused = |denial, code, asked: &[u8]| Refusal {
        denial,
        asked: asked.to_vec(),
        reply: reply(code).to_vec(),
    };
    let no_address = |denial, asked| refused(denial, Code::AddressNotSupported, asked);
    if bytes.first().is_some_and(|version| *version != VERSION)
        || bytes.get(1).is_some_and(|command| *command != CONNECT)
    {
        let denial = EgressDenial::Protocol;
        return Err(refused(denial, Code::CommandNotSupported, b""));
    }
    let [_, _, _, kind, rest @ ..] = bytes else {
        return Ok(None);
    };
    let (before, length) = match (*kind, rest.first()) {
        (1, _) => (0, 4),
        (4, _) => (0, 16),
        (3, Some(length)) => (1, usize::from(*length)),
        (3, None) => return Ok(None),
        _ => return Err(no_address(EgressDenial::Protocol, b"")),
    };
    let Some((address, port)) = rest
        .get(before..before + length + 2)
        .map(|rest| rest.split_at(length))
    else {
        return Ok(None);
    };
    let host = match address {
        [a, b, c, d] if *kind == 1 => Ok(Host::Ip(IpAddr::V4(Ipv4Addr::new(*a, *b, *c, *d)))),
        _ if *kind == 4 => <[u8; 16]>::try_from(address)
            .map(|octets| Host::Ip(IpAddr::V6(Ipv6Addr::from(octets)).to_canonical()))
            .map_err(|_| HostError::Address),
        name => std::str::from_utf8(name)
            .map_err(|_| HostError::Character)
            .and_then(Host::parse),
    };
    let port = u16::from_be_bytes([port[0], port[1]]);
    let endpoint = match host {
        Ok(host) if port != 0 => Endpoint { host, port },
        Ok(_) => {
            return Err(no_address(
                EgressDenial::HostSyntax(HostError::Port),
                address,
            ));
        }
        Err(error) => return Err(no_address(EgressDenial::HostSyntax(error), address)),
    };
    Ok(Some((4 + before + length + 2, endpoint)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn by_name(name: &[u8], port: u16) -> Vec<u8> {
        let length = u8::try_from(name.len()).unwrap();
        [&[5, 1, 0, 3, length], name, &port.to_be_bytes()].concat()
    }

    fn asked(bytes: &[u8]) -> String {
        let (length, endpoint) = request(bytes).unwrap().expect("whole");
        assert_eq!(length, bytes.len());
        endpoint.to_string()
    }

    fn denied(bytes: &[u8]) -> (&'static str, u8) {
        let refusal = request(bytes).unwrap_err();
        (refusal.denial.reason(), refusal.reply[1])
    }

    #[test]
    fn names_and_addresses_are_read_into_their_one_form() {
        assert_eq!(asked(&by_name(b"X.Org.", 443)), "x.org:443");
        assert_eq!(asked(&by_name(b"0x7f.1", 80)), "127.0.0.1:80");
        assert_eq!(asked(&[5, 1, 0, 1, 10, 0, 0, 1, 1, 187]), "10.0.0.1:443");
        let v6: Ipv6Addr = "2606:4700::1".parse().unwrap();
        let bytes = [&[5, 1, 0, 4][..], &v6.octets(), &[0, 80]].concat();
        assert_eq!(asked(&bytes), "[2606:4700::1]:80");
        let mapped: Ipv6Addr = "::ffff:127.0.0.1".parse().unwrap();
        let bytes = [&[5, 1, 0, 4][..], &mapped.octets(), &[0, 80]].concat();
        assert_eq!(asked(&bytes), "127.0.0.1:80");
    }

    #[test]
    fn a_name_that_is_none_is_refused() {
        for name in [
            &b""[..],
            b"a b",
            b"a\0.org",
            b"a@b",
            b"a%b",
            b"\xff.org",
            b"a..b",
            b"x.org:80",
            b"fe80::1%eth0",
        ] {
            assert_eq!(denied(&by_name(name, 443)), ("host_syntax", 8), "{name:?}");
        }
        assert_eq!(denied(&by_name(b"x.org", 0)), ("host_syntax", 8));
    }

    #[test]
    fn bind_and_udp_and_other_kinds_of_address_do_not_exist() {
        for command in [0, 2, 3, 0xf0] {
            assert_eq!(denied(&[5, command]), ("protocol", 7), "{command}");
        }
        assert_eq!(denied(&[4, 1]), ("protocol", 7));
        for kind in [0, 2, 5, 255] {
            assert_eq!(denied(&[5, 1, 0, kind]), ("protocol", 8), "{kind}");
        }
    }

    #[test]
    fn a_greeting_must_offer_to_go_without_authentication() {
        assert_eq!(greeting(&[5, 1, 0]), Ok(Some(3)));
        assert_eq!(greeting(&[5, 3, 2, 1, 0, 7]), Ok(Some(5)));
        for part in [&[][..], &[5], &[5, 2], &[5, 2, 0]] {
            assert_eq!(greeting(part), Ok(None));
        }
        for wrong in [&[5, 1, 2][..], &[5, 0], &[4, 1, 0]] {
            let refusal = greeting(wrong).unwrap_err();
            assert_eq!(refusal.reply, [5, 0xff]);
            assert_eq!(refusal.denial, EgressDenial::Protocol);
        }
    }

    #[test]
    fn until_a_request_is_whole_nothing_is_said() {
        for bytes in [by_name(b"x.org", 443), vec![5, 1, 0, 1, 1, 2, 3, 4, 0, 80]] {
            for length in 0..bytes.len() {
                assert_eq!(request(&bytes[..length]), Ok(None));
            }
            let more = [&bytes[..], b"more"].concat();
            assert_eq!(request(&more).unwrap().unwrap().0, bytes.len());
        }
    }

    proptest! {
        #[test]
        fn any_bytes_can_be_read(bytes in any::<Vec<u8>>()) {
            let _ = greeting(&bytes);
            if let Ok(Some((length, endpoint))) = request(&bytes) {
                prop_assert!(length <= bytes.len() && endpoint.port != 0);
            }
        }
    }
}
