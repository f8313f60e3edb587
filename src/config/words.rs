//! What the TOML library says of a file, in words for whoever wrote the file: it speaks of Rust's types.
//!
//! What is not known here is passed on as it is: no word of an error may get lost.

use std::fmt;

use super::table::TABLE;

/// An error of the library: its place in the file, the line, what was found and what to write.
pub(super) struct Words<'a>(pub(super) &'a toml::de::Error);

impl fmt::Display for Words<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = self.0.to_string();
        let shown = shown.trim_end();
        let shown = shown.strip_prefix("TOML parse error at ").unwrap_or(shown);
        let message = self.0.message().trim_end();
        match shown.strip_suffix(message) {
            Some(place) => write!(f, "{place}{}", plain(message)),
            None => f.write_str(shown),
        }
    }
}

fn plain(message: &str) -> String {
    if let Some(rest) = ["invalid type: ", "invalid value: "]
        .iter()
        .find_map(|kind| message.strip_prefix(kind))
        && let Some((found, wanted)) = rest.rsplit_once(", expected ")
    {
        return format!("found {}: write {}", value(found), kind(wanted));
    }
    if let Some(rest) = message.strip_prefix("unknown field ") {
        return match rest.split_once(", expected ") {
            Some((key, known)) => format!(
                "there is no key {key} here; there are: {}",
                known.trim_start_matches("one of ")
            ),
            None => format!("there is no key {rest}"),
        };
    }
    if let Some(rest) = message.strip_prefix("unknown variant ")
        && let Some((word, known)) = rest.split_once(", expected ")
    {
        return format!("found {word}: write {known}").replace('`', "\"");
    }
    if let Some(key) = message.strip_prefix("missing field ") {
        return format!("the key {key} is missing");
    }
    match message {
        "wanted string or table" => {
            "write one of the words that this key knows, in quotes; `belljar config schema` lists them"
        }
        "string values must be quoted, expected literal string" => {
            "a text must be in quotes, and a number has no unit: the key's name says it"
        }
        "duplicate key" => "this key stands in the file already: leave one out",
        other => other,
    }
    .to_owned()
}

/// What was found: `string "lots"`, `` integer `5` ``, `sequence`.
fn value(found: &str) -> String {
    for kind in ["integer ", "floating point ", "boolean "] {
        if let Some(value) = found.strip_prefix(kind) {
            return value.trim_matches('`').to_owned();
        }
    }
    match found {
        "sequence" => "a list".to_owned(),
        "map" => "a table".to_owned(),
        other => match other.strip_prefix("string ") {
            Some(text) => format!("the text {text}"),
            None => other.to_owned(),
        },
    }
}

/// What belongs there: `u32`, `a sequence`, or words of our own.
fn kind(wanted: &str) -> String {
    let whole = |most: &dyn fmt::Display| {
        format!("a whole number from 0 to {most}, without quotes or a unit")
    };
    match wanted {
        "u16" => whole(&u16::MAX),
        "u32" => whole(&u32::MAX),
        // TOML's own bound is the lower one.
        "u64" => whole(&i64::MAX),
        "f64" => "a number such as 2 or 0.5, without quotes or a unit".to_owned(),
        "a boolean" => "true or false, without quotes".to_owned(),
        "a string" => "a text in quotes".to_owned(),
        "path string" => "a path in quotes".to_owned(),
        "a sequence" => "a list: values in [ ], or sections whose name stands in [[ ]]".to_owned(),
        "a map" => TABLE.to_owned(),
        other => other.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        config::{FileOrigin, Settings},
        types::Cpus,
    };

    /// What is said of a file: its last line.
    fn said(text: &str) -> String {
        let error =
            Settings::parse(text, FileOrigin::BuiltIn, Cpus::from_millis(4000)).unwrap_err();
        let shown = error.to_string();
        assert!(shown.starts_with("configuration: line "), "{shown}");
        shown.lines().last().unwrap().to_owned()
    }

    #[test]
    fn no_type_of_rust_is_named() {
        for (text, words) in [
            (
                "[limits]\nmemory_mib = \"512\"",
                "found the text \"512\": write a whole number from 0 to 4294967295, without quotes or a unit",
            ),
            (
                "[limits]\nmemory_mib = 512 MiB",
                "a text must be in quotes, and a number has no unit: the key's name says it",
            ),
            (
                "[limits]\ntimeout_seconds = \"30s\"",
                "found the text \"30s\": write a number such as 2 or 0.5, without quotes or a unit",
            ),
            (
                "[artifacts]\nttl_seconds = -1.5",
                "found -1.5: write a whole number from 0 to 9223372036854775807, without quotes or a unit",
            ),
            (
                "[files]\nread = \"/data\"",
                "found the text \"/data\": write a list: values in [ ], or sections whose name stands in [[ ]]",
            ),
            (
                "[files]\nread = [true]",
                "found true: write a path in quotes",
            ),
            ("[docker]\nhost = 5", "found 5: write a text in quotes"),
            (
                "[language]\nname = \"x\"",
                "found a table: write a list: values in [ ], or sections whose name stands in [[ ]]",
            ),
            ("[[language]]\nname = \"x\"", "the key `image` is missing"),
            (
                "structured_content = true",
                "write one of the words that this key knows, in quotes; `belljar config schema` lists them",
            ),
            (
                "[packages.python]\nbuilds = \"yes\"",
                "found the text \"yes\": write true or false, without quotes",
            ),
        ] {
            assert_eq!(said(text), words);
        }
    }

    #[test]
    fn a_list_is_no_section() {
        for text in [
            "limits = []",
            "[[limits]]\nmemory_mib = 512",
            "[limits]\nceiling = [512]",
            "[egress]\nallow = [\"example.com\"]",
            "[secrets]\nhosts = [\"example.com\"]",
            "[egress.lab]\nbudget = []",
            "[packages]\npython = []",
            "language = [[\"x\"]]",
        ] {
            assert_eq!(said(text), format!("found a list: write {TABLE}"), "{text}");
        }
    }

    #[test]
    fn what_is_unknown_is_passed_on() {
        assert_eq!(
            plain("of a kind that is to come"),
            "of a kind that is to come"
        );
        assert_eq!(
            plain("invalid type: enum, expected a unicorn"),
            "found enum: write a unicorn"
        );
    }
}
