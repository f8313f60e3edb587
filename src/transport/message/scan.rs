//! Looks for the id of a message that cannot be read, or that is too long to be held.
//!
//! It reads as far as needed to know where the outermost object's entries begin, and holds nothing but the id. It must
//! never refuse: what it does not understand has no id.

use serde_json::Value;

use super::{Echo, MAX_ID_BYTES};

/// The longest text of an id that is looked at: its bytes may each be an escape of six.
const MAX_RAW_BYTES: usize = 6 * MAX_ID_BYTES + 2;
/// The longest name that is compared with `id`.
const MAX_NAME_BYTES: usize = 2;

/// What has been seen so far.
#[derive(Debug, Default)]
pub(in crate::transport) struct Scan {
    /// How many lists and objects are open.
    depth: u64,
    /// Within a text.
    text: bool,
    /// Behind a backslash in a text.
    escaped: bool,
    /// What is being read of the outermost object.
    place: Place,
    /// The name that is being read, as far as it matters.
    name: Vec<u8>,
    /// The id's text, as far as it was read.
    raw: Vec<u8>,
    /// How many ids there were.
    ids: usize,
}

/// Where in the outermost object a byte stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Place {
    /// Before it.
    #[default]
    Before,
    /// At a name.
    Name,
    /// In the value of `id`.
    Id,
    /// In another value.
    Other,
    /// Behind it, or it is no object.
    Behind,
}

impl Scan {
    /// Reads on.
    pub(in crate::transport) fn read(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            match self.place {
                Place::Behind => return,
                _ if self.text => self.in_text(byte),
                _ => self.outside(byte),
            }
        }
    }

    fn in_text(&mut self, byte: u8) {
        self.keep(byte);
        if self.escaped {
            self.escaped = false;
        } else if byte == b'\\' {
            self.escaped = true;
        } else if byte == b'"' {
            self.text = false;
        } else if self.place == Place::Name && self.name.len() <= MAX_NAME_BYTES {
            self.name.push(byte);
        }
    }

    fn outside(&mut self, byte: u8) {
        match byte {
            b' ' | b'\t' | b'\r' | b'\n' => {}
            b'{' | b'[' => {
                self.depth += 1;
                self.place = match (self.place, byte) {
                    (Place::Before, b'{') => Place::Name,
                    (Place::Before | Place::Name, _) => Place::Behind,
                    (place, _) => place,
                };
                self.keep(byte);
            }
            b'}' | b']' => {
                self.depth = self.depth.saturating_sub(1);
                if self.depth == 0 {
                    self.place = Place::Behind;
                } else {
                    self.keep(byte);
                }
            }
            b',' if self.depth == 1 => {
                self.place = Place::Name;
                self.name.clear();
            }
            b':' if self.depth == 1 && self.place == Place::Name => {
                self.place = Place::Other;
                if self.name == b"id" {
                    self.place = Place::Id;
                    self.ids += 1;
                }
            }
            b'"' => {
                self.text = true;
                self.keep(byte);
            }
            _ if self.place == Place::Before => self.place = Place::Behind,
            _ => self.keep(byte),
        }
    }

    fn keep(&mut self, byte: u8) {
        if self.place == Place::Id && self.raw.len() <= MAX_RAW_BYTES {
            self.raw.push(byte);
        }
    }

    /// The id, where there was exactly one and it is one that may be sent back.
    pub(in crate::transport) fn id(self) -> Echo {
        // Still within its value: the end of it was never seen.
        if self.ids != 1 || self.place == Place::Id {
            return Echo::none();
        }
        match serde_json::from_slice::<Value>(&self.raw) {
            Ok(id) => Echo::of(&id),
            Err(_) => Echo::none(),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn id(text: &str) -> Value {
        let mut scan = Scan::default();
        scan.read(text.as_bytes());
        scan.id().into()
    }

    #[test]
    fn the_id_is_found_wherever_it_stands_and_whatever_stands_around_it() {
        for (text, expected) in [
            (r#"{"id":7,"x":"\ud800"}"#, json!(7)),
            (
                r#"{"x":{"id":1},"y":["id",{"id":2}],"id": "a\"b" }"#,
                json!("a\"b"),
            ),
            (r#"{"x":"\",\"id\":3","id":4}"#, json!(4)),
            (r#"{"params":[[[[}}]]]],"id":-5,"#, json!(null)),
            (r#"{"id":18446744073709551615,"#, json!(u64::MAX)),
            (r#"{"id":1,"id":2}"#, json!(null)),
            (r#"{"id":{"id":1}}"#, json!(null)),
            (r#"{"id":1.5}"#, json!(null)),
            (r#"{"id":12"#, json!(null)),
            (r#"{"id":null}"#, json!(null)),
            (r#"{"idx":1,"i":2}"#, json!(null)),
            (r#"[{"id":1}]"#, json!(null)),
            (r#""id":1"#, json!(null)),
            (r#"{"a":1}{"id":1}"#, json!(null)),
            ("", json!(null)),
        ] {
            assert_eq!(id(text), expected, "{text}");
        }
        let long = format!(r#"{{"id":"{}"}}"#, "x".repeat(1 << 20));
        assert_eq!(id(&long), json!(null));
        let deep = format!(
            r#"{{"params":{}{},"id":9}}"#,
            "[".repeat(100_000),
            "]".repeat(100_000)
        );
        assert_eq!(id(&deep), json!(9));
    }

    proptest! {
        #[test]
        fn of_a_whole_message_it_finds_what_the_parser_finds(
            number: i64, text in "\\PC{0,20}", before in "\\PC{0,20}", pieces in 1_usize..9,
        ) {
            for value in [json!(number), json!(text)] {
                let message = json!({"a": before, "b": [{"id": 1}], "id": value, "z": {"id": [2]}}).to_string();
                let mut scan = Scan::default();
                for piece in message.as_bytes().chunks(pieces) {
                    scan.read(piece);
                }
                prop_assert_eq!(Value::from(scan.id()), value);
            }
        }

        #[test]
        fn arbitrary_bytes_hold_at_most_a_short_id(bytes: Vec<u8>) {
            let mut scan = Scan::default();
            scan.read(&bytes);
            prop_assert!(scan.raw.len() <= MAX_RAW_BYTES + 1);
            let _ = scan.id();
        }
    }
}
