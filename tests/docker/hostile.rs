//! Images as hostile configuration.

use belljar::engine::{EngineError, tether::message::Hidden};

use crate::support::{TestImage, World, container, containers};

#[tokio::test]
async fn an_image_with_a_volume_is_refused() {
    let image = TestImage::new(&["VOLUME /data"]).await;
    let world = World::new();
    let error = world.try_launch(&image.0).await.map(|_| ()).unwrap_err();
    assert!(matches!(error, EngineError::ImageRefused { .. }), "{error}");
    assert!(error.to_string().contains("without VOLUME"), "{error}");
    world.engine.close().await;
    image.remove().await;
}

#[tokio::test]
async fn an_image_that_forges_labels_is_refused() {
    let image = TestImage::new(&["LABEL belljar.instance=0123"]).await;
    let world = World::new();
    let error = world.try_launch(&image.0).await.map(|_| ()).unwrap_err();
    assert!(matches!(error, EngineError::ImageRefused { .. }), "{error}");
    world.engine.close().await;
    image.remove().await;
}

#[tokio::test]
async fn a_missing_image_is_an_error_that_mends() {
    let world = World::new();
    let error = world
        .try_launch("belljar-test:missing")
        .await
        .map(|_| ())
        .unwrap_err();
    assert!(
        error
            .to_string()
            .contains("docker pull belljar-test:missing"),
        "{error}"
    );
    world.engine.close().await;
}

/// Nothing of what an image's configuration says comes true; and an image with nothing in it works.
#[tokio::test]
async fn an_image_s_configuration_is_overridden() {
    let image = TestImage::new(&[
        "ENV LD_PRELOAD=/evil.so PATH=/evil GLIBC_TUNABLES=x",
        "ENTRYPOINT [\"/evil\"]",
        "CMD [\"evil\"]",
        "USER 0",
        "WORKDIR /proc/self/fd/8",
        "HEALTHCHECK --interval=1s CMD /evil",
        "EXPOSE 80",
        "LABEL org.example=harmless",
    ])
    .await;
    let world = World::new();
    let sandbox = world.launch(&image.0).await;
    assert_eq!(sandbox.image_path(), Some("/evil"));
    let found = container(&sandbox).await;
    let config = found.config.unwrap();
    assert_eq!(config.entrypoint.unwrap(), ["/.belljar/init"]);
    assert!(config.cmd.unwrap_or_default().is_empty());
    assert_eq!(config.working_dir.as_deref(), Some("/workspace"));
    assert_eq!(config.stop_signal.as_deref(), Some("SIGKILL"));
    let env = config.env.unwrap();
    assert!(
        env.contains(&"LD_PRELOAD".to_owned()),
        "taken away by name: {env:?}"
    );
    assert!(
        !env.iter().any(|variable| variable.contains("evil")),
        "{env:?}"
    );
    let pid = found.state.unwrap().pid.unwrap();
    // Where the daemon's processes can be seen (a local daemon, and root), what PID 1 really got.
    if let Ok(environ) = std::fs::read_to_string(format!("/proc/{pid}/environ")) {
        assert!(
            !environ.contains("evil") && !environ.contains("LD_PRELOAD"),
            "{environ}"
        );
    }
    // The guest works where there is no shell, no library, no passwd.
    let entry = sandbox.write(b"a/b.txt", 5, &b"hello"[..]).await.unwrap();
    assert_eq!(entry.bytes, 5);
    let listing = sandbox.list(b"", 100, Hidden::Skip).await.unwrap();
    assert!(listing.entries.iter().any(|entry| entry.path == b"a/b.txt"));
    sandbox.destroy().await.unwrap();
    assert!(
        containers(&format!("belljar.session={}", sandbox.id()))
            .await
            .is_empty()
    );
    world.engine.close().await;
    image.remove().await;
}
