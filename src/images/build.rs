//! Builds, lists and removes the built-in images.

use std::{collections::BTreeMap, io};

use super::{
    BuilderError, BuiltIn, Context, LABEL_NAME, LABEL_VERSION,
    base::{self, BaseError, Bootstrap},
    builder::{BuildRequest, Cache, Found, ImageBuilder},
    line::Progress,
};

/// Why an image could not be built.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// There is nothing to start from.
    #[error(transparent)]
    Base(#[from] BaseError),
    /// The build context could not be put together.
    #[error("the build context of {image} could not be made: {error}")]
    Context {
        /// The image's name.
        image: String,
        /// What the system says.
        error: io::Error,
    },
    /// The daemon failed.
    #[error("the image {image} could not be built: {error}")]
    Builder {
        /// The image's name.
        image: String,
        /// What the daemon says.
        error: BuilderError,
    },
}

/// Whether an image that is up to date is built again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rebuild {
    /// It is left as it is.
    IfChanged,
    /// It is built again, every package fetched anew: this is how security updates come in.
    Always,
}

/// What became of an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It was built.
    Built,
    /// It was built of exactly these files already.
    Current,
}

/// An image that is there now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Built {
    /// Its name.
    pub name: String,
    /// Its reference.
    pub tag: String,
    /// What became of it.
    pub outcome: Outcome,
}

/// How a built-in image is on a daemon.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Present {
    /// It is not there.
    Missing,
    /// It is there, and was built of other files than this belljar's, or by other hands.
    Stale {
        /// Size in bytes.
        bytes: u64,
    },
    /// It is there, as this belljar would build it.
    Current {
        /// Size in bytes.
        bytes: u64,
    },
}

/// Builds `images`, and their base first where it is missing. The first failure ends it; what was built stays.
pub async fn build(
    builder: &dyn ImageBuilder,
    bootstrap: &dyn Bootstrap,
    images: &[BuiltIn],
    rebuild: Rebuild,
    progress: &dyn Progress,
) -> Result<Vec<Built>, BuildError> {
    let mut done = Vec::with_capacity(images.len());
    let mut base_is_there = false;
    for image in images {
        let name = &image.image.name;
        let tag = &image.image.tag;
        let context = context(image)?;
        let failed = |error| BuildError::Builder {
            image: name.clone(),
            error,
        };
        let built = |outcome| Built {
            name: name.clone(),
            tag: tag.clone(),
            outcome,
        };
        let before = builder.find(tag).await.map_err(failed)?;
        let present = present(before.as_ref(), &context);
        if rebuild == Rebuild::IfChanged && matches!(present, Present::Current { .. }) {
            progress.begin(tag);
            progress.end("up to date");
            done.push(built(Outcome::Current));
            continue;
        }
        if !base_is_there {
            base::ensure(builder, bootstrap, progress).await?;
            base_is_there = true;
        }
        progress.begin(&format!("{tag}: building"));
        let request = BuildRequest {
            tag: tag.clone(),
            dockerfile: image.dockerfile().to_owned(),
            labels: BTreeMap::from([
                (LABEL_NAME.to_owned(), name.clone()),
                (LABEL_VERSION.to_owned(), context.version),
            ]),
            context: context.tar,
            cache: match rebuild {
                Rebuild::IfChanged => Cache::Use,
                Rebuild::Always => Cache::Ignore,
            },
        };
        builder.build(request, progress).await.map_err(failed)?;
        progress.end("built");
        if let Some(before) = before {
            drop_replaced(builder, &before.id).await;
        }
        done.push(built(Outcome::Built));
    }
    Ok(done)
}

/// How each of `images` is on the daemon.
pub async fn list(
    builder: &dyn ImageBuilder,
    images: &[BuiltIn],
) -> Result<Vec<Present>, BuildError> {
    let mut found = Vec::with_capacity(images.len());
    for image in images {
        let context = context(image)?;
        let there = builder.find(&image.image.tag).await;
        let there = there.map_err(|error| BuildError::Builder {
            image: image.image.name.clone(),
            error,
        })?;
        found.push(present(there.as_ref(), &context));
    }
    Ok(found)
}

/// Removes those of `images` that are there, and returns their references.
pub async fn remove(
    builder: &dyn ImageBuilder,
    images: &[BuiltIn],
) -> Result<Vec<String>, BuilderError> {
    let mut removed = Vec::new();
    for image in images {
        let tag = &image.image.tag;
        if builder.find(tag).await?.is_some() {
            builder.remove(tag).await?;
            removed.push(tag.clone());
        }
    }
    Ok(removed)
}

/// How often an image that was replaced is tried to be removed: servers let go of the containers that waited for a call
/// only when the daemon has told them of the new one.
const DROP_ATTEMPTS: u32 = 4;
/// Between two attempts.
const DROP_PAUSE: std::time::Duration = std::time::Duration::from_millis(500);

/// Removes the image that had the tag before, hundreds of megabytes that nothing leads to any more. One that
/// has another name, or that a container uses, stays; so it does where the daemon fails, as the build went well.
async fn drop_replaced(builder: &dyn ImageBuilder, id: &str) {
    for _ in 0..DROP_ATTEMPTS {
        match builder.find(id).await {
            Ok(Some(found)) if found.tags.is_empty() => {}
            Ok(_) | Err(_) => return,
        }
        if builder.remove(id).await.is_ok() {
            return;
        }
        tokio::time::sleep(DROP_PAUSE).await;
    }
}

fn present(found: Option<&Found>, context: &Context) -> Present {
    match found {
        None => Present::Missing,
        Some(found) if found.labels.get(LABEL_VERSION) == Some(&context.version) => {
            Present::Current { bytes: found.bytes }
        }
        Some(found) => Present::Stale { bytes: found.bytes },
    }
}

