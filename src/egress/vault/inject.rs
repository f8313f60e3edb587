//! Puts secrets into the headers of a request that goes to their own host.
//!
//! Only header values are touched: a stand-in in a path, a query or a body stays what it is, since those end up in
//! logs, caches and databases of the other side.

use base64::{
    Engine as _, alphabet,
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig, general_purpose::STANDARD},
};
use hyper::{
    HeaderMap,
    header::{AUTHORIZATION, HeaderName, HeaderValue},
};
use zeroize::Zeroizing;

use crate::types::Secret;

/// The longest header value that may come of a swap, in bytes. Stops a request full of stand-ins from growing to as
/// many secrets.
const MAX_VALUE_BYTES: usize = 64 * 1024;
/// Reads base64 as leniently as servers do.
const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_allow_trailing_bits(true)
        .with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// The header could not be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum InjectError {
    /// A name or a format that gives no header.
    #[error("with it, no valid header can be made")]
    NoHeader,
    /// Longer than [`MAX_VALUE_BYTES`].
    #[error("with it, a header would be longer than {MAX_VALUE_BYTES} bytes")]
    TooLong,
}

/// A stand-in, and the secret that it stands for.
pub(super) type Swap = (String, Secret);

/// Sets a header to a secret. What the program sent under this name goes, in whatever spelling: servers that hand
/// headers on as variables take `X-Key`, `x_key` and, some of them, `X.Key` for the same.
pub(super) fn set(headers: &mut HeaderMap, name: &str, value: &str) -> Result<(), InjectError> {
    let header = HeaderName::from_bytes(name.as_bytes()).map_err(|_| InjectError::NoHeader)?;
    let value = secret_value(value.as_bytes())?;
    let spelt_alike: Vec<HeaderName> = headers
        .keys()
        .filter(|sent| plain(sent.as_str()).eq(plain(header.as_str())))
        .cloned()
        .collect();
    for sent in spelt_alike {
        headers.remove(sent);
    }
    headers.insert(header, value);
    Ok(())
}

/// A header's name without what sets its spellings apart.
fn plain(name: &str) -> impl Iterator<Item = u8> {
    name.bytes().map(|byte| {
        if byte.is_ascii_alphanumeric() {
            byte.to_ascii_lowercase()
        } else {
            b'-'
        }
    })
}

/// The value of HTTP's basic authentication (RFC 7617), without the name of the scheme.
pub(super) fn basic_pair(user: &str, password: &Secret) -> Zeroizing<String> {
    let pair = Zeroizing::new(format!("{user}:{}", password.expose()));
    Zeroizing::new(STANDARD.encode(pair.as_bytes()))
}

/// Whether a header has this stand-in.
pub(super) fn has(headers: &HeaderMap, stand_in: &str) -> bool {
    let found = |text: &[u8]| {
        text.windows(stand_in.len())
            .any(|window| window == stand_in.as_bytes())
    };
    headers.iter().any(|(name, value)| {
        found(value.as_bytes())
            || (name == AUTHORIZATION && basic(value).is_some_and(|pair| found(&pair)))
    })
}

/// Puts secrets in the place of their stand-ins, in every header value and within basic authentication.
pub(super) fn swap(headers: &mut HeaderMap, swaps: &[Swap]) -> Result<(), InjectError> {
    for (name, value) in headers.iter_mut() {
        let swapped = if let Some(text) = swapped(value.as_bytes(), swaps)? {
            text
        } else if let Some(pair) = (name == AUTHORIZATION).then(|| basic(value)).flatten()
            && let Some(pair) = swapped(&pair, swaps)?
        {
            let encoded = Zeroizing::new(STANDARD.encode(&*pair));
            Zeroizing::new(format!("Basic {}", *encoded).into_bytes())
        } else {
            continue;
        };
        *value = secret_value(&swapped)?;
    }
    Ok(())
}

/// The user and the password of basic authentication.
fn basic(value: &HeaderValue) -> Option<Zeroizing<Vec<u8>>> {
    let (scheme, rest) = value.to_str().ok()?.trim().split_once(' ')?;
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    LENIENT.decode(rest.trim()).ok().map(Zeroizing::new)
}

/// `text` with secrets in the place of stand-ins; none where it has none.
fn swapped(text: &[u8], swaps: &[Swap]) -> Result<Option<Zeroizing<Vec<u8>>>, InjectError> {
    let stand_in = |rest: &[u8]| {
        swaps
            .iter()
            .find(|(stand_in, _)| rest.starts_with(stand_in.as_bytes()))
    };
    let mut out = Zeroizing::new(Vec::new());
    let mut any = false;
    let mut rest = text;
    while let Some((first, behind)) = rest.split_first() {
        if let Some((stand_in, secret)) = stand_in(rest) {
            any = true;
            out.extend_from_slice(secret.expose().as_bytes());
            rest = &rest[stand_in.len()..];
        } else {
            out.push(*first);
            rest = behind;
        }
        if any && out.len() > MAX_VALUE_BYTES {
            return Err(InjectError::TooLong);
        }
    }
    Ok(any.then_some(out))
}

/// A header value that neither logs nor compression tables show.
fn secret_value(text: &[u8]) -> Result<HeaderValue, InjectError> {
    let mut value = HeaderValue::from_bytes(text).map_err(|_| InjectError::NoHeader)?;
    value.set_sensitive(true);
    Ok(value)
}
