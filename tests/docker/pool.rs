//! Sandboxes that wait, on a real daemon: raised by the kernel's own account, and none handed out that is paused, dead or
//! of an image that was replaced.

use belljar::{
    config::{FileOrigin, Settings, machine_cpus},
    engine::Engine,
    pool::{Origin, Pool, Taken},
    types::{LimitsRequest, SandboxId},
};
use bollard::query_parameters::{RemoveImageOptions, TagImageOptions};

use crate::support::{BASH, JAVASCRIPT, World, bash, client, containers, permit, until};

struct Pooled {
    world: World,
    pool: Pool,
    image: String,
}

impl Pooled {
    /// A pool in which one sandbox of this image waits.
    async fn new(image: &str) -> Self {
        let settings = Settings::parse("[pool]\n", FileOrigin::BuiltIn, machine_cpus()).unwrap();
        let world = World::new();
        let pool = Pool::new(world.engine.clone(), &settings);
        pool.start();
        let pooled = Self {
            world,
            pool,
            image: image.to_owned(),
        };
        let first = pooled.take(LimitsRequest::default()).await;
        assert_eq!(first.origin, Origin::Started);
        drop(first);
        pooled.until_one_waits().await;
        pooled
    }

    async fn take(&self, limits: LimitsRequest) -> Taken {
        self.pool.take(&permit(&self.image, limits)).await.unwrap()
    }

    /// Takes one that came about like this. On a busy machine one that waits may be too slow to say that it still
    /// answers, and is then replaced: another one waits soon.
    async fn take_of(&self, origin: Origin, limits: LimitsRequest) -> Taken {
        for _ in 0..5 {
            self.until_one_waits().await;
            let taken = self.take(limits).await;
            if taken.origin == origin {
                return taken;
            }
        }
        panic!("none is {}", origin.as_str());
    }

    async fn until_one_waits(&self) {
        until("one waits", async || self.pool.waiting().all > 0).await;
    }

    fn engine(&self) -> &Engine {
        &self.world.engine
    }

    /// Ends everything, and shows that nothing is left.
    async fn close(self) {
        self.pool.close();
        self.engine().close().await;
        assert_eq!(waiting(&self).await, Vec::<String>::new());
    }
}

/// The daemon's ids of this server's sandboxes.
async fn waiting(pooled: &Pooled) -> Vec<String> {
    let label = format!("belljar.instance={}", pooled.engine().instance().id());
    let found = containers(&label).await;
    found.into_iter().filter_map(|one| one.id).collect()
}

#[tokio::test]
async fn one_that_waited_is_raised_and_never_had_a_predecessor() {
    let pooled = Pooled::new(BASH).await;
    let limits = LimitsRequest {
        memory_mib: Some(1024),
        pids: Some(256),
        ..LimitsRequest::default()
    };
    let plain = pooled
        .take_of(Origin::Ready, LimitsRequest::default())
        .await;
    let raised = pooled.take_of(Origin::Raised, limits).await;
    let mut memory = Vec::new();
    for taken in [&plain, &raised] {
        let script = "touch /workspace/used; cat /sys/fs/cgroup/memory/memory.limit_in_bytes \
                      /sys/fs/cgroup/memory.max 2>/dev/null; ls /workspace";
        let said = bash(&taken.sandbox, script).await.stdout;
        let (bytes, files) = said.split_once('\n').unwrap();
        assert_eq!(files, "used\n");
        memory.push(bytes.parse::<u64>().unwrap());
    }
    assert_eq!(memory[1] - memory[0], 512 * 1024 * 1024);
    drop((plain, raised));
    pooled.close().await;
}

#[tokio::test]
async fn one_that_was_paused_is_not_handed_out() {
    let pooled = Pooled::new(BASH).await;
    let docker = client();
    let paused = waiting(&pooled).await;
    for id in &paused {
        // Some may be on their way out.
        let _ = docker.pause_container(id).await;
    }
    until("it is given up", async || {
        let left = waiting(&pooled).await;
        paused.iter().all(|id| !left.contains(id))
    })
    .await;
    let taken = pooled.take(LimitsRequest::default()).await;
    assert_eq!(bash(&taken.sandbox, "echo alive").await.ok(), "alive\n");
    drop(taken);
    pooled.close().await;
}

#[tokio::test]
async fn one_that_was_killed_from_outside_is_not_handed_out() {
    let pooled = Pooled::new(BASH).await;
    let docker = client();
    for id in waiting(&pooled).await {
        let _ = docker.kill_container(&id, None).await;
    }
    for _ in 0..3 {
        let taken = pooled.take(LimitsRequest::default()).await;
        assert_eq!(bash(&taken.sandbox, "echo alive").await.ok(), "alive\n");
    }
    pooled.close().await;
}

#[tokio::test]
async fn an_image_whose_name_moves_is_what_the_next_call_gets() {
    let name = &format!("belljar-test/{}", SandboxId::random());
    let docker = client();
    let tag = async |from: &str| {
        let to = TagImageOptions {
            repo: Some(name.clone()),
            tag: Some("latest".to_owned()),
        };
        docker.tag_image(from, Some(to)).await.unwrap();
    };
    tag(BASH).await;
    let pooled = Pooled::new(name).await;
    let old = pooled.take(LimitsRequest::default()).await;
    let old_image = old.sandbox.image_id().to_owned();
    drop(old);
    pooled.until_one_waits().await;
    tag(JAVASCRIPT).await;
    // Whoever waits is of the old image and goes; what is started then is of the new one.
    let image = async || {
        let taken = pooled.take(LimitsRequest::default()).await;
        taken.sandbox.image_id().to_owned()
    };
    until("the new image is used", async || image().await != old_image).await;
    for _ in 0..3 {
        assert_ne!(image().await, old_image, "and it stays so");
    }
    let untag = docker.remove_image(name, None::<RemoveImageOptions>, None);
    untag.await.unwrap();
    until("a call is told that the image is gone", async || {
        let permit = permit(name, LimitsRequest::default());
        let error = pooled.pool.take(&permit).await.err();
        error.is_some_and(|error| error.reason() == "image_missing")
    })
    .await;
    pooled.close().await;
}
