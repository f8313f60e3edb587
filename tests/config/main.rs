//! The configuration file: its defaults, where it is looked for, and a file that breaks each rule.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "helpers of tests fail as tests do"
)]

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use belljar::{
    config::{ConfigError, Environment, FileOrigin, MAX_CONFIG_BYTES, Problem, Settings},
    types::Cpus,
};

/// The processors of the machine that the fixtures are written for.
const MACHINE: Cpus = Cpus::from_millis(4000);

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn folder() -> PathBuf {
    root().join("tests/fixtures/config")
}

fn fixture(name: &str) -> String {
    let path = folder().join(name);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// What a file beside the fixtures would mean.
fn parse(text: &str) -> Result<Settings, ConfigError> {
    parse_at(text, folder().join("belljar.toml"))
}

fn parse_at(text: &str, path: PathBuf) -> Result<Settings, ConfigError> {
    Settings::parse(text, FileOrigin::Flag(path), MACHINE)
}

fn defaults() -> Settings {
    Settings::defaults(MACHINE).unwrap()
}

/// Whoever changes a default changes this file, and sees that they did.
#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "asks whether to rewrite the file, as for all generated ones"
)]
fn the_defaults_are_those_in_the_committed_file() {
    let shown = defaults().show().unwrap();
    if std::env::var_os("UPDATE_SCHEMAS").is_some() {
        fs::write(root().join("tests/fixtures/config/defaults.toml"), &shown).unwrap();
    }
    assert_eq!(
        shown,
        fixture("defaults.toml"),
        "a default changed: if that is meant, run again with UPDATE_SCHEMAS=1"
    );
}

#[test]
fn what_is_shown_is_read_back_as_the_same() {
    for text in ["", &fixture("full.toml")] {
        let settings = parse(text).unwrap();
        let again = parse(&settings.show().unwrap()).unwrap();
        assert_eq!(again, settings);
    }
}

#[test]
fn every_key_takes_effect() {
    let full = fixture("full.toml");
    let shown = parse(&full).unwrap().show().unwrap();
    let settings = |text: &str| -> toml::Table { toml::from_str(text).unwrap() };
    assert_eq!(settings(&shown), settings(&full));
    for (key, value) in flat(&settings(&fixture("defaults.toml"))) {
        let changed = flat(&settings(&full));
        let other = changed.iter().find(|(other, _)| *other == key);
        assert_ne!(other, Some(&(key, value)), "full.toml must change each");
    }
}

/// Every key with its path and value.
fn flat(table: &toml::Table) -> Vec<(String, toml::Value)> {
    let mut all = Vec::new();
    for (key, value) in table {
        match value {
            toml::Value::Table(inner) => all.extend(
                flat(inner)
                    .into_iter()
                    .map(|(below, value)| (format!("{key}.{below}"), value)),
            ),
            other => all.push((key.clone(), other.clone())),
        }
    }
    all
}

#[test]
fn each_bad_file_says_what_is_wrong() {
    let mut rules = BTreeSet::new();
    let folder = folder().join("bad");
    for file in fs::read_dir(&folder).unwrap() {
        let path = file.unwrap().path();
        let text = fs::read_to_string(&path).unwrap();
        let says: Vec<String> = text
            .lines()
            .filter_map(|line| line.strip_prefix("# says: "))
            .map(|line| line.replace("{folder}", folder.to_str().unwrap()))
            .collect();
        assert!(!says.is_empty(), "{}", path.display());
        let Err(error) = parse_at(&text, path.clone()) else {
            panic!("{} is read without an error", path.display());
        };
        let message = error.to_string();
        let name = path.display();
        match &error {
            ConfigError::Syntax { .. } => {
                let begins = format!("{name}: line ");
                assert!(message.starts_with(&begins), "{message}");
                for part in says {
                    assert!(message.contains(&part), "{message}");
                }
            }
            ConfigError::Invalid { problem, .. } => {
                assert_eq!(message, format!("{name}: {}", says.join("\n")));
                rules.insert(rule(problem));
            }
            other => panic!("{name}: {other}"),
        }
    }
    let expected = [
        "AboveCeiling",
        "AllowedFolder",
        "DockerHost",
        "DockerRuntime",
        "Egress::CaBroken",
        "Egress::CaEmpty",
        "Egress::CaUnreadable",
        "Egress::EmptyList",
        "Egress::Format",
        "Egress::FormatWithoutHeader",
        "Egress::HeaderForbidden",
        "Egress::HeaderName",
        "Egress::HeaderTwice",
        "Egress::Host",
        "Egress::HostScheme",
        "Egress::Injections",
        "Egress::Method",
        "Egress::Path",
        "Egress::PlaceholderTwice",
        "Egress::PlainWithSecret",
        "Egress::PortTwice",
        "Egress::ProfileName",
        "Egress::Range",
        "Egress::RangeBits",
        "Egress::RangeWide",
        "Egress::ResolveAddress",
        "Egress::ResolveName",
        "Egress::RuleScheme",
        "Egress::RuleTail",
        "Egress::RulesClash",
        "Egress::SecretHostless",
        "Egress::SecretName",
        "Egress::SecretScheme",
        "Egress::SecretUnknown",
        "Egress::SecretUnreachable",
        "Egress::SecretWildcard",
        "Egress::SourceCommand",
        "Egress::SourceFile",
        "Egress::SourceVariable",
        "Egress::Sources",
        "Egress::TooMany",
        "Egress::TtlWithoutCommand",
        "Egress::TunnelNarrowed",
        "Egress::TunnelPlain",
        "Egress::TunnelWithSecret",
        "Egress::Twice",
        "Egress::User",
        "Egress::Variable",
        "Egress::VariableReserved",
        "Egress::WildcardAddress",
        "Egress::WildcardAll",
        "Egress::WildcardPlace",
        "Egress::WildcardSuffix",
        "LanguageClash",
        "LanguageCommand",
        "LanguageImage",
        "LanguageName",
        "LanguageProgram",
        "LanguageShm",
        "LanguageVariable",
        "OutOfRange",
        "PoolFloor",
        "PoolLanguage",
        "RegistryQuery",
        "RegistryUrl",
        "SessionsFillAll",
    ];
    assert_eq!(rules, expected.map(str::to_owned).into());
}

