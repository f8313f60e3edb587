//! Schemas generated from the argument and result types, in the one form that every client reads:
//! JSON Schema 2020-12 with all parts inline, since some clients do not follow references.
//!
//! The schemas are committed below `tool-schemas/`; a test compares them.

use std::sync::Arc;

use rmcp::model::JsonObject;
use schemars::{JsonSchema, generate::SchemaSettings};
use serde_json::Value;

/// The schema of `T` as an object.
pub(super) fn of<T: JsonSchema>() -> Arc<JsonObject> {
    let settings =
        SchemaSettings::draft2020_12().with(|settings| settings.inline_subschemas = true);
    match settings
        .into_generator()
        .into_root_schema_for::<T>()
        .to_value()
    {
        Value::Object(mut object) => {
            // The Rust type's name says nothing to a client.
            object.remove("title");
            Arc::new(object)
        }
        // Only `true` and `false` are schemas without being objects, and no struct gives those.
        _ => Arc::new(JsonObject::new()),
    }
}
