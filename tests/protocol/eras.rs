//! Both revisions of the protocol that clients speak, and what is answered whatever the daemon does.

use belljar::engine::fake::{Cue, FakeDaemon, Verb};
use rmcp::{
    ServiceExt as _,
    model::{CallToolRequestParams, ProtocolVersion, ReadResourceRequestParams},
    service::{ClientLifecycleMode, ClientServiceExt as _},
};
use serde_json::json;

use crate::{
    client::Era,
    harness::{Setup, World, down},
};

const TOOLS: [&str; 6] = [
    "run_code",
    "upload_file",
    "fetch_artifact",
    "open_session",
    "close_session",
    "list_files",
];

#[tokio::test]
async fn a_client_of_2025_is_served() {
    let world = World::new().await;
    let tools = world.client.request("tools/list", json!({})).await;
    let names: Vec<_> = tools["result"]["tools"]
        .as_array()
        .unwrap()
        .iter()
        .map(|tool| tool["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, TOOLS, "in a fixed order");
    world.works().await;
}

#[tokio::test]
async fn a_client_of_2026_is_served_without_a_handshake() {
    let world = Setup::new().era(Era::Modern).start().await;
    let discovered = world.client.request("server/discover", json!({})).await;
    let result = &discovered["result"];
    let versions = result["supportedVersions"].as_array().unwrap();
    assert!(versions.contains(&json!("2026-07-28")), "{discovered}");
    assert!(versions.contains(&json!("2025-11-25")), "{discovered}");
    assert!(result["capabilities"]["tools"].is_object(), "{discovered}");
    let instructions = result["instructions"].as_str().unwrap();
    assert!(instructions.contains("BEGIN UNTRUSTED"), "{instructions}");
    assert!(result["ttlMs"].is_u64() && result["cacheScope"].is_string());
    for list in ["tools/list", "resources/list", "resources/templates/list"] {
        let listed = world.client.request(list, json!({})).await;
        let result = &listed["result"];
        assert!(
            result["ttlMs"].is_u64() && result["cacheScope"].is_string(),
            "{list}: {listed}"
        );
    }
    world.works().await;
}

#[tokio::test]
async fn a_request_of_2026_without_its_version_is_refused_and_the_next_one_served() {
    let world = Setup::new().era(Era::Modern).start().await;
    let bare = r#"{"jsonrpc":"2.0","id":900,"method":"tools/list","params":{}}"#;
    world.client.line(bare).await;
    world.works().await;
    let strays = world.client.strays();
    let refused = strays.iter().find(|message| message["id"] == 900);
    assert_eq!(refused.unwrap()["error"]["code"], -32602);
}

#[tokio::test]
async fn the_client_of_the_sdk_gets_along_in_both_eras() {
    for lifecycle in [
        ClientLifecycleMode::Initialize,
        ClientLifecycleMode::Discover {
            preferred_versions: vec![ProtocolVersion::V_2026_07_28],
        },
    ] {
        let (stream, _parts) = Setup::new().serve();
        let client = ().serve_with_lifecycle(stream, lifecycle.clone()).await.unwrap();
        let tools = client.list_all_tools().await.unwrap();
        assert_eq!(tools.len(), TOOLS.len());
        let arguments = json!({"language": "bash", "code": "raw 00\nout hello"});
        let call = CallToolRequestParams::new("run_code")
            .with_arguments(arguments.as_object().unwrap().clone());
        let result = client.call_tool(call).await.unwrap();
        assert_eq!(result.is_error, Some(false), "{lifecycle:?}");
        let structured = result.structured_content.unwrap();
        assert_eq!(structured["stdout"]["text"], "\\x00hello\n");
        let resources = client.list_all_resources().await.unwrap();
        assert_eq!(resources.len(), 1);
        let read = ReadResourceRequestParams::new(resources[0].uri.clone());
        client.read_resource(read).await.unwrap();
        client.cancel().await.unwrap();
    }
    // The one that knows no other way.
    let (stream, _parts) = Setup::new().serve();
    let client = ().serve(stream).await.unwrap();
    assert_eq!(client.list_all_tools().await.unwrap().len(), TOOLS.len());
}

#[tokio::test]
async fn lists_are_answered_while_the_daemon_is_down_and_a_call_says_what_mends_it() {
    let daemon = FakeDaemon::new();
    // The first look is the start's, for what dead servers left.
    for _ in 0..4 {
        daemon.on(Verb::Info, Cue::Fail(down()));
    }
    let world = Setup::on(daemon).start().await;
    for list in ["tools/list", "resources/list", "resources/templates/list"] {
        let listed = world.client.request(list, json!({})).await;
        assert!(listed["result"].is_object(), "{list}: {listed}");
    }
    let answer = world.run("out x").await;
    let text = answer.error();
    assert!(text.contains("no Docker daemon answers"), "{text}");
    assert!(text.contains("systemctl start docker"), "{text}");
    assert!(text.contains("belljar doctor"), "{text}");
    let session = world
        .tool("open_session", json!({"language": "python"}))
        .await;
    assert!(session.error().contains("no Docker daemon answers"));
    // It came up meanwhile, and the server need not be started anew.
    while world.daemon.count(Verb::Info) < 4 {
        world.run("out x").await;
    }
    world.works().await;
}

#[tokio::test]
async fn a_missing_image_names_the_command_that_builds_it() {
    let world = Setup::bare(FakeDaemon::new()).start().await;
    let answer = world.run("out x").await;
    let text = answer.error();
    assert!(text.contains("belljar images build python"), "{text}");
    assert_eq!(world.created(), 0);
    world.daemon.add_image("belljar/python:latest");
    world.works().await;
}

#[tokio::test]
async fn an_operators_own_image_is_run_by_its_name_and_aliases() {
    let config = r#"
        [[language]]
        name = "lua"
        aliases = ["lua5"]
        image = "example/lua:5"
        program = ".main.lua"
        command = ["lua", "{program}"]
    "#;
    let world = Setup::new().config(config).start().await;
    let missing = world.run_with("out x", json!({"language": "lua"})).await;
    assert!(missing.error().contains("docker pull example/lua:5"));
    world.daemon.add_image("example/lua:5");
    for name in ["lua", "lua5"] {
        let answer = world.run_with("out x", json!({"language": name})).await;
        assert_eq!(answer.ok()["sandbox"]["image"], "example/lua:5");
    }
}

#[tokio::test]
async fn an_unknown_tool_is_an_error_of_the_protocol() {
    let world = World::new().await;
    for name in ["rm", "run_code\u{202e}", "", "RUN_CODE"] {
        let params = json!({"name": name, "arguments": {}});
        let response = world.client.request("tools/call", params).await;
        assert_eq!(response["error"]["code"], -32602, "{response}");
        let message = response["error"]["message"].as_str().unwrap();
        assert!(message.contains("unknown tool"), "{message}");
        assert!(!message.contains('\u{202e}'), "{message}");
    }
    world.works().await;
}

#[tokio::test]
async fn structured_results_can_be_switched_off() {
    let world = Setup::new()
        .config("structured_content = \"off\"")
        .start()
        .await;
    let tools = world.client.request("tools/list", json!({})).await;
    for tool in tools["result"]["tools"].as_array().unwrap() {
        assert!(tool.get("outputSchema").is_none(), "{tool}");
    }
    let answer = world.run("out hello").await;
    assert!(answer.result.get("structuredContent").is_none());
    assert_ne!(answer.result["isError"], true);
    assert!(answer.text().contains("hello\n----- END UNTRUSTED stdout"));
}

#[tokio::test]
async fn noise_on_the_wire_stops_nothing() {
    let world = World::new().await;
    for noise in [
        "",
        "not json",
        "{}",
        "[]",
        "null",
        r#"{"jsonrpc":"2.0","method":"notifications/unheard-of","params":{}}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":777}}"#,
        r#"{"jsonrpc":"2.0","id":901,"result":{}}"#,
    ] {
        world.client.line(noise).await;
        world.works().await;
    }
}
