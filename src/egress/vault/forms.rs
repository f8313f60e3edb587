//! The forms in which a server may send a credential back: every text that has to be found.
//!
//! What is found is what servers do when they echo a request: as it is, and escaped or encoded by the usual rules,
//! once. It is no protection against a server that means to give a credential away: such a one can always write it in
//! a way that nobody looks for.

use base64::{Engine as _, alphabet, engine::GeneralPurpose, engine::general_purpose};
use zeroize::Zeroizing;

/// One text that is looked for, in lower case: matching ignores the case of ASCII letters, so that each form stands
/// for all of its spellings.
pub(super) type Form = Zeroizing<Vec<u8>>;

/// The standard alphabet, and the one for URLs and file names.
const BASE64: [GeneralPurpose; 2] = [
    GeneralPurpose::new(&alphabet::STANDARD, general_purpose::NO_PAD),
    GeneralPurpose::new(&alphabet::URL_SAFE, general_purpose::NO_PAD),
];
/// How HTML escapers write `"` and `'`: they do not agree.
const QUOTES: [(&str, &str); 7] = [
    ("\"", "'"),
    ("&quot;", "'"),
    ("&quot;", "&#39;"),
    ("&quot;", "&#039;"),
    ("&quot;", "&#x27;"),
    ("&quot;", "&apos;"),
    ("&#34;", "&#39;"),
];

/// The shortest part of a credential that is looked for by itself, in characters: long enough that no other text has it
/// by chance.
const LEAST_PART: usize = 16;

/// Every form of a credential, which is ASCII without control characters, and of its long parts that no escaping
/// changes: what is around them may be written in ways that nobody thought of.
pub(crate) fn of(credential: &str) -> Vec<Form> {
    let escaped = |c: char| !c.is_ascii_alphanumeric() && c != '_' && c != '-';
    let parts = credential
        .split(escaped)
        .filter(|part| part.len() >= LEAST_PART && *part != credential);
    let mut forms: Vec<Form> = std::iter::once(credential)
        .chain(parts)
        .flat_map(forms_of)
        .collect();
    for form in &mut forms {
        form.make_ascii_lowercase();
    }
    forms.sort_unstable_by(|a, b| a.as_slice().cmp(b.as_slice()));
    forms.dedup_by(|a, b| a.as_slice() == b.as_slice());
    forms
}

fn forms_of(text: &str) -> Vec<Form> {
    let raw = text.as_bytes();
    let mut forms = Vec::new();
    forms.push(Zeroizing::new(raw.to_vec()));
    percent(raw, &mut forms);
    json(raw, &mut forms);
    html(raw, &mut forms);
    forms.push(each(raw, hex));
    // UTF-16, either way round.
    forms.push(each(raw, |byte, out| out.extend([byte, 0])));
    forms.push(each(raw, |byte, out| out.extend([0, byte])));
    for engine in BASE64 {
        for inside in base64(&engine, raw) {
            // Base64 is itself escaped in URLs and by some in JSON, and a header that holds it may be encoded again.
            for kept in [b"-_".as_slice(), b""] {
                forms.push(each(&inside, |byte, out| {
                    percent_unless(byte, kept, out);
                }));
            }
            forms.push(each(&inside, |byte, out| match byte {
                b'/' => out.extend(*b"\\/"),
                _ => out.push(byte),
            }));
            forms.extend(base64(&engine, &inside));
            forms.push(inside);
        }
    }
    forms
}

/// Writes every byte as `write` does.
fn each(raw: &[u8], mut write: impl FnMut(u8, &mut Vec<u8>)) -> Form {
    // With room for all at once: a vector that grows leaves what it held behind.
    let mut out = Zeroizing::new(Vec::with_capacity(raw.len() * LONGEST_ESCAPE));
    for byte in raw {
        write(*byte, &mut out);
    }
    out
}

/// The most bytes that any escape has for one byte: `&quot;`, `\u0022`.
const LONGEST_ESCAPE: usize = 6;

fn hex(byte: u8, out: &mut Vec<u8>) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    out.extend([
        DIGITS[usize::from(byte >> 4)],
        DIGITS[usize::from(byte & 15)],
    ]);
}

/// Percent-encoded: the encoders differ in what they leave as it is.
fn percent(raw: &[u8], forms: &mut Vec<Form>) {
    let kept_beside_alphanumerics: [&[u8]; 5] = [
        b"",
        b"-._~",
        b"-_.!~*'()",
        b"*-._ ",
        b"-_.!~*'();,/?:@&=+$#",
    ];
    for kept in kept_beside_alphanumerics {
        forms.push(each(raw, |byte, out| match byte {
            // Only forms keep a space, as a plus sign.
            b' ' if kept.contains(&b' ') => out.push(b'+'),
            _ => percent_unless(byte, kept, out),
        }));
    }
    forms.push(each(raw, percent_escape));
}

/// Leaves alphanumerics and what is in `kept` as they are.
fn percent_unless(byte: u8, kept: &[u8], out: &mut Vec<u8>) {
    if byte.is_ascii_alphanumeric() || kept.contains(&byte) {
        out.push(byte);
    } else {
        percent_escape(byte, out);
    }
}

