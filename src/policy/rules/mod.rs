//! The decisions. Each takes what was asked and gives a permit for exactly what will be done, or the reason why not.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use super::{
    Denial, InstallPlan, Launch, Network, Permit, Quoted, RunAsk, RunPlan, SessionAsk,
    SessionTerms, Start, Upload, UploadAsk, WORKSPACE, WarmUp, egress::variable_names, files,
    packages, program,
};
use crate::{
    config::{
        CallerKind, EgressSettings, Languages, LimitSettings, PackageSettings, Profile,
        SessionSettings, Settings, list,
    },
    images::{Image, Language, PROGRAM_MARK},
    types::{
        Caller, Cpus, LimitError, LimitField, Limits, LimitsRequest, MIB, NO_NETWORK, PackageKind,
        WallTime, WorkspacePath,
    },
};

/// The shortest lease of a session, in seconds.
const LEAST_TTL_SECONDS: u64 = 1;

/// Decides on everything that callers ask for.
#[derive(Clone, Debug)]
pub struct Policy {
    limits: LimitSettings,
    sessions: SessionSettings,
    languages: Languages,
    egress: EgressSettings,
    packages: PackageSettings,
}

impl Policy {
    /// A policy that keeps within the operator's settings.
    #[must_use]
    pub fn new(settings: &Settings) -> Self {
        Self {
            limits: settings.limits.clone(),
            sessions: settings.sessions.clone(),
            languages: settings.languages.clone(),
            egress: settings.egress.clone(),
            packages: settings.packages.clone(),
        }
    }

    /// A run in a sandbox of its own: what to start, and what to run in it.
    pub fn fresh_run(
        &self,
        caller: &Caller,
        ask: RunAsk,
    ) -> Result<(Permit<Launch>, Permit<RunPlan>), Denial> {
        let image = self.image(&ask.language)?;
        let network = self.network(caller, ask.network.as_deref())?;
        let limits = self.limits(&ask.limits)?;
        let plan = self.plan(caller, image, &limits, network, ask)?;
        let launch = launch(image, limits, &plan.code);
        Ok((permit(launch, caller), permit(plan, caller)))
    }

    /// A session: what to start, the terms that hold until it ends, and what to put in first.
    pub fn open_session(
        &self,
        caller: &Caller,
        ask: &SessionAsk,
    ) -> Result<(Permit<Launch>, SessionTerms, Option<InstallPlan>), Denial> {
        let image = self.image(&ask.language)?;
        let network = self.network(caller, ask.network.as_deref())?;
        let limits = self.limits(&ask.limits)?;
        let ttl = self.ttl(ask.ttl_seconds)?;
        let install = match image.languages.first() {
            Some(language) => self.install(caller, image, language, &ask.packages, &limits)?,
            None => None,
        };
        let terms = SessionTerms {
            language: image.name.clone(),
            image: Arc::clone(image),
            limits,
            network,
            ttl,
            idle: self.sessions.idle.min(ttl),
        };
        Ok((permit(launch(image, limits, ""), caller), terms, install))
    }

    /// A sandbox that the operator wants ready for whoever comes: the defaults of a language.
    pub fn ready(&self, language: &str) -> Result<Permit<Launch>, Denial> {
        let image = self.image(language)?;
        let launch = launch(image, self.limits.default, "");
        Ok(permit(launch, &Caller::Local))
    }

    /// A run in a session of these terms.
    pub fn session_run(
        &self,
        caller: &Caller,
        terms: &SessionTerms,
        ask: RunAsk,
    ) -> Result<Permit<RunPlan>, Denial> {
        if let Some(asked) = ask.network.as_deref()
            && asked != terms.network.name()
        {
            return Err(Denial::SessionNetwork {
                asked: Quoted::new(asked),
                fixed: terms.network.name().to_owned(),
            });
        }
        check_fixed(&ask.limits, &terms.limits)?;
        let output = LimitsRequest {
            output_kib: ask.limits.output_kib,
            ..LimitsRequest::default()
        };
        let limits = Limits::within(&output, &terms.limits, &self.limits.ceiling)?;
        self.plan(caller, &terms.image, &limits, terms.network.clone(), ask)
            .map(|plan| permit(plan, caller))
    }

    /// An upload, for later runs or, with the session's terms, into its workspace.
    pub fn upload(
        &self,
        caller: &Caller,
        session: Option<&SessionTerms>,
        ask: UploadAsk,
    ) -> Result<Permit<Upload>, Denial> {
        let limits = session.map_or(&self.limits.ceiling, |terms| &terms.limits);
        let path = self.write_path(session, &ask.path)?;
        files::upload(path, ask.source, limits.workspace_mib).map(|upload| permit(upload, caller))
    }

