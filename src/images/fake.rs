//! A daemon that images are built on, for tests: it remembers what it was asked and fails where told.

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use async_trait::async_trait;

use super::{
    base::{Bootstrap, BootstrapError},
    builder::{BuildRequest, BuilderError, Found, ImageBuilder},
    line::{Line, Progress},
};

/// Shows nothing.
pub(super) struct Silent;

impl Progress for Silent {
    fn begin(&self, _: &str) {}
    fn line(&self, _: &Line) {}
    fn end(&self, _: &str) {}
}

/// Makes the base, or does not.
pub(super) enum FakeBootstrap {
    Works,
    Missing,
    Fails,
}

#[async_trait]
impl Bootstrap for FakeBootstrap {
    async fn debian(&self, _: &dyn Progress) -> Result<tokio::fs::File, BootstrapError> {
        match self {
            Self::Works => Ok(tokio::fs::File::from_std(tempfile::tempfile().unwrap())),
            Self::Missing => Err(BootstrapError::NotInstalled),
            Self::Fails => Err(BootstrapError::Failed("no user namespaces".to_owned())),
        }
    }
}

/// A daemon of words.
#[derive(Default)]
pub(super) struct FakeBuilder {
    calls: Mutex<Vec<String>>,
    images: Mutex<Vec<Found>>,
    fails: Vec<String>,
    architecture: Option<&'static str>,
}

impl FakeBuilder {
    pub(super) fn without_registry() -> Self {
        Self::default().failing_on("pull debian:trixie-slim")
    }

    pub(super) fn failing_on(mut self, call: &str) -> Self {
        self.fails.push(call.to_owned());
        self
    }

    pub(super) fn on(mut self, architecture: &'static str) -> Self {
        self.architecture = Some(architecture);
        self
    }

    /// Every call that changes something, in order.
    pub(super) fn calls(&self) -> Vec<String> {
        self.calls
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// An image that somebody else made.
    pub(super) fn put(&self, reference: &str) {
        self.keep(reference, BTreeMap::new());
    }

    /// Gives an image a second name.
    pub(super) fn tag(&self, reference: &str, also: &str) {
        for image in self.images().iter_mut() {
            if image.tags.iter().any(|tag| tag == reference) {
                image.tags.push(also.to_owned());
            }
        }
    }

    fn images(&self) -> MutexGuard<'_, Vec<Found>> {
        self.images.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn keep(&self, reference: &str, labels: BTreeMap<String, String>) {
        let mut images = self.images();
        for image in images.iter_mut() {
            image.tags.retain(|tag| tag != reference);
        }
        let id = format!("id-{}", images.len());
        images.push(Found {
            id,
            tags: vec![reference.to_owned()],
            labels,
            ..Found::default()
        });
    }

    fn call(&self, call: String) -> Result<(), BuilderError> {
        let fails = self.fails.contains(&call);
        self.calls
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(call);
        if fails {
            return Err(BuilderError::Failed {
                call: "fake",
                why: "as told".to_owned(),
            });
        }
        Ok(())
    }
}

#[async_trait]
impl ImageBuilder for FakeBuilder {
    async fn architecture(&self) -> Result<String, BuilderError> {
        Ok(self
            .architecture
            .unwrap_or(std::env::consts::ARCH)
            .to_owned())
    }

    async fn find(&self, reference: &str) -> Result<Option<Found>, BuilderError> {
        let found =
            |image: &&Found| image.id == reference || image.tags.iter().any(|tag| tag == reference);
        Ok(self.images().iter().find(found).cloned())
    }

    async fn pull(&self, reference: &str, _: &dyn Progress) -> Result<(), BuilderError> {
        self.call(format!("pull {reference}"))?;
        self.put(reference);
        Ok(())
    }

    async fn import(&self, reference: &str, _: tokio::fs::File) -> Result<(), BuilderError> {
        self.call(format!("import {reference}"))?;
        self.put(reference);
        Ok(())
    }

    async fn build(&self, request: BuildRequest, _: &dyn Progress) -> Result<(), BuilderError> {
        self.call(format!("build {} {:?}", request.tag, request.cache))?;
        self.keep(&request.tag, request.labels);
        Ok(())
    }

    async fn remove(&self, reference: &str) -> Result<(), BuilderError> {
        self.call(format!("remove {reference}"))
    }
}