fn percent_escape(byte: u8, out: &mut Vec<u8>) {
    out.push(b'%');
    hex(byte, out);
}

/// Inside a JSON string: quotes and backslashes always, a slash or what means something to HTML by some.
fn json(raw: &[u8], forms: &mut Vec<Form>) {
    let escape = |byte, out: &mut Vec<u8>| {
        out.extend(*b"\\u00");
        hex(byte, out);
    };
    let by_number: [&[u8]; 3] = [b"", b"<>&", b"<>&'"];
    for by_number in by_number {
        for slash in [false, true] {
            forms.push(each(raw, |byte, out| match byte {
                b'"' | b'\\' => out.extend([b'\\', byte]),
                b'/' if slash => out.extend(*b"\\/"),
                _ if by_number.contains(&byte) => escape(byte, out),
                _ => out.push(byte),
            }));
        }
    }
    forms.push(each(raw, |byte, out| {
        if byte.is_ascii_alphanumeric() {
            out.push(byte);
        } else {
            escape(byte, out);
        }
    }));
    forms.push(each(raw, escape));
}

/// Inside HTML or XML.
fn html(raw: &[u8], forms: &mut Vec<Form>) {
    for (double, single) in QUOTES {
        forms.push(each(raw, |byte, out| match byte {
            b'&' => out.extend(*b"&amp;"),
            b'<' => out.extend(*b"&lt;"),
            b'>' => out.extend(*b"&gt;"),
            b'"' => out.extend(double.as_bytes()),
            b'\'' => out.extend(single.as_bytes()),
            _ => out.push(byte),
        }));
    }
}

/// Base64: alone, with its padding and without, and what is certain of it in the midst of other bytes, which may
/// begin at any of three places of a group.
fn base64(engine: &GeneralPurpose, raw: &[u8]) -> Vec<Form> {
    let mut found = Vec::with_capacity(5);
    for before in 0..3 {
        let mut shifted = Zeroizing::new(vec![0; before]);
        shifted.reserve_exact(raw.len());
        shifted.extend_from_slice(raw);
        let text = Zeroizing::new(engine.encode(&*shifted));
        // A character is six bits: those that also hold bits of what stands around are left out.
        let certain = (before * 8).div_ceil(6)..shifted.len() * 8 / 6;
        found.push(Zeroizing::new(text.as_bytes()[certain].to_vec()));
        if before == 0 {
            let mut padded = Zeroizing::new(Vec::with_capacity(text.len() + 2));
            padded.extend_from_slice(text.as_bytes());
            found.push(padded.clone());
            padded.resize(text.len().next_multiple_of(4), b'=');
            found.push(padded);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn has(credential: &str, form: &str) {
        let forms = of(credential);
        assert!(
            forms
                .iter()
                .any(|one| one.as_slice() == form.to_ascii_lowercase().as_bytes()),
            "{form}"
        );
    }

    #[test]
    fn the_usual_spellings_of_a_credential_are_known() {
        let credential = r#"a/b+c"d<e\f&g h"#;
        for form in [
            r#"a/b+c"d<e\f&g h"#,
            "a%2Fb%2Bc%22d%3Ce%5Cf%26g%20h",
            "a%2Fb%2Bc%22d%3Ce%5Cf%26g+h",
            "%61%2F%62%2B%63%22%64%3C%65%5C%66%26%67%20%68",
            r#"a/b+c\"d<e\\f&g h"#,
            r#"a\/b+c\"d<e\\f&g h"#,
            r#"a/b+c\"d\u003ce\\f\u0026g h"#,
            "\\u0061\\u002f\\u0062\\u002b\\u0063\\u0022\\u0064\\u003c\\u0065\\u005c\\u0066\\u0026\\u0067\\u0020\\u0068",
            r"a/b+c&quot;d&lt;e\f&amp;g h",
            r"a/b+c&#34;d&lt;e\f&amp;g h",
            "612f622b6322643c655c6626672068",
            "YS9iK2MiZDxlXGYmZyBo",
            // With one and with two bytes before it.
            "EvYitjImQ8ZVxmJmcga",
            "hL2IrYyJkPGVcZiZnIG",
        ] {
            has(credential, form);
        }
    }

    #[test]
    fn base64_is_known_at_every_place_of_a_group() {
        let secret = "p~ss>w?rd-";
        let forms = of(secret);
        for engine in [general_purpose::STANDARD, general_purpose::URL_SAFE] {
            for before in 0..6 {
                for after in 0..6 {
                    let text = format!("{}{secret}{}", "x".repeat(before), "y".repeat(after));
                    let encoded = engine.encode(text).to_ascii_lowercase();
                    assert!(
                        forms.iter().any(|form| {
                            encoded
                                .as_bytes()
                                .windows(form.len())
                                .any(|window| window == form.as_slice())
                        }),
                        "{before} before, {after} after"
                    );
                }
            }
        }
    }

    #[test]
    fn no_form_is_so_short_that_it_would_be_met_by_chance() {
        for form in of("8letters") {
            assert!(form.len() >= 8, "{} bytes", form.len());
        }
    }
}
