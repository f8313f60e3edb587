//! Names and addresses of other machines, in one form only.
//!
//! A host is parsed once, into a value that has exactly one spelling; whoever decides, resolves, dials, compares or
//! logs uses that value and never the text it came from. What has more than one meaning to different readers is no
//! host. Nothing in here looks a name up.

use std::{
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    str::FromStr,
};

/// The longest name, in bytes, without its last dot (RFC 1035, 2.3.4). Stops names that resolvers would cut.
const MAX_NAME_BYTES: usize = 253;
/// The longest label of a name, in bytes (RFC 1035, 2.3.4).
const MAX_LABEL_BYTES: usize = 63;

/// Why a text is no host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum HostError {
    /// Nothing at all.
    #[error("is empty")]
    Empty,
    /// Longer than a name can be.
    #[error("is longer than {MAX_NAME_BYTES} bytes")]
    TooLong,
    /// A character that no host has: NUL, `%`, `@`, white space, anything beyond ASCII.
    #[error(
        "has a character that no host name has (write an international name in its `xn--` form)"
    )]
    Character,
    /// An empty label, one that is too long, or one that begins or ends with a hyphen.
    #[error(
        "has a label that is empty, longer than {MAX_LABEL_BYTES} bytes, or begins or ends with a hyphen"
    )]
    Label,
    /// Something that looks like an address and is none.
    #[error(
        "looks like an address and is none (write an IPv6 address in brackets, without a zone)"
    )]
    Address,
    /// No port, or none between 1 and 65535.
    #[error("has no port between 1 and 65535")]
    Port,
}

/// A host in its one form: a name in lower case without a dot at its end, or an address.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Host {
    /// A name.
    Name(DnsName),
    /// An address; a mapped IPv4 address is an IPv4 address.
    Ip(IpAddr),
}

/// A name of ASCII labels, lower case, without a dot at its end, which is no address in anybody's reading.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DnsName(String);

impl DnsName {
    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Host {
    /// Parses a host as it stands in a URL or an authority: an IPv6 address may stand in brackets.
    ///
    /// # Errors
    /// [`HostError`].
    pub fn parse(text: &str) -> Result<Self, HostError> {
        if let Some(inner) = text.strip_prefix('[') {
            let inner = inner.strip_suffix(']').ok_or(HostError::Address)?;
            return ipv6(inner);
        }
        if text.contains(':') {
            return ipv6(text);
        }
        let name = text.strip_suffix('.').unwrap_or(text);
        if name.is_empty() {
            return Err(HostError::Empty);
        }
        if name.len() > MAX_NAME_BYTES {
            return Err(HostError::TooLong);
        }
        // An allow-list: NUL, `%`, `@`, `/`, white space and all beyond ASCII are not on it.
        let known = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
        if !name.bytes().all(known) {
            return Err(HostError::Character);
        }
        let name = name.to_ascii_lowercase();
        if !name.split('.').all(is_label) {
            return Err(HostError::Label);
        }
        // Whoever reads it as `inet_aton` does takes a name whose last label is a number for an address.
        let last = name.rsplit('.').next().unwrap_or_default();
        if last.starts_with("0x") || last.bytes().all(|b| b.is_ascii_digit()) {
            return inet_aton(&name).map(|address| Self::Ip(IpAddr::V4(address)));
        }
        Ok(Self::Name(DnsName(name)))
    }

    /// The address, if it is one.
    #[must_use]
    pub fn ip(&self) -> Option<IpAddr> {
        match self {
            Self::Ip(address) => Some(*address),
            Self::Name(_) => None,
        }
    }
}

/// Whether it can be a label of a name; its characters are checked already, and in lower case. An international label
/// (`xn--`) is compared, resolved and sent as it is and never decoded, so that only its alphabet matters.
fn is_label(label: &str) -> bool {
    let hyphened = label.starts_with('-') || label.ends_with('-');
    let broken = label.starts_with("xn--") && label.contains('_');
    (1..=MAX_LABEL_BYTES).contains(&label.len()) && !hyphened && !broken
}

/// An IPv6 address; a mapped IPv4 address becomes the IPv4 address that everybody would reach by it. The standard
/// library takes no zone.
fn ipv6(text: &str) -> Result<Host, HostError> {
    let address = Ipv6Addr::from_str(text).map_err(|_| HostError::Address)?;
    Ok(Host::Ip(IpAddr::V6(address).to_canonical()))
}

/// The IPv4 address that `inet_aton` reads: one to four parts, each decimal, octal (`0…`) or hexadecimal (`0x…`).
fn inet_aton(text: &str) -> Result<Ipv4Addr, HostError> {
    let mut parts = Vec::new();
    for part in text.split('.') {
        let (digits, radix) = match part.strip_prefix("0x") {
            Some(digits) => (digits, 16),
            None if part.len() > 1 && part.starts_with('0') => (&part[1..], 8),
            None => (part, 10),
        };
        // `0x` alone is 0 to `inet_aton`; nobody means it.
        if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_hexdigit()) {
            return Err(HostError::Address);
        }
        parts.push(u32::from_str_radix(digits, radix).map_err(|_| HostError::Address)?);
    }
    let last = parts.pop().ok_or(HostError::Address)?;
    if parts.len() > 3 || parts.iter().any(|part| *part > 255) {
        return Err(HostError::Address);
    }
    let bits_of_last = 32 - 8 * u32::try_from(parts.len()).map_err(|_| HostError::Address)?;
    if u64::from(last) >= 1_u64 << bits_of_last {
        return Err(HostError::Address);
    }
    let high = parts
        .iter()
        .enumerate()
        .fold(0_u32, |high, (at, part)| high | part << (24 - 8 * at));
    Ok(Ipv4Addr::from(high | last))
}

impl fmt::Display for DnsName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// As in an authority: an IPv6 address in brackets.
impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => name.fmt(f),
            Self::Ip(IpAddr::V4(address)) => address.fmt(f),
            Self::Ip(IpAddr::V6(address)) => write!(f, "[{address}]"),
        }
    }
}

/// A host and a port.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Endpoint {
    /// The host.
    pub host: Host,
    /// The port, never 0.
    pub port: u16,
}

impl Endpoint {
    /// Parses `host:port`; without a port it is `default`, if there is one.
    ///
    /// # Errors
    /// [`HostError`].
    pub fn parse(text: &str, default: Option<u16>) -> Result<Self, HostError> {
        let after_brackets = text.rfind(']').map_or(0, |at| at + 1);
        let colon = text[after_brackets..]
            .rfind(':')
            .map(|at| after_brackets + at);
        let (host, port) = match colon {
            Some(at) if after_brackets > 0 && at != after_brackets => {
                return Err(HostError::Address);
            }
            Some(at) => (&text[..at], Some(&text[at + 1..])),
            None => (text, None),
        };
        // Without brackets a second colon means an address, of which nobody can say where its port begins.
        if after_brackets == 0 && host.contains(':') {
            return Err(HostError::Address);
        }
        let port = match port {
            None => default.ok_or(HostError::Port)?,
            Some(digits)
                if !digits.is_empty()
                    && digits.len() <= 5
                    && digits.bytes().all(|b| b.is_ascii_digit()) =>
            {
                digits.parse::<u16>().map_err(|_| HostError::Port)?
            }
            Some(_) => return Err(HostError::Port),
        };
        if port == 0 {
            return Err(HostError::Port);
        }
        Ok(Self {
            host: Host::parse(host)?,
            port,
        })
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

#[cfg(test)]
mod tests;
