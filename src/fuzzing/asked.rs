//! What callers and the operator write: arguments of tools, the configuration, variables, an image's description.

use std::{cell::OnceCell, ffi::OsString, path::PathBuf};

use super::input::Input;
use crate::{
    config::{Environment, FileOrigin, Settings},
    images::{self, PROGRAM_MARK},
    policy::{
        Content, Denial, MAX_CODE_BYTES, MAX_FILES, MAX_INLINE_BYTES, MAX_PACKAGES, Policy, RunAsk,
        RunPlan, SessionAsk, UploadAsk, WORKSPACE,
    },
    tools::asked::{Asked, asked},
    types::{Caller, Cpus, Limits, Secret, TokenId, visible},
};

/// The longest that a caller is told of arguments or of a denial, in bytes: quoted text is cut before it is escaped.
const MAX_TOLD_BYTES: usize = 8 * 1024;
/// The processors of the machine that settings are checked for.
const MACHINE: Cpus = Cpus::from_millis(4000);
/// Packages are open, so that a request for them is looked at.
const CONFIG: &str = "[packages.python]\n[packages.javascript]\n";

const TOOLS: [&str; 6] = [
    "run_code",
    "upload_file",
    "fetch_artifact",
    "open_session",
    "close_session",
    "list_files",
];

thread_local! {
    static POLICY: OnceCell<Policy> = const { OnceCell::new() };
}

/// Arguments of every tool: refused in a few plain words, or asked of the policy, and what that allows is within bounds.
pub(super) fn arguments(bytes: &[u8]) {
    let mut input = Input(bytes);
    let tool = TOOLS[usize::from(input.byte()) % TOOLS.len()];
    let Ok(arguments) = serde_json::from_slice(input.0) else {
        return;
    };
    let asked = match asked(tool, arguments).expect("a tool of that name") {
        Ok(asked) => asked,
        Err(why) => return plain(&why),
    };
    POLICY.with(|policy| {
        let policy = policy.get_or_init(|| {
            let settings = Settings::parse(CONFIG, FileOrigin::BuiltIn, MACHINE);
            Policy::new(&settings.expect("settings of our own"))
        });
        for caller in [Caller::Local, Caller::Token(TokenId::of("x"))] {
            match &asked {
                Asked::Run(ask) => run(policy, &caller, ask),
                Asked::Session(ask) => session(policy, &caller, ask),
                Asked::Upload(ask) => upload(policy, &caller, ask),
                Asked::LookUp => {}
            }
        }
    });
}

/// What a caller is told: short, on one line, without tricks.
fn plain(told: &str) {
    assert!(told.len() <= MAX_TOLD_BYTES, "{} bytes", told.len());
    let tricky = |c: char| visible::is_forbidden(c) || c == '\n' || c == '\t';
    assert!(!told.chars().any(tricky), "{told:?}");
}

fn denied(denial: &Denial) {
    plain(&denial.to_string());
}

fn within(limits: &Limits) {
    let (least, most) = (Limits::LEAST, Limits::CEILING);
    assert!((least.memory_mib..=most.memory_mib).contains(&limits.memory_mib));
    assert!((least.cpus..=MACHINE).contains(&limits.cpus));
    assert!((least.pids..=most.pids).contains(&limits.pids));
    assert!((least.workspace_mib..=most.workspace_mib).contains(&limits.workspace_mib));
    assert!((least.output_kib..=most.output_kib).contains(&limits.output_kib));
}

fn run(policy: &Policy, caller: &Caller, ask: &RunAsk) {
    let (launch, plan) = match policy.fresh_run(caller, ask.clone()) {
        Ok(permits) => permits,
        Err(denial) => return denied(&denial),
    };
    within(&launch.action().limits);
    let plan = plan.action();
    assert!((1..=MAX_CODE_BYTES).contains(&plan.code.len()));
    // The command is the language's own; only the last words are the caller's.
    let (command, args) = plan.argv.split_at(plan.argv.len() - plan.args);
    let program = format!("{WORKSPACE}/{}", plan.program.shown());
    assert_eq!(command.iter().filter(|word| **word == program).count(), 1);
    assert_eq!(args, ask.args);
    assert!(plan.argv.iter().all(|word| !word.contains('\0')));
    variables(plan);
    inputs(plan);
    assert_eq!(plan.network.profile(), None);
    if let Some(install) = &plan.packages {
        assert!((1..=MAX_PACKAGES).contains(&install.packages.len()));
        let words = install.argv("http://127.0.0.1:3128");
        let own = words.len() - install.packages.len();
        assert_eq!(words[own - 1], "--");
        assert!(words[own..].iter().all(|word| !word.starts_with('-')));
    }
}

fn variables(plan: &RunPlan) {
    let environment = plan.environment(52_000, None, &plan.egress_env);
    for (name, value) in &environment {
        assert!(images::is_variable(name) && !value.contains('\0'));
        assert!(!plan.env.contains_key(name) || !images::is_loader_variable(name));
    }
    assert!(plan.env.keys().all(|name| !name.starts_with("LD_")));
}

fn inputs(plan: &RunPlan) {
    assert!(plan.files.len() <= MAX_FILES);
    let mut inline = 0;
    for file in &plan.files {
        let path = file.path.as_bytes();
        assert_ne!(path, plan.program.as_bytes());
        assert_ne!(path, b".home");
        if let Content::Inline(bytes) = &file.content {
            inline += bytes.len();
        }
        // None lies where another is, or beneath it.
        let beneath = |other: &[u8]| {
            path.strip_prefix(other)
                .is_some_and(|rest| rest.is_empty() || rest[0] == b'/')
        };
        let over = plan.files.iter().filter(|f| beneath(f.path.as_bytes()));
        assert_eq!(over.count(), 1);
    }
    assert!(inline <= MAX_INLINE_BYTES);
}

