//! Who asks. Everything that is kept (sessions, uploads, artifacts) belongs to one caller.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::Sha256;

/// What stands before the id of a token in a caller's text form.
const TOKEN_PREFIX: &str = "token:";
/// Hexadecimal digits of a token's id: enough that no two tokens of one machine share one, and of no use as a token.
const TOKEN_ID_DIGITS: usize = 16;

/// Text that names no caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a caller: expected `local`, or `token:` with {TOKEN_ID_DIGITS} hexadecimal digits")]
pub struct CallerError;

/// The party on whose behalf a call is made.
///
/// Ids of one caller are unknown to every other one. On stdio there is one caller a user: the one who
/// started the server, and whose files it keeps from window to window. Over HTTP there is one a token.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Caller {
    /// The user who started the server on their own machine and speaks over its standard streams.
    Local,
    /// Whoever holds this token, over HTTP. With another token, also of a later start, it is another caller.
    Token(TokenId),
}

/// What a bearer token is known by: the start of a digest, which tells tokens apart and opens nothing.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TokenId(String);

impl TokenId {
    /// The id of the token with this text.
    #[must_use]
    pub fn of(token: &str) -> Self {
        // With a prefix of its own, so that the id is no part of a digest that is used elsewhere.
        let digest = Sha256::of(format!("belljar http token\0{token}").as_bytes());
        let mut id = digest.to_string();
        id.truncate(TOKEN_ID_DIGITS);
        Self(id)
    }

    fn parse(text: &str) -> Result<Self, CallerError> {
        let right = text.len() == TOKEN_ID_DIGITS
            && text
                .bytes()
                .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        if right {
            Ok(Self(text.to_owned()))
        } else {
            Err(CallerError)
        }
    }
}

/// The name under which the caller stands in the audit log.
impl fmt::Display for Caller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Local => f.write_str("local"),
            Self::Token(TokenId(id)) => write!(f, "{TOKEN_PREFIX}{id}"),
        }
    }
}

impl From<Caller> for String {
    fn from(caller: Caller) -> Self {
        caller.to_string()
    }
}

impl TryFrom<String> for Caller {
    type Error = CallerError;
    fn try_from(text: String) -> Result<Self, CallerError> {
        match text.strip_prefix(TOKEN_PREFIX) {
            Some(id) => TokenId::parse(id).map(Self::Token),
            None if text == "local" => Ok(Self::Local),
            None => Err(CallerError),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_caller_survives_its_text_and_nothing_else_is_one() {
        let token = Caller::Token(TokenId::of("one"));
        for caller in [Caller::Local, token.clone()] {
            assert_eq!(Caller::try_from(caller.to_string()), Ok(caller.clone()));
            let json = serde_json::to_value(&caller).unwrap();
            assert_eq!(json, caller.to_string());
            assert_eq!(serde_json::from_value::<Caller>(json).unwrap(), caller);
        }
        assert_ne!(token, Caller::Token(TokenId::of("two")));
        for bad in [
            "",
            "Local",
            "token",
            "token:",
            "token:local",
            "token:0123456789ABCDEF",
            "token:0123456789abcdef0",
        ] {
            assert_eq!(Caller::try_from(bad.to_owned()), Err(CallerError), "{bad}");
        }
    }

    #[test]
    fn the_id_of_a_token_shows_nothing_of_it() {
        let token = "0123456789abcdef0123456789abcdef";
        let shown = Caller::Token(TokenId::of(token)).to_string();
        assert_eq!(shown.len(), "token:".len() + 16);
        assert!(!shown.contains(&token[..8]), "{shown}");
        assert!(
            !Sha256::of(token.as_bytes())
                .to_string()
                .contains(&shown[6..])
        );
    }
}
