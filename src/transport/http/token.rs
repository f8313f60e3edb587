//! The one token that opens the door, and how a request shows it.
//!
//! A request without it must learn nothing, also not by how long its refusal takes.

use hyper::{HeaderMap, header::AUTHORIZATION};

use crate::types::{Caller, Secret, Sha256, TokenId, random_hex};

/// The shortest token that is taken, in characters. Stops guessing: nothing counts the attempts.
const LEAST_TOKEN_CHARS: usize = 32;
/// The longest one: it must fit into a header beside the others.
const MOST_TOKEN_CHARS: usize = 512;
/// Random bytes of a token that is made here: 256 bits.
const TOKEN_BYTES: usize = 32;
/// The one way to show the token.
const SCHEME: &str = "Bearer";

/// Why a text is not taken as a token. It is never shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// It could be guessed.
    #[error(
        "BELLJAR_HTTP_TOKEN has {0} characters, and at least {LEAST_TOKEN_CHARS} are needed, random ones: `openssl rand -hex 32` makes some. Leave it out to have one made at each start"
    )]
    TooShort(usize),
    /// It would not fit.
    #[error("BELLJAR_HTTP_TOKEN has {0} characters, and at most {MOST_TOKEN_CHARS} are taken")]
    TooLong(usize),
    /// No client could send it.
    #[error(
        "BELLJAR_HTTP_TOKEN has a character that no token can have: letters, digits and `-._~+/=` are taken"
    )]
    Character,
}

/// A bearer token. Whoever holds it may do what the server does.
#[derive(Clone, Debug)]
pub struct Token(Secret);

impl Token {
    /// Takes a token of the operator's.
    pub fn parse(text: &Secret) -> Result<Self, TokenError> {
        let token = text.expose();
        let can_be_sent = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~+/=".contains(&byte);
        if !token.bytes().all(can_be_sent) {
            return Err(TokenError::Character);
        }
        match token.len() {
            short if short < LEAST_TOKEN_CHARS => Err(TokenError::TooShort(short)),
            long if long > MOST_TOKEN_CHARS => Err(TokenError::TooLong(long)),
            _ => Ok(Self(text.clone())),
        }
    }

    /// A new one of 256 random bits.
    #[must_use]
    pub fn random() -> Self {
        Self(Secret::new(random_hex::<TOKEN_BYTES>()))
    }

    /// The token's text, for the operator's eyes only.
    #[must_use]
    pub fn expose(&self) -> &str {
        self.0.expose()
    }

    /// Whoever holds it.
    #[must_use]
    pub fn caller(&self) -> Caller {
        Caller::Token(TokenId::of(self.expose()))
    }

    /// Whether a request with these headers shows the token: once, and nothing else.
    pub(super) fn is_shown_by(&self, headers: &HeaderMap) -> bool {
        let mut all = headers.get_all(AUTHORIZATION).iter();
        let (Some(header), None) = (all.next(), all.next()) else {
            return false;
        };
        let shown = header.to_str().ok().and_then(|text| text.split_once(' '));
        shown.is_some_and(|(scheme, token)| {
            scheme.eq_ignore_ascii_case(SCHEME) && self.is(token.trim_matches(' '))
        })
    }

    /// Compares digests, and all of them: neither where two texts first differ nor how long the token is shows in the
    /// time it takes.
    fn is(&self, shown: &str) -> bool {
        let digest = |text: &str| Sha256::of(text.as_bytes()).to_bytes();
        let differences = digest(self.expose())
            .iter()
            .zip(digest(shown))
            .fold(0, |sum, (ours, theirs)| sum | (ours ^ theirs));
        differences == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "0123456789abcdef0123456789ABCDEF-._~+/=";

    fn parse(text: &str) -> Result<Token, TokenError> {
        Token::parse(&Secret::new(text.to_owned()))
    }

    #[test]
    fn a_token_is_long_and_can_be_sent() {
        assert_eq!(parse(TEXT).unwrap().expose(), TEXT);
        let refused = |text: &str| parse(text).unwrap_err();
        assert_eq!(refused(""), TokenError::TooShort(0));
        assert_eq!(refused(&"x".repeat(31)), TokenError::TooShort(31));
        assert_eq!(refused(&"x".repeat(513)), TokenError::TooLong(513));
        for bad in [" ", "\n", "\0", "é", ",", "\""] {
            assert_eq!(refused(&format!("{TEXT}{bad}")), TokenError::Character);
        }
    }

    #[test]
    fn a_token_that_is_made_is_new_and_hidden() {
        let (one, two) = (Token::random(), Token::random());
        assert_ne!(one.expose(), two.expose());
        assert_eq!(one.expose().len(), 64);
        assert_ne!(one.caller(), two.caller());
        assert!(!format!("{one:?}").contains(one.expose()));
        assert!(parse(one.expose()).is_ok());
    }

    #[test]
    fn only_the_token_itself_opens() {
        let token = parse(TEXT).unwrap();
        let shown = |values: &[&str]| {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(AUTHORIZATION, value.parse().unwrap());
            }
            token.is_shown_by(&headers)
        };
        let right = format!("Bearer {TEXT}");
        assert!(shown(&[&right]));
        assert!(shown(&[&format!("bearer {TEXT}")]));
        for wrong in [
            String::new(),
            "Bearer".to_owned(),
            "Bearer ".to_owned(),
            TEXT.to_owned(),
            format!("Basic {TEXT}"),
            format!("Bearer {TEXT}x"),
            format!("Bearer {}", &TEXT[1..]),
            format!("Bearer {}", TEXT.to_lowercase()),
            format!("Bearer x {TEXT}"),
            format!("Bearer {}", Token::random().expose()),
        ] {
            assert!(!shown(&[&wrong]), "{wrong}");
        }
        assert!(!shown(&[]));
        assert!(!shown(&[&right, &right]), "which one is meant?");
    }
}
