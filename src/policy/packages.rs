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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        config::{FileOrigin, Settings},
        policy::{Policy, RunAsk, Start},
        types::{Caller, Cpus},
    };

    fn plan(config: &str, ask: RunAsk) -> Result<InstallPlan, Denial> {
        let settings = Settings::parse(config, FileOrigin::BuiltIn, Cpus::from_millis(1000));
        let policy = Policy::new(&settings.unwrap());
        let (_, plan) = policy.fresh_run(&Caller::Local, ask)?;
        let plan = plan.action();
        assert_eq!(plan.start, Start::Cold, "one that waits has looked already");
        Ok(plan.packages.clone().unwrap())
    }

    fn ask(language: &str, packages: &[&str]) -> RunAsk {
        RunAsk {
            language: language.to_owned(),
            code: "1".to_owned(),
            packages: packages.iter().map(|&one| one.to_owned()).collect(),
            ..RunAsk::default()
        }
    }

    #[test]
    fn the_command_is_the_images_with_packages_behind_all_options() {
        let plan = plan("[packages.python]\n", ask("python", &["six==1.17.0", "a"])).unwrap();
        let argv = plan.argv("http://127.0.0.1:3128/python/simple/");
        let after: Vec<_> = argv.iter().rev().take(4).rev().collect();
        assert_eq!(after, ["--only-binary=:all:", "--", "six==1.17.0", "a"]);
        assert!(argv.contains(&"http://127.0.0.1:3128/python/simple/".to_owned()));
        assert!(!argv.iter().any(|word| word.contains(INDEX_MARK)));
    }

    #[test]
    fn code_of_packages_runs_only_where_the_operator_says_so() {
        for (config, language, word) in [
            (
                "[packages.python]\nbuilds =",
                "python",
                "--only-binary=:all:",
            ),
            (
                "[packages.javascript]\nscripts =",
                "javascript",
                "--ignore-scripts",
            ),
        ] {
            for open in [true, false] {
                let plan = plan(&format!("{config} {open}\n"), ask(language, &["a"])).unwrap();
                let kept_from = plan.argv("x").iter().any(|found| found == word);
                assert_eq!(kept_from, !open, "{language}");
            }
        }
    }

    #[test]
    fn nothing_of_the_callers_is_in_the_installers_environment() {
        let ask = RunAsk {
            env: BTreeMap::from([("PIP_INDEX_URL".to_owned(), "https://evil.test".to_owned())]),
            args: vec!["--evil".to_owned()],
            stdin: Some("evil".to_owned()),
            ..ask("python", &["six"])
        };
        let plan = plan("[packages.python]\n", ask).unwrap();
        let all = format!("{:?} {:?}", plan.environment(1, None), plan.argv("x"));
        assert!(!all.contains("evil"), "{all}");
        assert!(all.contains("TMPDIR"), "{all}");
    }
}