    /// A path to write to, in a later run's workspace or in a session's: not where programs are put.
    pub fn write_path(
        &self,
        session: Option<&SessionTerms>,
        asked: &str,
    ) -> Result<WorkspacePath, Denial> {
        let languages = session.map_or(&[][..], |terms| &terms.image.languages);
        files::target(
            asked,
            languages.iter().map(|language| language.program.as_bytes()),
        )
    }

    /// Whether the caller may name files of this machine at all. The folders that the operator opened are open to
    /// the user who sits there: a token can come from anywhere, through a proxy or a leak.
    pub fn local_files(&self, caller: &Caller) -> Result<(), Denial> {
        match caller {
            Caller::Local => Ok(()),
            Caller::Token(_) => Err(Denial::LocalFileFromAfar),
        }
    }

    /// The largest file that any sandbox could take, in bytes.
    #[must_use]
    pub fn largest_upload(&self) -> u64 {
        u64::from(self.limits.ceiling.workspace_mib) * MIB
    }

    /// A path to read or to list in a session.
    pub fn path(&self, asked: &str) -> Result<WorkspacePath, Denial> {
        files::parse_path(asked)
    }

    fn image(&self, asked: &str) -> Result<&Arc<Image>, Denial> {
        self.languages
            .image(asked)
            .ok_or_else(|| Denial::UnknownLanguage {
                asked: Quoted::new(asked),
                known: self.languages.list(),
            })
    }

    fn limits(&self, asked: &LimitsRequest) -> Result<Limits, LimitError> {
        Limits::within(asked, &self.limits.default, &self.limits.ceiling)
    }

    fn ttl(&self, asked: Option<u64>) -> Result<Duration, LimitError> {
        let ceiling = self.sessions.ttl_ceiling.as_secs();
        match asked {
            None => Ok(self.sessions.ttl),
            Some(seconds) if (LEAST_TTL_SECONDS..=ceiling).contains(&seconds) => {
                Ok(Duration::from_secs(seconds))
            }
            #[expect(clippy::cast_precision_loss, reason = "both are at most 30 days")]
            Some(_) => Err(LimitError {
                field: LimitField::TtlSeconds,
                least: LEAST_TTL_SECONDS as f64,
                most: ceiling as f64,
            }),
        }
    }

    /// The names of the networks that `caller` may have, beside none.
    #[must_use]
    pub fn networks(&self, caller: &Caller) -> Vec<String> {
        self.profiles(caller)
            .map(|profile| profile.name.as_str().to_owned())
            .collect()
    }

    fn profiles(&self, caller: &Caller) -> impl Iterator<Item = &Arc<Profile>> {
        let kind = kind(caller);
        self.egress
            .profiles
            .values()
            .filter(move |profile| profile.callers.contains(&kind))
    }

    /// The network of that name. Whoever may not have it is not told that there is such a one.
    fn network(&self, caller: &Caller, asked: Option<&str>) -> Result<Network, Denial> {
        let Some(asked) = asked.filter(|asked| *asked != NO_NETWORK) else {
            return Ok(Network::None);
        };
        let mut profiles = self.profiles(caller);
        match profiles.find(|profile| profile.name.as_str() == asked) {
            Some(profile) => Ok(Network::Profile(Arc::clone(profile))),
            None => Err(Denial::UnknownNetwork {
                asked: Quoted::new(asked),
                known: [vec![NO_NETWORK.to_owned()], self.networks(caller)]
                    .concat()
                    .join(", "),
            }),
        }
    }

    /// The kinds of packages that `caller` may ask for.
    #[must_use]
    pub fn package_kinds(&self, caller: &Caller) -> Vec<PackageKind> {
        [PackageKind::Python, PackageKind::JavaScript]
            .into_iter()
            .filter(|kind| self.packages.registry(*kind).is_some())
            .filter(|_| self.packages.callers.contains(&kind(caller)))
            .collect()
    }

    /// What is put in before a program of `language`; nothing where nothing is asked for.
    fn install(
        &self,
        caller: &Caller,
        image: &Image,
        language: &Language,
        asked: &[String],
        limits: &Limits,
    ) -> Result<Option<InstallPlan>, Denial> {
        if asked.is_empty() {
            return Ok(None);
        }
        let Some(installer) = &language.packages else {
            let with = |language: &&Language| language.packages.is_some();
            let images = self.languages.images().iter();
            return Err(Denial::PackagesLanguage {
                language: language.name.clone(),
                known: list(images.flat_map(|image| &image.languages).filter(with)),
            });
        };
        let Some(registry) = self.packages.registry(installer.kind) else {
            return Err(Denial::PackagesOff {
                kind: installer.kind,
            });
        };
        if !self.packages.callers.contains(&kind(caller)) {
            return Err(Denial::PackagesCaller);
        }
        Ok(Some(InstallPlan::new(
            installer,
            registry,
            packages::parse(installer.kind, asked)?,
            image_env(image, language),
            (
                WallTime::from_secs(self.packages.timeout.as_secs()),
                limits.output_kib,
            ),
        )))
    }