/// The name of the rule that was broken.
fn rule(problem: &Problem) -> String {
    let first = |text: String| text.split([' ', '{']).next().unwrap().to_owned();
    match problem {
        Problem::Egress { problem, .. } => format!("Egress::{}", first(format!("{problem:?}"))),
        other => first(format!("{other:?}")),
    }
}

#[test]
fn a_low_ceiling_takes_the_built_in_defaults_down_with_it() {
    let settings = parse(
        "[limits.ceiling]\nmemory_mib = 128\ncpus = 0.5\ntimeout_seconds = 5\n\
         [sessions]\nttl_ceiling_seconds = 60\n[concurrency]\nmax_sandboxes = 2\n",
    )
    .unwrap();
    assert_eq!(settings.limits.default.memory_mib, 128);
    assert_eq!(settings.limits.default.cpus.millis(), 500);
    assert_eq!(settings.limits.timeout, settings.limits.timeout_ceiling);
    assert_eq!(settings.sessions.ttl.as_secs(), 60);
    assert_eq!(settings.sessions.max, 1);
}

#[test]
fn an_operators_language_joins_the_built_in_ones_or_takes_a_place() {
    let language = |name: &str| {
        format!(
            "[[language]]\nname = {name:?}\nimage = \"own:1\"\nprogram = \".main\"\ncommand = [\"{{program}}\"]\n"
        )
    };
    let joined = parse(&language("ruby")).unwrap().languages;
    assert_eq!(joined.image("ruby").unwrap().tag, "own:1");
    assert_eq!(joined.image("py").unwrap().tag, "belljar/python:latest");
    let replaced = parse(&language("python")).unwrap().languages;
    assert_eq!(replaced.image("Python").unwrap().tag, "own:1");
    // The built-in one went, and its aliases with it.
    assert!(replaced.image("py").is_none());
    assert_eq!(replaced.images().len(), joined.images().len() - 1);
}

mod egress;

mod example {
    use super::*;

    /// The example's lines, with those freed of their `#` that `frees` says.
    fn uncommented(frees: impl Fn(&str) -> Option<&str>) -> String {
        let text = fs::read_to_string(root().join("examples/belljar.toml")).unwrap();
        text.lines()
            .map(|line| frees(line).unwrap_or(line))
            .collect::<Vec<_>>()
            .join("\n")
    }

    fn is_toml(line: &str) -> bool {
        line.starts_with('[')
            || line
                .split_once(" = ")
                .is_some_and(|(key, _)| !key.contains(' '))
    }

    #[test]
    fn as_it_is_it_changes_nothing() {
        let settings = parse(&uncommented(|_| None)).unwrap();
        assert_eq!(
            settings.show().unwrap().split_once('\n').unwrap().1,
            default_text()
        );
    }

    #[test]
    fn its_keys_show_their_defaults() {
        let text = uncommented(|line| line.strip_prefix('#').filter(|line| is_toml(line)));
        assert!(text.lines().filter(|line| is_toml(line)).count() > 20);
        let settings = parse(&text).unwrap();
        assert_eq!(
            settings.show().unwrap().split_once('\n').unwrap().1,
            default_text()
        );
    }

    #[test]
    fn its_examples_are_right_too_and_no_key_is_missing() {
        let text = uncommented(|line| {
            let line = line.strip_prefix('#')?;
            let line = line.strip_prefix(' ').unwrap_or(line);
            Some(line).filter(|line| is_toml(line))
        });
        let settings = parse(&text).unwrap();
        assert_eq!(settings.languages.configured().len(), 1);
        let shown: toml::Table = toml::from_str(&settings.show().unwrap()).unwrap();
        let full: toml::Table = toml::from_str(&fixture("full.toml")).unwrap();
        let keys = |table| -> Vec<String> { flat(table).into_iter().map(|(key, _)| key).collect() };
        assert_eq!(keys(&shown), keys(&full), "full.toml has every key");
    }

