//! Looks an image up and refuses what no sandbox may inherit from one.
//!
//! An image's configuration is hostile. It is never pulled here: a registry's answer must not decide what runs.

use super::{
    daemon::{Daemon, Image},
    error::EngineError,
    spec::LABEL_PREFIX,
};

/// Variables in an image's configuration. Each is taken away by name in the request; stops an image from
/// growing that request without bound.
const MAX_ENV: usize = 256;

/// Bytes of an image's `PATH` that are used.
const MAX_PATH_BYTES: usize = 4096;

/// Looks `reference` up once; the sandbox is made of the id found.
pub(super) async fn look_up(daemon: &dyn Daemon, reference: &str) -> Result<Image, EngineError> {
    let image = daemon
        .image(reference)
        .await?
        .ok_or_else(|| EngineError::ImageMissing {
            reference: reference.to_owned(),
        })?;
    match refusal(&image) {
        None => Ok(image),
        Some(why) => Err(EngineError::ImageRefused {
            reference: reference.to_owned(),
            why,
        }),
    }
}

fn refusal(image: &Image) -> Option<String> {
    if !image.volumes.is_empty() {
        return Some(format!(
            "it declares {} VOLUMEs, which Docker makes writable, unbounded volumes on the host; \
             build it without VOLUME",
            image.volumes.len()
        ));
    }
    if image
        .label_names
        .iter()
        .any(|name| name.starts_with(LABEL_PREFIX))
    {
        return Some(format!(
            "it carries labels that begin with {LABEL_PREFIX}, which mark containers of belljar's own; \
             build it without them"
        ));
    }
    (image.env.len() > MAX_ENV)
        .then(|| format!("it sets more than {MAX_ENV} environment variables"))
}

/// The `PATH` that the image sets.
pub(super) fn path(image: &Image) -> Option<String> {
    image
        .env
        .iter()
        .find_map(|variable| variable.strip_prefix("PATH="))
        .filter(|path| path.len() <= MAX_PATH_BYTES && !path.contains('\0'))
        .map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hardening_an_image_with_volumes_is_refused() {
        let image = Image {
            volumes: vec!["/da\nta".into()],
            ..Image::default()
        };
        let why = refusal(&image).unwrap();
        assert!(why.contains("1 VOLUMEs") && !why.contains("da"), "{why}");
    }

    #[test]
    fn hardening_an_image_that_forges_our_labels_is_refused() {
        let image = Image {
            label_names: vec!["belljar.role".into()],
            ..Image::default()
        };
        assert!(refusal(&image).unwrap().contains("labels"));
    }

    #[test]
    fn hardening_an_image_with_endless_env_is_refused() {
        let image = Image {
            env: vec!["A=1".into(); MAX_ENV + 1],
            ..Image::default()
        };
        assert!(refusal(&image).is_some());
    }

    #[test]
    fn a_plain_image_is_taken_with_its_path() {
        let image = Image {
            env: vec!["LANG=C".into(), "PATH=/opt/bin:/bin".into()],
            ..Image::default()
        };
        assert_eq!(refusal(&image), None);
        assert_eq!(path(&image).as_deref(), Some("/opt/bin:/bin"));
    }
}
