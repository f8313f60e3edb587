//! A secret of the server's is nowhere inside.

use std::process::Command;

use belljar::types::SandboxId;

use crate::{
    docker::{BASH, run},
    world::World,
};

const CANARY: &str = include_str!("canary.sh");

/// Names the secret in the environment of the process that is the server here.
const SECRET: &str = "BELLJAR_TEST_SECRET";

/// The environment of a process is planted by whoever starts it: the test starts itself anew. The secret is
/// also in that process's Docker configuration, as the proxy that `docker run` hands to every container.
#[test]
fn a_secret_of_the_server_is_nowhere_inside() {
    if let Ok(secret) = std::env::var(SECRET) {
        return look_for(&secret);
    }
    let secret = SandboxId::random().to_string();
    let config = tempfile::tempdir().unwrap();
    let proxy =
        format!(r#"{{"proxies": {{"default": {{"httpProxy": "http://{secret}@192.0.2.1:9"}}}}}}"#);
    std::fs::write(config.path().join("config.json"), proxy).unwrap();
    // The configuration also names the daemon, where it is not the default one.
    let daemon = Command::new("docker")
        .args([
            "context",
            "inspect",
            "--format",
            "{{.Endpoints.docker.Host}}",
        ])
        .output()
        .expect("these tests need the `docker` command");
    let status = Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "canary::a_secret_of_the_server_is_nowhere_inside",
        ])
        .arg("--nocapture")
        .env(SECRET, &secret)
        .env("DOCKER_CONFIG", config.path())
        .env(
            "DOCKER_HOST",
            String::from_utf8(daemon.stdout).unwrap().trim(),
        )
        .status()
        .unwrap();
    assert!(
        status.success(),
        "the test that was given the secret failed"
    );
}

#[tokio::main(flavor = "current_thread")]
async fn look_for(secret: &str) {
    let (one, other) = secret.split_at(secret.len() / 2);
    let argv = ["bash", "-c", CANARY, "canary", one, other];
    let outside = Command::new("docker")
        .args(["run", "--rm", BASH])
        .args(argv)
        .output()
        .expect("these tests need the `docker` command");
    let outside = String::from_utf8_lossy(&outside.stdout).into_owned();
    assert!(outside.starts_with("BREACHED"), "did not bite: {outside}");

    let world = World::new();
    let sandbox = world.launch(BASH).await;
    let inside = run(&sandbox, &argv).await;
    assert_eq!(inside.stdout.trim(), "HELD", "{inside:?}");
    sandbox.destroy().await.unwrap();
    world.engine.close().await;
}