    fn default_text() -> String {
        let shown = defaults().show().unwrap();
        shown.split_once('\n').unwrap().1.to_owned()
    }
}

mod places {
    use super::*;

    /// A folder with an environment that points to it and nowhere else.
    fn place() -> (tempfile::TempDir, Environment, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let environment = Environment {
            config_home: Some(folder.path().to_path_buf()),
            ..Environment::default()
        };
        let default = environment.default_config().unwrap();
        fs::create_dir(default.parent().unwrap()).unwrap();
        (folder, environment, default)
    }

    fn with_pids(pids: u32) -> String {
        format!("[limits]\npids = {pids}\n")
    }

    #[test]
    fn without_a_file_the_defaults_hold() {
        let (_folder, environment, _) = place();
        let settings = Settings::load(&environment, None).unwrap();
        assert_eq!(settings.origin, FileOrigin::BuiltIn);
        let nowhere = Settings::load(&Environment::default(), None).unwrap();
        assert_eq!(nowhere, settings);
    }

    #[test]
    fn the_flag_comes_before_the_variable_before_the_default() {
        let (folder, mut environment, default) = place();
        let (flag, variable) = (folder.path().join("flag"), folder.path().join("variable"));
        for (path, pids) in [(&flag, 21), (&variable, 22), (&default, 23)] {
            fs::write(path, with_pids(pids)).unwrap();
        }
        let load = |environment: &Environment, flag| {
            let settings = Settings::load(environment, flag).unwrap();
            (settings.limits.default.pids, settings.origin)
        };
        assert_eq!(load(&environment, None), (23, FileOrigin::Default(default)));
        environment.config = Some(variable.clone());
        assert_eq!(
            load(&environment, None),
            (22, FileOrigin::Variable(variable))
        );
        assert_eq!(
            load(&environment, Some(&flag)),
            (21, FileOrigin::Flag(flag.clone()))
        );
    }

    #[test]
    fn a_file_that_was_named_must_be_there() {
        let (folder, mut environment, default) = place();
        fs::write(default, "").unwrap();
        let missing = folder.path().join("missing.toml");
        let error = Settings::load(&environment, Some(&missing)).unwrap_err();
        let expected = format!(
            "there is no configuration file at {}, named by --config",
            missing.display()
        );
        assert!(error.to_string().starts_with(&expected), "{error}");
        environment.config = Some(missing);
        let error = Settings::load(&environment, None).unwrap_err();
        assert!(
            error.to_string().contains("named by BELLJAR_CONFIG"),
            "{error}"
        );
    }

    #[test]
    fn a_variable_must_not_depend_on_the_current_directory() {
        let environment = Environment {
            config: Some("belljar.toml".into()),
            ..Environment::default()
        };
        let error = Settings::load(&environment, None).unwrap_err();
        assert_eq!(
            error.to_string(),
            "BELLJAR_CONFIG is belljar.toml: it must be an absolute path, so that it does not depend on the current directory"
        );
    }

    #[test]
    fn what_is_no_configuration_is_refused() {
        let (folder, environment, default) = place();
        let load = || Settings::load(&environment, None).unwrap_err();
        fs::write(&default, [b'#', 0xff]).unwrap();
        assert!(matches!(load(), ConfigError::NotUtf8 { .. }));
        let long = "#".repeat(usize::try_from(MAX_CONFIG_BYTES).unwrap() + 1);
        fs::write(&default, long).unwrap();
        assert!(matches!(load(), ConfigError::TooLarge { .. }));
        let error = Settings::load(&environment, Some(folder.path())).unwrap_err();
        assert!(matches!(error, ConfigError::Unreadable { .. }), "{error}");
    }

    #[cfg(unix)]
    #[test]
    fn a_file_that_everybody_may_write_is_refused() {
        use std::os::unix::fs::PermissionsExt as _;
        let (_folder, environment, default) = place();
        fs::write(&default, "").unwrap();
        let set = |mode| fs::set_permissions(&default, fs::Permissions::from_mode(mode)).unwrap();
        set(0o664);
        Settings::load(&environment, None).unwrap();
        set(0o666);
        let error = Settings::load(&environment, None).unwrap_err();
        assert!(error.to_string().contains("chmod o-w "), "{error}");
    }

    #[test]
    fn folders_of_the_command_line_are_absolute_and_add_up() {
        let (folder, environment, _) = place();
        let mut settings = Settings::load(&environment, None).unwrap();
        let own = folder.path().to_path_buf();
        settings
            .allow_folders(vec![own.clone()], Vec::new())
            .unwrap();
        settings
            .allow_folders(Vec::new(), vec![own.clone()])
            .unwrap();
        assert_eq!(settings.files.read, std::slice::from_ref(&own));
        assert_eq!(settings.files.read_write, [own]);
        let error = settings
            .allow_folders(Vec::new(), vec![".".into()])
            .unwrap_err();
        assert_eq!(
            error.to_string(),
            "--allow-dir-rw has .: it must be an absolute path without `..`"
        );
    }
}
