//! JSON as a value, read strictly and within bounds.
//!
//! A few bytes of JSON can become much memory: `[[],[],…` takes more than ten times its own size once it is read. So
//! what a message takes is counted while it is read, and reading stops where it is too much. It must never build a
//! value that two readers could understand in two ways: a name that stands twice in an object is refused.

use std::{cell::Cell, fmt};

use serde::de::{DeserializeSeed, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

/// How deep lists and objects may be nested: arguments need five. Stops what exhausts the stack of whoever reads the
/// value behind us.
pub(super) const MAX_DEPTH: usize = 64;
/// The most that one message may take once it is read, in bytes: twice what the largest arguments that the policy
/// allows hold, so that arguments which are somewhat too large are still told their own bound. Stops a message that
/// is small on the wire and large in memory.
pub(super) const MAX_WEIGHT: usize = 48 * 1024 * 1024;
/// What a value takes beside its text, in a list that has grown to twice what is in it.
const NODE_WEIGHT: usize = 2 * size_of::<Value>();
/// What a name takes besides, with its text's own allocation, in an object that has grown likewise.
const NAME_WEIGHT: usize = 2 * size_of::<String>() + 48;
/// What an object takes with its first entry: tables with room for some more. Stops lists of small objects, which take
/// seventy times their size on the wire.
const TABLE_WEIGHT: usize = 3 * size_of::<Value>() + 40;

/// A value, and what it takes in memory.
pub(super) struct Weighed {
    pub(super) value: Value,
    /// In bytes, roughly.
    pub(super) weight: usize,
}

/// Reads the one value that `bytes` hold.
pub(super) fn read(bytes: &[u8]) -> Result<Weighed, serde_json::Error> {
    let left = Cell::new(MAX_WEIGHT);
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    let value = Strict {
        left: &left,
        depth: 0,
    }
    .deserialize(&mut reader)?;
    reader.end()?;
    Ok(Weighed {
        value,
        weight: MAX_WEIGHT - left.get(),
    })
}

/// Reads one value with what is left of the bounds.
#[derive(Clone, Copy)]
struct Strict<'a> {
    left: &'a Cell<usize>,
    depth: usize,
}

impl Strict<'_> {
    fn take<E: serde::de::Error>(&self, bytes: usize) -> Result<(), E> {
        let left = self
            .left
            .get()
            .checked_sub(bytes)
            .ok_or_else(|| E::custom(TooHeavy))?;
        self.left.set(left);
        Ok(())
    }

    fn deeper<E: serde::de::Error>(self) -> Result<Self, E> {
        if self.depth == MAX_DEPTH {
            return Err(E::custom(TooDeep));
        }
        Ok(Self {
            depth: self.depth + 1,
            ..self
        })
    }
}

/// A message takes too much memory.
struct TooHeavy;

impl fmt::Display for TooHeavy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the message takes more than {MAX_WEIGHT} bytes once it is read: give large content in several calls"
        )
    }
}

/// Lists or objects are nested too deep.
struct TooDeep;

impl fmt::Display for TooDeep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "lists and objects may be nested {MAX_DEPTH} deep")
    }
}

impl<'de> DeserializeSeed<'de> for Strict<'_> {
    type Value = Value;

    fn deserialize<D: serde::Deserializer<'de>>(self, reader: D) -> Result<Value, D::Error> {
        self.take(NODE_WEIGHT)?;
        reader.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Strict<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Value, E> {
        self.take(text.len())?;
        Ok(Value::from(text))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let inner = self.deeper()?;
        let mut list = Vec::new();
        while let Some(entry) = entries.next_element_seed(inner)? {
            list.push(entry);
        }
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let inner = self.deeper()?;
        let mut object = Map::new();
        while let Some(name) = entries.next_key_seed(Name(self))? {
            if object.is_empty() {
                self.take(TABLE_WEIGHT)?;
            }
            if object.contains_key(&name) {
                return Err(A::Error::custom("a name stands twice in one object"));
            }
            let value = entries.next_value_seed(inner)?;
            object.insert(name, value);
        }
        Ok(Value::Object(object))
    }
}

/// Reads the name of an entry.
struct Name<'a>(Strict<'a>);

impl<'de> DeserializeSeed<'de> for Name<'_> {
    type Value = String;

    fn deserialize<D: serde::Deserializer<'de>>(self, reader: D) -> Result<String, D::Error> {
        reader.deserialize_str(self)
    }
}

impl Visitor<'_> for Name<'_> {
    type Value = String;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name")
    }

    fn visit_str<E: serde::de::Error>(self, name: &str) -> Result<String, E> {
        self.0.take(NAME_WEIGHT + name.len())?;
        Ok(name.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn refused(text: &str) -> String {
        read(text.as_bytes()).err().unwrap().to_string()
    }

    #[test]
    fn nesting_is_bounded_at_any_depth() {
        let nested = |deep: usize| "[".repeat(deep) + &"]".repeat(deep);
        assert!(read(nested(MAX_DEPTH).as_bytes()).is_ok());
        for deep in [MAX_DEPTH + 1, 128, 1000, 100_000] {
            assert!(refused(&nested(deep)).contains("nested 64 deep"), "{deep}");
            let objects = "{\"a\":".repeat(deep) + "1" + &"}".repeat(deep);
            assert!(refused(&objects).contains("nested 64 deep"), "{deep}");
        }
    }

    #[test]
    fn a_name_that_stands_twice_is_refused_wherever_it_stands() {
        for text in [
            r#"{"a":1,"a":1}"#,
            r#"{"a":1,"\u0061":2}"#,
            r#"[{"b":{"a":1,"c":2,"a":3}}]"#,
        ] {
            assert!(refused(text).contains("twice"), "{text}");
        }
    }

    #[test]
    fn what_is_small_on_the_wire_and_large_in_memory_is_refused() {
        let much = MAX_WEIGHT / NODE_WEIGHT;
        for text in [
            format!("[0{}]", ",0".repeat(much)),
            format!("[[]{}]", ",[]".repeat(much)),
            format!("[{{}}{}]", r#",{"":0}"#.repeat(much / 4)),
            format!("\"{}\"", "x".repeat(MAX_WEIGHT)),
        ] {
            assert!(refused(&text).contains("once it is read"), "{text:.20}");
        }
    }

    #[test]
    fn halves_of_characters_and_numbers_that_are_none_are_refused() {
        for text in [
            r#""\ud800""#,
            r#""\udc00""#,
            r#""\ud800x""#,
            r#""\ud800\u0041""#,
            "1e999",
            "-1e999",
            "NaN",
            "Infinity",
            "01",
            "+1",
            ".5",
            "0x10",
        ] {
            assert!(read(text.as_bytes()).is_err(), "{text}");
        }
        for text in ["-0", "1e308", "18446744073709551616", "\"\\ud83d\\ude00\""] {
            assert!(read(text.as_bytes()).is_ok(), "{text}");
        }
        assert!(read(b"\"\xff\"").is_err());
    }

    proptest! {
        #[test]
        fn whatever_it_reads_is_what_the_library_reads(text in "[\\[\\]{}\",:0-9a-c\\\\u eE.+-]{0,40}") {
            if let Ok(read) = read(text.as_bytes()) {
                let other: Value = serde_json::from_str(&text).unwrap();
                prop_assert_eq!(read.value, other);
            }
        }

        #[test]
        fn arbitrary_bytes_are_read_or_refused(bytes: Vec<u8>) {
            let _ = read(&bytes);
        }
    }
}
