//! Images that are made to loosen their sandbox: by their configuration, by what lies in them, and by what stands where
//! belljar and the runtime put things of their own.
//!
//! Each is made by the test from bytes of its own and an image of belljar's that is there, and removed again.

use std::process::Command;

use belljar::engine::{
    EngineError, Sandbox,
    tether::message::{ExitStatus, Hidden},
};
use bollard::{
    models::BuildInfo,
    query_parameters::{BuildImageOptions, BuilderVersion, CreateImageOptions, RemoveImageOptions},
};
use futures_util::TryStreamExt as _;

use crate::{
    docker::{Ran, bash, client, container, containers, run},
    world::World,
};

/// An entry of an image that is made of nothing else.
enum Entry<'a> {
    Folder(&'a str),
    File(&'a str),
    Link(&'a str, &'a str),
    Device(&'a str, u32, u32),
}

fn tar(entries: &[Entry<'_>]) -> Vec<u8> {
    let mut tar = tar::Builder::new(Vec::new());
    for entry in entries {
        let mut header = tar::Header::new_ustar();
        header.set_size(0);
        header.set_mode(0o777);
        match entry {
            Entry::Folder(path) => {
                header.set_entry_type(tar::EntryType::Directory);
                tar.append_data(&mut header, path, &[][..]).unwrap();
            }
            Entry::File(path) => {
                header.set_entry_type(tar::EntryType::Regular);
                tar.append_data(&mut header, path, &[][..]).unwrap();
            }
            Entry::Link(path, to) => {
                header.set_entry_type(tar::EntryType::Symlink);
                tar.append_link(&mut header, path, to).unwrap();
            }
            Entry::Device(path, major, minor) => {
                header.set_entry_type(tar::EntryType::Char);
                header.set_device_major(*major).unwrap();
                header.set_device_minor(*minor).unwrap();
                tar.append_data(&mut header, path, &[][..]).unwrap();
            }
        }
    }
    tar.into_inner().unwrap()
}

fn fresh_name() -> String {
    format!("belljar-test:{}", belljar::types::SandboxId::random())
}

/// An image of these tests. Whoever made it removes it.
struct TestImage(String);

impl TestImage {
    /// One with nothing in it but this configuration.
    async fn new(changes: &[&str]) -> Self {
        image_of(&[Entry::Folder("etc/")], changes).await
    }

    async fn remove(self) {
        client()
            .remove_image(&self.0, None::<RemoveImageOptions>, None)
            .await
            .unwrap();
    }
}

/// An image that holds these entries and has this configuration.
async fn image_of(entries: &[Entry<'_>], changes: &[&str]) -> TestImage {
    let name = fresh_name();
    let (repo, tag) = name.split_once(':').unwrap();
    let options = CreateImageOptions {
        from_src: Some("-".into()),
        repo: Some(repo.into()),
        tag: Some(tag.into()),
        changes: changes.iter().map(|change| (*change).to_owned()).collect(),
        ..CreateImageOptions::default()
    };
    let root = bollard::body_full(tar(entries).into());
    client()
        .create_image(Some(options), Some(root), None)
        .try_collect::<Vec<_>>()
        .await
        .unwrap();
    TestImage(name)
}

/// An image that this Dockerfile makes, without a network.
async fn built(dockerfile: &str) -> TestImage {
    let name = fresh_name();
    let mut context = tar::Builder::new(Vec::new());
    let mut header = tar::Header::new_ustar();
    header.set_size(dockerfile.len() as u64);
    header.set_mode(0o644);
    context
        .append_data(&mut header, "Dockerfile", dockerfile.as_bytes())
        .unwrap();
    let options = BuildImageOptions {
        dockerfile: "Dockerfile".into(),
        t: Some(name.clone()),
        rm: true,
        forcerm: true,
        networkmode: Some("none".into()),
        version: BuilderVersion::BuilderV1,
        ..BuildImageOptions::default()
    };
    let context = bollard::body_full(context.into_inner().unwrap().into());
    let log: Vec<BuildInfo> = client()
        .build_image(options, None, Some(context))
        .try_collect()
        .await
        .unwrap();
    for line in log {
        assert!(line.error_detail.is_none(), "{line:?}");
    }
    TestImage(name)
}

/// What a plain container of the image prints, as an ordinary user.
fn plain(image: &TestImage, argv: &[&str]) -> String {
    docker_run(&[], image, argv)
}

fn docker_run(flags: &[&str], image: &TestImage, argv: &[&str]) -> String {
    let output = Command::new("docker")
        .args(["run", "--rm", "--network", "none", "--user", "52100"])
        .args(flags)
        .arg(&image.0)
        .args(argv)
        .output()
        .expect("these tests need the `docker` command");
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

async fn refusal(image: &TestImage) -> String {
    let world = World::new();
    let error = world.try_launch(&image.0).await.map(|_| ()).unwrap_err();
    assert!(matches!(error, EngineError::ImageRefused { .. }), "{error}");
    world.engine.close().await;
    error.to_string()
}

async fn end(world: World, sandbox: Sandbox, image: TestImage) {
    let label = format!("belljar.session={}", sandbox.id());
    sandbox.destroy().await.unwrap();
    assert!(containers(&label).await.is_empty());
    world.engine.close().await;
    image.remove().await;
}

#[tokio::test]
async fn an_image_with_a_volume_is_refused() {
    let image = TestImage::new(&["VOLUME /data"]).await;
    let why = refusal(&image).await;
    assert!(why.contains("without VOLUME"), "{why}");
    image.remove().await;
}

#[tokio::test]
async fn an_image_that_forges_labels_is_refused() {
    let image = TestImage::new(&["LABEL belljar.instance=0123"]).await;
    let why = refusal(&image).await;
    assert!(why.contains("labels"), "{why}");
    image.remove().await;
}

#[tokio::test]
async fn an_image_with_an_enormous_environment_is_refused() {
    let many: Vec<String> = (0..300)
        .map(|n| format!("V{n}={}", "x".repeat(100)))
        .collect();
    let image = TestImage::new(&[&format!("ENV {}", many.join(" "))]).await;
    let why = refusal(&image).await;
    assert!(why.contains("environment variables"), "{why}");
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
    // The guest's own argument, or none.
    assert!(
        config
            .cmd
            .unwrap_or_default()
            .iter()
            .all(|word| word == "--stub")
    );
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
    let state = found.state.unwrap();
    assert!(
        state
            .health
            .is_none_or(|health| health.log.is_none_or(|log| log.is_empty()))
    );
    // Where the daemon's processes can be seen (a local daemon, and root), what PID 1 really got.
    if let Ok(environ) = std::fs::read_to_string(format!("/proc/{}/environ", state.pid.unwrap())) {
        assert!(
            !environ.contains("evil") && !environ.contains("LD_PRELOAD"),
            "{environ}"
        );
    }
    // The guest works where there is no shell, no library, no passwd.
    works(&sandbox).await;
    end(world, sandbox, image).await;
}

/// The guest takes a file and finds it again.
async fn works(sandbox: &Sandbox) {
    let entry = sandbox.write(b"a/b.txt", 5, &b"hello"[..]).await.unwrap();
    assert_eq!(entry.bytes, 5);
    let listing = sandbox.list(b"", 100, Hidden::Skip).await.unwrap();
    assert!(listing.entries.iter().any(|entry| entry.path == b"a/b.txt"));
}

/// An image full of traps: a root shell, a library that every program loads, names for every uid that make it a member of
/// root's and the disks' groups, programs that are not what they are called, and nodes of devices.
const TRAPS: &str = r#"
FROM belljar/bash:latest
USER 0
RUN cp /bin/bash /rootsh && chmod 4755 /rootsh \
 && cp "$(ldd /bin/bash | grep -o '/[^ ]*libc.so[^ ]*')" /preloaded.so \
 && mknod -m 666 /memory c 1 1 && mknod -m 666 /disk b 8 0 && mknod -m 666 /kmsg c 1 11 \
 && for uid in $(seq 52000 54047); do echo "u$uid:x:$uid:0:root:/:/rootsh"; done >/names && cat /etc/passwd >>/names && cp /names /etc/passwd \
 && for group in root:0 disk:6 shadow:42 docker:999; do echo "g$group" | sed "s/:/:x:/; s/$/:$(seq -s, -f u%g 52000 54047)/"; done >>/etc/group \
 && printf '#!/bin/bash\necho 0\n' >/usr/local/bin/id && chmod 755 /usr/local/bin/id \
 && printf '#!/bin/bash\necho "BREACHED by a liar"; exec /rootsh -p -c "echo uid $EUID"\n' >/usr/local/bin/python3 \
 && chmod 755 /usr/local/bin/python3 \
 && mkdir -p /.belljar /workspace/.home && echo '#!/rootsh' >/.belljar/init && chmod 4755 /.belljar/init
ENV LD_PRELOAD=/preloaded.so BASH_ENV=/etc/passwd PYTHONSTARTUP=/evil.py NODE_OPTIONS=--require=/evil.js
ENV HOME=/root TMPDIR=/
SHELL ["/evil", "-c"]
STOPSIGNAL SIGCONT
ONBUILD RUN /evil
WORKDIR /proc/self/fd
HEALTHCHECK --interval=1s --retries=1 CMD /evil
ENTRYPOINT ["/rootsh", "-p", "-c"]
"#;

#[tokio::test]
async fn what_lies_in_an_image_gains_nothing() {
    let image = built(TRAPS).await;
    // Each trap bites in a plain container, where the entry point of the image is a root shell.
    assert_eq!(plain(&image, &["echo $EUID"]), "0", "the root shell");
    let groups = plain(&image, &["/usr/bin/id -G"]);
    assert!(groups.contains("999"), "{groups}");
    let env = plain(&image, &["cat /proc/self/environ"]);
    assert!(env.contains("PYTHONSTARTUP=/evil.py"), "{env}");
    let maps = docker_run(&["--entrypoint", "cat"], &image, &["/proc/self/maps"]);
    assert!(maps.contains("/preloaded.so"), "{maps}");

    let world = World::new();
    let sandbox = world.launch(&image.0).await;
    let uid = sandbox.uid().to_string();
    let ask = async |script: &str| -> Ran { bash(&sandbox, script).await };
    assert_eq!(
        ask("/usr/bin/id -u; /usr/bin/id -G").await.ok(),
        format!("{uid}\n{uid}\n")
    );
    assert_eq!(
        run(&sandbox, &["/rootsh", "-p", "-c", "echo $EUID"])
            .await
            .ok(),
        format!("{uid}\n")
    );
    // A program that is not what it is called is a program like any other.
    let lied = run(&sandbox, &["python3", "-c", "print(1)"]).await.ok();
    assert_eq!(lied, format!("BREACHED by a liar\nuid {uid}\n"));
    assert_eq!(
        run(&sandbox, &["id", "-u"]).await.ok(),
        "0\n",
        "its own lie"
    );
    let env = ask("cat /proc/self/environ | tr '\\0' '\\n'; cat /proc/self/maps")
        .await
        .ok();
    for trap in [
        "PRELOAD",
        "preloaded",
        "BASH_ENV",
        "PYTHONSTARTUP",
        "NODE_OPTIONS",
        "/root",
        "TMPDIR",
    ] {
        assert!(!env.contains(trap), "{trap}: {env}");
    }
    for device in ["memory", "disk", "kmsg"] {
        let opened = ask(&format!("head -c 1 /{device}")).await;
        assert_ne!(
            opened.exit.status,
            ExitStatus::Code(0),
            "{device}: {opened:?}"
        );
    }
    // The guest in its volume covers what the image put there.
    let init =
        ask("stat -c %a /.belljar/init; ls /.belljar; /.belljar/init </dev/null; echo $EUID").await;
    assert!(init.stdout.ends_with(&format!("{uid}\n")), "{init:?}");
    assert!(!init.stdout.contains("4755"), "{init:?}");
    works(&sandbox).await;
    let state = container(&sandbox).await.state.unwrap();
    assert!(
        state
            .health
            .is_none_or(|health| health.log.is_none_or(|log| log.is_empty()))
    );
    end(world, sandbox, image).await;
}

/// Where belljar or the runtime puts something of its own, the image has a link to elsewhere, or a file.
#[tokio::test]
async fn what_stands_in_the_way_leads_nowhere() {
    let outside = tempfile::tempdir().unwrap();
    let target = outside.path().to_str().unwrap();
    let up = format!("../../../../../..{target}");
    for path in [
        "dev",
        "proc",
        "sys",
        "etc",
        "tmp",
        "workspace",
        ".belljar",
        "dev/shm",
    ] {
        for entries in [
            vec![Entry::Link(path, target)],
            vec![Entry::Link(path, &up)],
            vec![Entry::File(path)],
            vec![Entry::Link(path, "/proc/self/cwd")],
        ] {
            let mut all = vec![Entry::Folder("bin/")];
            if path.contains('/') {
                all.push(Entry::Folder("dev/"));
            }
            all.extend(entries);
            let image = image_of(&all, &[]).await;
            let world = World::new();
            let label = format!("belljar.instance={}", world.engine.instance().id());
            match world.try_launch(&image.0).await {
                // The runtime stayed within the container's root, and so does the guest.
                Ok(sandbox) => {
                    println!("/{path} is covered");
                    works(&sandbox).await;
                    sandbox.destroy().await.unwrap();
                }
                Err(error) => {
                    println!("/{path}: {error}");
                    assert!(
                        matches!(
                            error,
                            EngineError::Start { .. }
                                | EngineError::Tether(_)
                                | EngineError::Daemon(_)
                        ),
                        "{error}"
                    );
                }
            }
            world.engine.close().await;
            assert!(containers(&label).await.is_empty(), "/{path}");
            image.remove().await;
            let left: Vec<_> = std::fs::read_dir(target).unwrap().collect();
            assert!(left.is_empty(), "/{path} led to {left:?}");
        }
    }
}

/// Nodes of devices in an image without anything else: the folder for devices is the runtime's own.
#[tokio::test]
async fn devices_of_an_image_are_not_in_dev() {
    let image = image_of(
        &[
            Entry::Folder("dev/"),
            Entry::Device("dev/memory", 1, 1),
            Entry::Device("dev/null", 1, 1),
        ],
        &[],
    )
    .await;
    let world = World::new();
    let sandbox = world.launch(&image.0).await;
    works(&sandbox).await;
    end(world, sandbox, image).await;
}

/// An image can take its own name away while it is used, and come back as another: what runs is what was looked up.
#[tokio::test]
async fn an_image_that_is_removed_while_it_runs_is_used_to_the_end() {
    let image = TestImage::new(&["LABEL org.example=removed"]).await;
    let world = World::new();
    let id = client().inspect_image(&image.0).await.unwrap().id.unwrap();
    let sandbox = world.launch(&image.0).await;
    let options = RemoveImageOptions {
        force: true,
        ..RemoveImageOptions::default()
    };
    client()
        .remove_image(&image.0, Some(options), None)
        .await
        .unwrap();
    works(&sandbox).await;
    sandbox.destroy().await.unwrap();
    let error = world.try_launch(&image.0).await.map(|_| ()).unwrap_err();
    assert!(matches!(error, EngineError::ImageMissing { .. }), "{error}");
    world.engine.close().await;
    // Only its name is gone while a container uses it.
    TestImage(id).remove().await;
}