fn session(policy: &Policy, caller: &Caller, ask: &SessionAsk) {
    match policy.open_session(caller, ask) {
        Ok((launch, terms, _)) => {
            within(&launch.action().limits);
            assert_eq!(launch.action().limits, terms.limits);
            assert!(terms.idle <= terms.ttl && !terms.ttl.is_zero());
            assert_eq!(terms.network.profile(), None);
        }
        Err(denial) => denied(&denial),
    }
}

fn upload(policy: &Policy, caller: &Caller, ask: &UploadAsk) {
    match policy.upload(caller, None, ask.clone()) {
        Ok(upload) => {
            let upload = upload.action();
            assert!(upload.bytes.len() <= MAX_INLINE_BYTES);
            assert_ne!(upload.path.as_bytes(), b".home");
        }
        Err(denial) => denied(&denial),
    }
}

/// The configuration: refused in words, or settings that are shown as a configuration of exactly the same settings.
pub(super) fn config(bytes: &[u8]) {
    let text = Input(bytes).text();
    // Certificates are read while settings are checked: a case must not depend on the files of this machine.
    if text.contains("upstream_ca") || text.contains("\\u") {
        return;
    }
    let settings = match Settings::parse(text, FileOrigin::BuiltIn, MACHINE) {
        Ok(settings) => settings,
        Err(error) => {
            assert!(!error.to_string().is_empty());
            return;
        }
    };
    let shown = settings.show().expect("settings that can be shown");
    let again = Settings::parse(&shown, FileOrigin::BuiltIn, MACHINE);
    assert_eq!(again.expect("what was shown"), settings);
    // What callers may ask for is never more than what the operator set, whatever that is.
    let ceiling = &settings.limits.ceiling;
    let default = &settings.limits.default;
    assert!(default.memory_mib <= ceiling.memory_mib && default.cpus <= ceiling.cpus);
    assert!(default.pids <= ceiling.pids && default.workspace_mib <= ceiling.workspace_mib);
    assert!(default.output_kib <= ceiling.output_kib);
    let _ = Policy::new(&settings);
}

/// The server's own variables, one a line: no place that they name depends on the current directory.
pub(super) fn environment(bytes: &[u8]) {
    let lines: Vec<(&[u8], &[u8])> = bytes
        .split(|byte| *byte == b'\n')
        .filter_map(|line| {
            let at = line.iter().position(|byte| *byte == b'=')?;
            Some((&line[..at], &line[at + 1..]))
        })
        .collect();
    let found = |wanted: &str| {
        let (_, value) = lines.iter().find(|(name, _)| *name == wanted.as_bytes())?;
        Some(os_string(value))
    };
    let environment = Environment::from_lookup(found, Some(PathBuf::from("relative")));
    let absolute = [
        &environment.config_home,
        &environment.state_home,
        &environment.runtime_dir,
        &environment.home,
    ];
    assert!(
        absolute
            .into_iter()
            .flatten()
            .all(|path| path.is_absolute())
    );
    if let Ok(state) = environment.state_dir() {
        assert!(state.is_absolute());
    }
    if let Some(config) = environment.default_config() {
        assert!(config.is_absolute() || cfg!(windows));
    }
    // A file that cannot be there: the place is decided on, and found empty or refused.
    if let Some(named) = &environment.config
        && !named.is_absolute()
    {
        assert!(Settings::load(&environment, None).is_err());
    }
    if environment.http_token.is_some() {
        let other = Environment {
            http_token: Some(Secret::new("another".to_owned())),
            ..environment.clone()
        };
        assert_eq!(format!("{environment:?}"), format!("{other:?}"));
    }
}

#[cfg(unix)]
fn os_string(bytes: &[u8]) -> OsString {
    std::os::unix::ffi::OsStringExt::from_vec(bytes.to_vec())
}

#[cfg(not(unix))]
fn os_string(bytes: &[u8]) -> OsString {
    String::from_utf8_lossy(bytes).into_owned().into()
}

/// An `image.toml`: refused in words, or a description by which every program can be started, and of which every name
/// means one language.
pub(super) fn manifest(bytes: &[u8]) {
    let text = Input(bytes).text();
    let manifest = match images::manifest::parse("python", text) {
        Ok(manifest) => manifest,
        Err(error) => {
            assert!(error.to_string().starts_with("image.toml of python: "));
            return;
        }
    };
    let image = manifest.image;
    assert_eq!(
        (image.name.as_str(), image.tag.as_str()),
        ("python", "belljar/python:latest")
    );
    assert_eq!(image.languages[0].name, "python");
    assert!(!manifest.summary.chars().any(char::is_control));
    let mut names = Vec::new();
    for language in &image.languages {
        names.extend(std::iter::once(&language.name).chain(&language.aliases));
        let marks: usize = language
            .command
            .iter()
            .map(|word| word.matches(PROGRAM_MARK).count())
            .sum();
        assert_eq!(marks, 1);
        assert!(images::is_program(&language.program));
        for name in language.env.keys().chain(image.env.keys()) {
            assert!(images::is_variable(name) && !images::is_loader_variable(name));
        }
    }
    let all = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), all);
}
