//! The tools' schemas are part of what a client sees: each is generated, committed below `tool-schemas/`, and
//! compared here. `UPDATE_SCHEMAS=1 cargo test --test schemas` writes them anew.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use std::{collections::BTreeSet, fs, path::PathBuf};

use belljar::{
    config::StructuredContent,
    tools::{Reach, catalogue},
};
use serde_json::{Value, json};

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tool-schemas")
}

fn file_names() -> BTreeSet<String> {
    let entries = fs::read_dir(folder()).unwrap();
    entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect()
}

#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "a switch of this test, no setting"
)]
fn the_committed_schemas_are_the_generated_ones() {
    let update = std::env::var_os("UPDATE_SCHEMAS").is_some();
    let mut expected = BTreeSet::new();
    for tool in catalogue(StructuredContent::On, Reach::Sandbox) {
        let name = format!("{}.json", tool.name);
        let path = folder().join(&name);
        let mut text = serde_json::to_string_pretty(&tool).unwrap();
        text.push('\n');
        if update {
            fs::write(&path, &text).unwrap();
        }
        let committed = fs::read_to_string(&path).unwrap_or_default();
        assert!(
            committed == text,
            "{name} is not what the code generates: look at the change, then run \
             `UPDATE_SCHEMAS=1 cargo test --test schemas`"
        );
        expected.insert(name);
    }
    assert_eq!(file_names(), expected, "a schema without its tool");
}

#[test]
fn every_tool_says_what_it_takes_gives_and_does() {
    for tool in catalogue(StructuredContent::On, Reach::Sandbox) {
        let tool = serde_json::to_value(&tool).unwrap();
        let name = &tool["name"];
        for text in ["title", "description"] {
            assert!(tool[text].as_str().is_some_and(|text| !text.is_empty()));
        }
        for hint in [
            "readOnlyHint",
            "destructiveHint",
            "idempotentHint",
            "openWorldHint",
        ] {
            assert!(
                tool["annotations"][hint].is_boolean(),
                "{name}: {hint} is left to the worst default"
            );
        }
        assert_eq!(tool["inputSchema"]["additionalProperties"], false, "{name}");
        for schema in ["inputSchema", "outputSchema"] {
            let schema = &tool[schema];
            assert_eq!(schema["type"], "object", "{name}");
            jsonschema::meta::validate(schema).unwrap();
            let text = schema.to_string();
            assert!(!text.contains("$ref"), "{name}: some clients follow none");
            for (argument, property) in schema["properties"].as_object().unwrap() {
                assert!(
                    property["description"].is_string(),
                    "{name}: {argument} is not explained"
                );
            }
        }
    }
}

#[test]
fn what_holds_something_from_inside_says_so_first() {
    for tool in catalogue(StructuredContent::On, Reach::Sandbox) {
        let schema = serde_json::to_value(&tool.output_schema).unwrap();
        let fields: Vec<_> = schema["properties"].as_object().unwrap().keys().collect();
        match &*tool.name {
            "run_code" | "fetch_artifact" | "list_files" => {
                assert_eq!(fields[..2], ["notice", "untrusted"], "{}", tool.name);
            }
            _ => assert!(!fields.iter().any(|field| *field == "untrusted")),
        }
    }
}

#[test]
fn without_structured_content_there_are_no_output_schemas() {
    for tool in catalogue(StructuredContent::Off, Reach::Sandbox) {
        assert_eq!(tool.output_schema, None);
    }
}

#[test]
fn the_input_schemas_take_what_is_documented_and_nothing_else() {
    for (name, arguments, fits) in [
        ("run_code", json!({"language": "python", "code": "1"}), true),
        (
            "run_code",
            json!({
                "language": "python", "code": "1", "session": "x", "stdin": "", "args": ["a"], "env": {"A": "b"},
                "files": [{"path": "a", "file_id": "x"}, {"path": "b", "text": ""}, {"path": "c", "base64": ""}],
                "timeout_seconds": 1.5, "network": "none",
                "limits": {"memory_mib": 64, "cpus": 0.5, "pids": 16, "workspace_mib": 1, "output_kib": 1},
            }),
            true,
        ),
        ("run_code", json!({"language": "python"}), false),
        (
            "run_code",
            json!({"language": "python", "code": "1", "x": 1}),
            false,
        ),
        (
            "run_code",
            json!({"language": "python", "code": "1", "limits": {"memory": 1}}),
            false,
        ),
        (
            "run_code",
            json!({"language": "python", "code": "1", "limits": {"pids": 16.5}}),
            false,
        ),
        ("upload_file", json!({"path": "a", "text": "b"}), true),
        ("upload_file", json!({"text": "b"}), false),
        (
            "fetch_artifact",
            json!({"artifact_id": "a", "encoding": "base64"}),
            true,
        ),
        ("fetch_artifact", json!({"encoding": "hex"}), false),
        (
            "open_session",
            json!({"language": "python", "ttl_seconds": 60}),
            true,
        ),
        ("close_session", json!({}), false),
        ("list_files", json!({"session": "a", "path": "b"}), true),
    ] {
        let tool = catalogue(StructuredContent::On, Reach::Sandbox)
            .into_iter()
            .find(|tool| tool.name == name)
            .unwrap();
        let schema = Value::Object((*tool.input_schema).clone());
        assert_eq!(
            jsonschema::is_valid(&schema, &arguments),
            fits,
            "{name} {arguments}"
        );
    }
}

#[test]
fn that_programs_reach_beyond_their_sandbox_is_said_where_it_is_so() {
    let open = |reach| -> Vec<String> {
        catalogue(StructuredContent::On, reach)
            .into_iter()
            .filter(|tool| tool.annotations.as_ref().unwrap().open_world_hint != Some(false))
            .map(|tool| tool.name.into_owned())
            .collect()
    };
    assert!(open(Reach::Sandbox).is_empty());
    assert_eq!(open(Reach::Beyond), ["run_code", "open_session"]);
}
