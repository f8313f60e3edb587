//! The rules for packages that are put in before a program: who may ask for them, and for what.

use std::collections::BTreeMap;

use super::{Denial, Quoted, plan::environment};
use crate::{
    config::RegistrySettings,
    images::{INDEX_MARK, Installer},
    types::{PackageKind, PackageSpec, WallTime},
};

/// The most packages of one call: a list of a hundred thousand must not reach an installer.
pub const MAX_PACKAGES: usize = 64;

/// One installation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstallPlan {
    /// Whose packages.
    pub kind: PackageKind,
    /// What is put in.
    pub packages: Vec<PackageSpec>,
    /// How long it may take.
    pub timeout: WallTime,
    /// Output that ends it, in KiB.
    pub output_kib: u32,
    /// The image's, the language's and the installer's variables.
    pub image_env: BTreeMap<String, String>,
    /// The installer's command, with [`INDEX_MARK`] for the gateway's address.
    command: Vec<String>,
}

impl InstallPlan {
    /// An installation with `installer`, of which code of the packages runs only where the registry's settings say so.
    pub(super) fn new(
        installer: &Installer,
        registry: &RegistrySettings,
        packages: Vec<PackageSpec>,
        image_env: BTreeMap<String, String>,
        bounds: (WallTime, u32),
    ) -> Self {
        let mut command = installer.install.clone();
        if !registry.code {
            command.extend(installer.no_code.clone());
        }
        let (timeout, output_kib) = bounds;
        Self {
            kind: installer.kind,
            packages,
            timeout,
            output_kib,
            image_env: image_env.into_iter().chain(installer.env.clone()).collect(),
            command,
        }
    }

    /// The whole command, where the gateway is at `index`.
    #[must_use]
    pub fn argv(&self, index: &str) -> Vec<String> {
        let command = self.command.iter();
        command
            .map(|word| word.replace(INDEX_MARK, index))
            // A package never begins with a hyphen; should it ever, it is still no option.
            .chain(["--".to_owned()])
            .chain(self.packages.iter().map(ToString::to_string))
            .collect()
    }

    /// The whole environment of the installer in the sandbox of user `uid`. Nothing of the caller's is in it.
    #[must_use]
    pub fn environment(&self, uid: u32, image_path: Option<&str>) -> Vec<(String, String)> {
        environment(&[&self.image_env], uid, image_path)
    }
}

/// What is asked for, each a package and nothing else.
pub(super) fn parse(kind: PackageKind, asked: &[String]) -> Result<Vec<PackageSpec>, Denial> {
    if asked.len() > MAX_PACKAGES {
        return Err(Denial::TooManyPackages { count: asked.len() });
    }
    asked
        .iter()
        .map(|asked| {
            PackageSpec::parse(kind, asked).map_err(|error| Denial::Package {
                asked: Quoted::new(asked),
                error,
            })
        })
        .collect()
}