    fn plan(
        &self,
        caller: &Caller,
        image: &Image,
        limits: &Limits,
        network: Network,
        ask: RunAsk,
    ) -> Result<RunPlan, Denial> {
        let language =
            image
                .language(&ask.language)
                .ok_or_else(|| Denial::LanguageNotInSession {
                    asked: Quoted::new(&ask.language),
                    known: list(image.languages.iter()),
                })?;
        program::check_code(&ask.code)?;
        program::check_stdin(ask.stdin.as_deref())?;
        program::check_args(&ask.args)?;
        program::check_env(&ask.env)?;
        let packages = self.install(caller, image, language, &ask.packages, limits)?;
        let start = start(image, language, &ask, &network);
        let program = files::parse_path(&language.program)?;
        let timeout = match ask.timeout_seconds {
            None => self.limits.timeout,
            Some(seconds) => WallTime::parse(seconds, self.limits.timeout_ceiling)?,
        };
        let files = files::inputs(ask.files, &program, limits.workspace_mib)?;
        Ok(RunPlan {
            language: language.name.clone(),
            args: ask.args.len(),
            argv: argv(language, ask.args),
            start,
            program,
            code: ask.code,
            stdin: ask.stdin,
            files,
            timeout,
            output_kib: limits.output_kib,
            env: ask.env,
            egress_env: image.egress_env.clone(),
            network,
            image_env: image_env(image, language),
            packages,
        })
    }
}

fn kind(caller: &Caller) -> CallerKind {
    match caller {
        Caller::Local => CallerKind::Local,
        Caller::Token(_) => CallerKind::Token,
    }
}

fn permit<A>(action: A, caller: &Caller) -> Permit<A> {
    Permit::new(action, caller.clone())
}

/// What to start for `code`, where it is known already.
fn launch(image: &Image, limits: Limits, code: &str) -> Launch {
    Launch {
        image: image.tag.clone(),
        shm_mib: image.shm_mib,
        limits,
        warm_up: warm_up(image, code),
    }
}

/// The interpreter of the image's own language, where it can wait.
fn warm_up(image: &Image, code: &str) -> Option<WarmUp> {
    let language = image.languages.first()?;
    let warm = language.warm.as_ref()?;
    let number = warm.kind_for(code);
    let kind = warm.kinds.get(number)?;
    Some(WarmUp {
        kind: number,
        argv: argv(language, Vec::new()),
        image_env: image_env(image, language),
        hook_env: kind.env.clone(),
        memory_mib: kind.memory_mib,
    })
}

/// A waiting interpreter is only for programs that would not notice.
fn start(image: &Image, language: &Language, ask: &RunAsk, network: &Network) -> Start {
    if !ask.packages.is_empty() {
        // It looked for what can be imported before they came.
        return Start::Cold;
    }
    let mut names: Vec<&str> = ask.env.keys().map(String::as_str).collect();
    if let Network::Profile(profile) = network {
        names.extend(variable_names().map(|name| -> &str { name }));
        names.extend(image.egress_env.keys().map(String::as_str));
        names.extend(profile.stand_ins());
    }
    match &language.warm {
        Some(warm) if warm.suits(&ask.args, &names) => Start::Warm,
        Some(_) | None => Start::Cold,
    }
}

/// The variables of every program of a language in an image.
fn image_env(image: &Image, language: &Language) -> BTreeMap<String, String> {
    let mut env = image.env.clone();
    env.extend(language.env.clone());
    env
}

/// A list of words, never a shell's line: no text of a caller's is ever parsed by a shell of ours.
fn argv(language: &Language, args: Vec<String>) -> Vec<String> {
    let path = format!("{WORKSPACE}/{}", language.program);
    let command = language.command.iter();
    command
        .map(|word| word.replace(PROGRAM_MARK, &path))
        .chain(args)
        .collect()
}

/// In a session every limit but the output's is the container's own: to repeat it is harmless, to change it is
/// refused rather than ignored.
fn check_fixed(asked: &LimitsRequest, fixed: &Limits) -> Result<(), Denial> {
    let differs = |asked: Option<u32>, fixed: u32| asked.is_some_and(|asked| asked != fixed);
    let LimitsRequest {
        memory_mib,
        cpus,
        pids,
        workspace_mib,
        output_kib: _,
    } = *asked;
    let field = if differs(memory_mib, fixed.memory_mib) {
        LimitField::MemoryMib
    } else if cpus.is_some_and(|asked| Cpus::new(asked) != Some(fixed.cpus)) {
        LimitField::Cpus
    } else if differs(pids, fixed.pids) {
        LimitField::Pids
    } else if differs(workspace_mib, fixed.workspace_mib) {
        LimitField::WorkspaceMib
    } else {
        return Ok(());
    };
    Err(Denial::SessionLimit { field })
}

#[cfg(test)]
mod tests;
