//! `belljar images build|list|rm [NAME…]`.

use std::io::{self, Write};

use clap::{Args, Subcommand};

use super::progress::TerminalProgress;
use crate::images::{
    self, BuildError, BuilderError, ImageBuilder, ManifestError, Mmdebstrap, Present, Rebuild,
    UnknownImage,
};

/// Builds, lists and removes the images that belljar brings.
#[derive(Args, Debug)]
pub(super) struct ImagesArgs {
    #[command(subcommand)]
    command: ImagesCommand,
}

#[derive(Subcommand, Debug)]
enum ImagesCommand {
    /// Builds images, all of them unless some are named, and fetches or makes their base where it is missing
    Build {
        /// Builds also what is up to date, with every package fetched anew
        #[arg(long)]
        force: bool,
        /// Images, such as `python`
        names: Vec<String>,
    },
    /// Lists the images, and whether each is there and up to date
    List {
        /// Images, such as `python`
        names: Vec<String>,
    },
    /// Removes images, all of them unless some are named; their base stays
    Rm {
        /// Images, such as `python`
        names: Vec<String>,
    },
}

/// Why the command failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum ImagesError {
    /// The images in the binary are broken.
    #[error(transparent)]
    Manifest(#[from] ManifestError),
    /// There is no such image.
    #[error(transparent)]
    Unknown(#[from] UnknownImage),
    /// The build failed.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// The daemon failed.
    #[error(transparent)]
    Builder(#[from] BuilderError),
    /// The list could not be written.
    #[error("cannot write: {0}")]
    Write(#[from] io::Error),
}

/// Runs the command. The list goes to `out`, progress to standard error.
pub(super) async fn run(
    args: ImagesArgs,
    builder: &dyn ImageBuilder,
    out: &mut (dyn Write + Send),
) -> Result<(), ImagesError> {
    let all = images::catalogue()?;
    match args.command {
        ImagesCommand::Build { force, names } => {
            let rebuild = if force {
                Rebuild::Always
            } else {
                Rebuild::IfChanged
            };
            let chosen = images::select(all, &names)?;
            images::build(
                builder,
                &Mmdebstrap,
                &chosen,
                rebuild,
                &TerminalProgress::new(),
            )
            .await?;
        }
        ImagesCommand::List { names } => {
            let chosen = images::select(all, &names)?;
            let present = images::list(builder, &chosen).await?;
            for (image, present) in chosen.iter().zip(present) {
                let state = match present {
                    Present::Missing => {
                        format!("missing: run `belljar images build {}`", image.image.name)
                    }
                    Present::Stale { bytes } => format!(
                        "{} MB, out of date: run `belljar images build {}`",
                        megabytes(bytes),
                        image.image.name
                    ),
                    Present::Current { bytes } => {
                        format!("{} MB, up to date", megabytes(bytes))
                    }
                };
                writeln!(out, "{}  {state}\n    {}", image.image.tag, image.summary)?;
            }
        }
        ImagesCommand::Rm { names } => {
            let chosen = images::select(all, &names)?;
            for tag in images::remove(builder, &chosen).await? {
                writeln!(out, "removed {tag}")?;
            }
        }
    }
    Ok(())
}

fn megabytes(bytes: u64) -> u64 {
    bytes.div_ceil(1_000_000)
}

#[cfg(test)]
mod tests {
    use async_trait::async_trait;
    use clap::Parser;

    use super::*;
    use crate::images::{BuildRequest, Found, Progress};

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        images: ImagesArgs,
    }

    /// A daemon that has the bash image, of other files.
    struct OnlyBash;

    #[async_trait]
    impl ImageBuilder for OnlyBash {
        async fn architecture(&self) -> Result<String, BuilderError> {
            Ok("x86_64".to_owned())
        }

        async fn find(&self, reference: &str) -> Result<Option<Found>, BuilderError> {
            Ok((reference == "belljar/bash:latest").then(|| Found {
                bytes: 212_300_000,
                ..Found::default()
            }))
        }

        async fn pull(&self, _: &str, _: &dyn Progress) -> Result<(), BuilderError> {
            Ok(())
        }

        async fn import(&self, _: &str, _: tokio::fs::File) -> Result<(), BuilderError> {
            Ok(())
        }

        async fn build(&self, _: BuildRequest, _: &dyn Progress) -> Result<(), BuilderError> {
            Ok(())
        }

        async fn remove(&self, _: &str) -> Result<(), BuilderError> {
            Ok(())
        }
    }

    async fn output(line: &[&str]) -> Result<String, String> {
        let args = Line::try_parse_from(std::iter::once(&"images").chain(line))
            .map_err(|error| error.to_string())?;
        let mut out = Vec::new();
        run(args.images, &OnlyBash, &mut out)
            .await
            .map_err(|error| error.to_string())?;
        Ok(String::from_utf8(out).unwrap())
    }

    #[tokio::test]
    async fn the_list_says_what_to_do() {
        let list = output(&["list"]).await.unwrap();
        assert!(list.contains("belljar/python:latest  missing: run `belljar images build python`"));
        assert!(list.contains("belljar/bash:latest  213 MB, out of date"));
        let list = output(&["list", "bash"]).await.unwrap();
        assert!(!list.contains("python"), "{list}");
    }

    #[tokio::test]
    async fn only_what_is_there_is_removed() {
        assert_eq!(
            output(&["rm"]).await.unwrap(),
            "removed belljar/bash:latest\n"
        );
        assert_eq!(output(&["rm", "python"]).await.unwrap(), "");
    }

    #[tokio::test]
    async fn an_unknown_image_lists_those_there_are() {
        for command in ["build", "list", "rm"] {
            let error = output(&[command, "perl"]).await.unwrap_err();
            assert!(error.contains("python, javascript, bash"), "{error}");
        }
    }
}
