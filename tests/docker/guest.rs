//! The volume with the guest: seeded once, whole, whoever comes first.

use belljar::{engine::Engine, types::LimitsRequest};
use bollard::query_parameters::{ListImagesOptions, ListVolumesOptions, RemoveVolumeOptions};

use crate::support::{BASH, bash, client, engine_in, permit};

/// A runtime that is not the default one, so that this test has a volume of its own: another name for runc on every
/// Docker with containerd, or gVisor, since a daemon that has read its configuration again forgets that name.
async fn other_runtime() -> String {
    let known = client().info().await.unwrap().runtimes.unwrap_or_default();
    ["io.containerd.runc.v2", "runsc"]
        .into_iter()
        .find(|name| known.contains_key(*name))
        .expect("this test needs a second runtime")
        .to_owned()
}

/// Names of the guest volumes of this runtime.
async fn volumes(runtime: &str) -> Vec<String> {
    let options = ListVolumesOptions {
        filters: Some(
            [(
                "label".to_owned(),
                vec!["belljar.role=guest-volume".to_owned()],
            )]
            .into(),
        ),
    };
    let list = client().list_volumes(Some(options)).await.unwrap();
    list.volumes
        .unwrap_or_default()
        .into_iter()
        .map(|volume| volume.name)
        .filter(|name| name.contains(&format!("-{runtime}")))
        .collect()
}

async fn remove_volumes(runtime: &str) {
    for name in volumes(runtime).await {
        client()
            .remove_volume(&name, None::<RemoveVolumeOptions>)
            .await
            .unwrap();
    }
}

async fn launch_all(engines: &[Engine]) {
    let mut launches = tokio::task::JoinSet::new();
    for engine in engines {
        let engine = engine.clone();
        launches.spawn(async move {
            let permit = permit(BASH, LimitsRequest::default());
            let sandbox = engine.launch(&permit).await.unwrap();
            assert_eq!(bash(&sandbox, "echo up").await.ok(), "up\n");
            sandbox.destroy().await.unwrap();
        });
    }
    launches.join_all().await;
}

/// One test, since all of it works on the same volumes.
#[tokio::test]
async fn the_volume_is_seeded_once_by_concurrent_servers_and_again_when_it_is_spoiled() {
    let runtime = &other_runtime().await;
    remove_volumes(runtime).await;
    let states: Vec<_> = (0..4).map(|_| tempfile::tempdir().unwrap()).collect();
    let engines: Vec<Engine> = states
        .iter()
        .map(|state| engine_in(state.path(), Some(runtime)))
        .collect();
    launch_all(&engines).await;
    assert_eq!(
        volumes(runtime).await.len(),
        2,
        "the pointer and what it points to: {:?}",
        volumes(runtime).await
    );

    // Pruned between two launches of a server that knows the volume.
    remove_volumes(runtime).await;
    launch_all(&engines).await;
    assert_eq!(
        volumes(runtime).await.len(),
        2,
        "{:?}",
        volumes(runtime).await
    );

    for engine in &engines {
        engine.close().await;
    }
    let options = ListImagesOptions {
        filters: Some(
            [(
                "reference".to_owned(),
                vec!["belljar/guest-seed".to_owned()],
            )]
            .into(),
        ),
        ..ListImagesOptions::default()
    };
    assert!(
        client()
            .list_images(Some(options))
            .await
            .unwrap()
            .is_empty()
    );
    remove_volumes(runtime).await;
}