fn context(image: &BuiltIn) -> Result<Context, BuildError> {
    Context::new(image).map_err(|error| BuildError::Context {
        image: image.image.name.clone(),
        error,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::images::{
        BASE, catalogue,
        fake::{FakeBootstrap, FakeBuilder, Silent},
        select,
    };

    async fn run(builder: &FakeBuilder, rebuild: Rebuild) -> Result<Vec<Outcome>, BuildError> {
        let images = catalogue().unwrap();
        let built = build(builder, &FakeBootstrap::Works, &images, rebuild, &Silent).await?;
        Ok(built.into_iter().map(|one| one.outcome).collect())
    }

    #[tokio::test]
    async fn the_second_run_builds_nothing() {
        let builder = FakeBuilder::default();
        assert_eq!(
            run(&builder, Rebuild::IfChanged).await.unwrap(),
            [Outcome::Built; 3]
        );
        let calls = builder.calls();
        assert_eq!(
            run(&builder, Rebuild::IfChanged).await.unwrap(),
            [Outcome::Current; 3]
        );
        assert_eq!(builder.calls(), calls, "only looked");
        assert_eq!(
            run(&builder, Rebuild::Always).await.unwrap(),
            [Outcome::Built; 3]
        );
    }

    #[tokio::test]
    async fn the_base_is_pulled_once_where_a_registry_answers() {
        let builder = FakeBuilder::default();
        run(&builder, Rebuild::IfChanged).await.unwrap();
        assert_eq!(
            builder.calls(),
            [
                "pull debian:trixie-slim",
                "build belljar/python:latest Use",
                "build belljar/javascript:latest Use",
                "build belljar/bash:latest Use"
            ]
        );
        run(&builder, Rebuild::Always).await.unwrap();
        let again = builder.calls().split_off(4);
        assert!(
            again.contains(&"build belljar/bash:latest Ignore".to_owned()),
            "{again:?}"
        );
        assert!(
            !again.iter().any(|call| call.starts_with("pull")),
            "{again:?}"
        );
    }

    #[tokio::test]
    async fn without_a_registry_the_base_is_made_here() {
        let builder = FakeBuilder::without_registry();
        let images = select(catalogue().unwrap(), &["bash".to_owned()]).unwrap();
        build(
            &builder,
            &FakeBootstrap::Works,
            &images,
            Rebuild::IfChanged,
            &Silent,
        )
        .await
        .unwrap();
        assert_eq!(
            builder.calls(),
            [
                "pull debian:trixie-slim",
                "import debian:trixie-slim",
                "build belljar/bash:latest Use"
            ]
        );
    }

    #[tokio::test]
    async fn where_the_base_cannot_be_had_the_error_says_what_to_do() {
        let images = catalogue().unwrap();
        for (bootstrap, builder, says) in [
            (
                FakeBootstrap::Missing,
                FakeBuilder::without_registry(),
                "apt-get install mmdebstrap",
            ),
            (
                FakeBootstrap::Fails,
                FakeBuilder::without_registry(),
                "no user namespaces",
            ),
            (
                FakeBootstrap::Works,
                FakeBuilder::without_registry().on("riscv64"),
                "riscv64",
            ),
        ] {
            let error = build(&builder, &bootstrap, &images, Rebuild::IfChanged, &Silent)
                .await
                .unwrap_err()
                .to_string();
            assert!(error.contains(says) && error.contains(BASE), "{error}");
            assert!(error.contains("no registry"), "{error}");
        }
    }

    #[tokio::test]
    async fn a_failed_build_names_the_image() {
        let builder = FakeBuilder::default().failing_on("build belljar/javascript:latest Use");
        let error = run(&builder, Rebuild::IfChanged)
            .await
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("javascript") && error.contains("as told"),
            "{error}"
        );
    }

    #[tokio::test]
    async fn an_image_by_other_hands_is_stale_and_is_built_again() {
        let builder = FakeBuilder::default();
        let images = catalogue().unwrap();
        assert_eq!(
            list(&builder, &images).await.unwrap(),
            [const { Present::Missing }; 3]
        );
        builder.put("belljar/python:latest");
        run(&builder, Rebuild::IfChanged).await.unwrap();
        builder.put("belljar/bash:latest");
        let found = list(&builder, &images).await.unwrap();
        assert!(matches!(found[0], Present::Current { .. }));
        assert!(matches!(found[2], Present::Stale { .. }));
    }

    #[tokio::test]
    async fn a_replaced_image_goes_unless_it_has_another_name() {
        let builder = FakeBuilder::default();
        let images = select(catalogue().unwrap(), &["bash".to_owned()]).unwrap();
        let force = || {
            build(
                &builder,
                &FakeBootstrap::Works,
                &images,
                Rebuild::Always,
                &Silent,
            )
        };
        force().await.unwrap();
        force().await.unwrap();
        assert_eq!(builder.calls().last().unwrap(), "remove id-1");
        builder.tag("belljar/bash:latest", "somebody/bash:old");
        force().await.unwrap();
        assert_eq!(
            builder.calls().last().unwrap(),
            "build belljar/bash:latest Ignore"
        );
    }

    #[tokio::test]
    async fn only_what_is_there_is_removed() {
        let builder = FakeBuilder::default();
        builder.put("belljar/bash:latest");
        let removed = remove(&builder, &catalogue().unwrap()).await.unwrap();
        assert_eq!(removed, ["belljar/bash:latest"]);
        assert_eq!(builder.calls(), ["remove belljar/bash:latest"]);
    }
}
