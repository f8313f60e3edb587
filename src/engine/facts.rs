//! What can be known about the daemon without making anything: for `belljar doctor`.

use super::{
    Inner,
    daemon::{Info, Place, Version},
    error::EngineError,
    guest_volume,
    host::Host,
    swap::Swap,
};

/// The daemon as it is. Plain data; the judgement is the doctor's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    /// Where the daemon is, and why there.
    pub place: Place,
    /// Versions of the daemon and its parts.
    pub version: Version,
    /// The daemon's host.
    pub info: Info,
    /// Swap of the daemon's host.
    pub swap: Swap,
    /// The runtime that sandboxes get, or why they get none.
    pub runtime: Result<String, String>,
    /// The guest's volume, if there is one already. The first launch makes it.
    pub guest_volume: Option<String>,
    /// The images asked for.
    pub images: Vec<ImageFact>,
}

/// An image that was looked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageFact {
    /// As it was asked for.
    pub reference: String,
    /// Its id and its size in bytes; `None` where it is missing.
    pub found: Option<(String, u64)>,
}

impl Inner {
    pub(super) async fn facts(&self, references: &[String]) -> Result<Facts, EngineError> {
        let version = self.daemon.version().await?;
        let info = self.daemon.info().await?;
        let place = self.daemon.place();
        let mut images = Vec::with_capacity(references.len());
        for reference in references {
            let found = self.daemon.image(reference).await?;
            images.push(ImageFact {
                reference: reference.clone(),
                found: found.map(|image| (image.id, image.bytes)),
            });
        }
        let host = Host::look(self.daemon.as_ref(), self.options.runtime.as_deref()).await;
        let guest_volume = match &host {
            Ok(host) => self
                .daemon
                .volume(&guest_volume::pointer_name(host))
                .await?
                .map(|volume| volume.name),
            Err(_) => None,
        };
        Ok(Facts {
            swap: Swap::of(&place, &info),
            place,
            version,
            info,
            runtime: host
                .map(|host| host.runtime.name)
                .map_err(|error| error.to_string()),
            guest_volume,
            images,
        })
    }
}
