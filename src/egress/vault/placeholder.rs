//! Stand-ins for secrets: random, but of a shape that programs which check for one accept.
//!
//! Of the secret itself a stand-in shows at most which of the publicly known kinds it is of.

use crate::types::Secret;

/// What a stand-in is made of.
const ALPHANUMERICS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
/// Characters behind no known prefix: 238 random bits.
const USUAL_LENGTH: usize = 40;
/// The fewest characters behind a prefix: 130 random bits, so that none is guessed or met by accident.
const LEAST_LENGTH: usize = 22;
/// Publicly known beginnings of tokens, and how many characters follow. Where one begins another, the longer is first.
const KNOWN: [(&str, usize); 26] = [
    ("github_pat_", 82),
    ("ghp_", 36),
    ("gho_", 36),
    ("ghu_", 36),
    ("ghs_", 36),
    ("ghr_", 36),
    ("glpat-", LEAST_LENGTH),
    ("gldt-", LEAST_LENGTH),
    ("glptt-", 40),
    ("sk-ant-api03-", 95),
    ("sk-proj-", 48),
    ("sk-", 48),
    ("sk_live_", 24),
    ("sk_test_", 24),
    ("rk_live_", 24),
    ("rk_test_", 24),
    ("xoxb-", 50),
    ("xoxp-", 70),
    ("xapp-", 60),
    ("npm_", 36),
    ("pypi-", 160),
    ("hf_", 34),
    ("dop_v1_", 64),
    ("shpat_", 32),
    ("glsa_", 41),
    ("dckr_pat_", 27),
];

/// A fresh stand-in of the secret's kind.
///
/// # Errors
/// The operating system has no randomness to give.
pub(super) fn stand_in(secret: &Secret) -> Result<String, getrandom::Error> {
    let (prefix, length) = KNOWN
        .into_iter()
        .find(|(prefix, _)| secret.expose().starts_with(prefix))
        .unwrap_or(("", USUAL_LENGTH));
    let mut text = prefix.to_owned();
    let whole = prefix.len() + length;
    while text.len() < whole {
        let mut bytes = [0; 64];
        getrandom::fill(&mut bytes)?;
        let fair = bytes
            .iter()
            // Four full rounds of the 62: what lies beyond would favour the first ones.
            .filter(|byte| usize::from(**byte) < 4 * ALPHANUMERICS.len())
            .map(|byte| char::from(ALPHANUMERICS[usize::from(*byte) % ALPHANUMERICS.len()]));
        text.extend(fair.take(whole - text.len()));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(secret: &str) -> String {
        stand_in(&Secret::new(secret.to_owned())).unwrap()
    }

    #[test]
    fn a_stand_in_keeps_a_known_prefix_and_nothing_else() {
        for (prefix, length) in KNOWN {
            assert!(length >= LEAST_LENGTH, "{prefix}");
            let secret = format!("{prefix}{}", "!".repeat(50));
            let one = of(&secret);
            let rest = one.strip_prefix(prefix).unwrap();
            assert_eq!(rest.len(), length, "{prefix}");
            assert!(rest.bytes().all(|byte| byte.is_ascii_alphanumeric()));
        }
        let one = of("!!!!!!!!!!");
        assert_eq!(one.len(), USUAL_LENGTH);
        assert!(one.bytes().all(|byte| byte.is_ascii_alphanumeric()));
    }

    #[test]
    fn the_longer_of_two_prefixes_is_kept() {
        for (at, (prefix, _)) in KNOWN.iter().enumerate() {
            assert!(
                KNOWN[..at]
                    .iter()
                    .all(|(before, _)| !prefix.starts_with(before)),
                "{prefix} is never reached"
            );
        }
    }

    #[test]
    fn no_two_stand_ins_are_the_same() {
        assert_ne!(of("hunter2hunter2"), of("hunter2hunter2"));
    }
}
