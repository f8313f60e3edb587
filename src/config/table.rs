//! Sections of the file: tables, and nothing else.
//!
//! A derived reader takes a list for a section too, its values in the order of the keys. `limits = []` would be believed,
//! and `[egress]` with `allow = [...]` in it read as a profile named `allow`. Nothing here knows what is in a section.

use std::{collections::BTreeMap, fmt, marker::PhantomData};

use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, Visitor, value::MapAccessDeserializer},
};

/// What a section looks like, after "write".
pub(super) const TABLE: &str =
    "a table: a section whose name stands in [ ], or keys with values in { }";

/// What was read of a table.
struct Table<T>(T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Table<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Only<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for Only<T> {
            type Value = T;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(TABLE)
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<T, A::Error> {
                T::deserialize(MapAccessDeserializer::new(map))
            }
        }
        deserializer.deserialize_map(Only(PhantomData)).map(Table)
    }
}

/// Reads one section.
pub(super) fn one<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    Table::deserialize(deserializer).map(|Table(section)| section)
}

/// Reads a section that may be absent.
pub(super) fn optional<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    one(deserializer).map(Some)
}

/// Reads sections by their names.
pub(super) fn named<'de, D, T>(deserializer: D) -> Result<BTreeMap<String, T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    let tables: BTreeMap<String, Table<T>> = BTreeMap::deserialize(deserializer)?;
    let bare = |(name, Table(section))| (name, section);
    Ok(tables.into_iter().map(bare).collect())
}

/// Reads a list of sections.
pub(super) fn each<'de, D, T>(deserializer: D) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    let tables: Vec<Table<T>> = Vec::deserialize(deserializer)?;
    Ok(tables.into_iter().map(|Table(section)| section).collect())
}
