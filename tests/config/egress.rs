//! Profiles and secrets: what holds where nothing is said, what is read beside the file, and that no secret is shown.

use belljar::{
    config::{CallerKind, EgressProblem, Injection, Profile, Scheme, SecretSource, Uninspectable},
    types::{Host, ProfileName},
};

use super::*;

/// The profile `lab`.
fn lab(settings: &Settings) -> &Profile {
    &settings.egress.profiles[&ProfileName::parse("lab").unwrap()]
}

fn problem(error: ConfigError) -> EgressProblem {
    match error {
        ConfigError::Invalid {
            problem: Problem::Egress { problem, .. },
            ..
        } => *problem,
        other => panic!("{other}"),
    }
}

#[test]
fn nothing_is_open_by_default_and_an_empty_profile_allows_nothing() {
    assert!(defaults().egress.profiles.is_empty());
    let settings = parse("[egress.lab]\n").unwrap();
    assert!(lab(&settings).rules.is_empty());
}

#[test]
fn what_a_profile_does_not_say_has_its_default() {
    let settings = parse("[egress.lab]\nallow = [\"a.test\", \"http://b.test\"]\n").unwrap();
    let lab = lab(&settings);
    let spoken: Vec<_> = lab
        .rules
        .iter()
        .map(|rule| (rule.scheme, rule.port))
        .collect();
    assert_eq!(spoken, [(Scheme::Https, 443), (Scheme::Http, 80)]);
    assert!(lab.rules.iter().all(|rule| !rule.tunnel));
    assert_eq!(lab.uninspectable, Uninspectable::Pass);
    assert_eq!(lab.callers, [CallerKind::Local, CallerKind::Token]);
    let budget = lab.budget;
    assert_eq!((budget.requests, budget.connections), (1000, 32));
    assert_eq!(budget.sent_bytes, 64 * 1024 * 1024);
    assert_eq!(budget.received_bytes, 1024 * 1024 * 1024);
    assert_eq!(budget.duration.as_secs(), 300);
}

#[test]
fn a_profile_with_secrets_keeps_back_what_cannot_be_searched() {
    let secret = "[secrets.s]\nfrom = { command = [\"mint\"] }\nhosts = [\"a.test\"]\ninject = { header = \"X-Key\" }\n";
    let text = format!("[egress.lab]\nallow = [\"a.test\"]\nsecrets = [\"s\"]\n{secret}");
    let settings = parse(&text).unwrap();
    assert_eq!(lab(&settings).uninspectable, Uninspectable::Block);
    let secret = &lab(&settings).secrets[0];
    let format = "{}".to_owned();
    let name = "x-key".to_owned();
    assert_eq!(secret.inject, Injection::Header { name, format });
    let SecretSource::Command { ttl, .. } = &secret.from else {
        panic!("{:?}", secret.from);
    };
    assert_eq!(ttl.as_secs(), 600);
}

#[test]
fn two_secrets_may_share_a_host_and_one_may_have_several() {
    let secret = |name: &str, header: &str| {
        format!(
            "[secrets.{name}]\nfrom = {{ env = \"A\" }}\nhosts = [\"a.test\", \"b.test:8443\"]\ninject = {{ header = \"{header}\" }}\n"
        )
    };
    let text = format!(
        "[egress.lab]\nallow = [\"a.test\", \"*.test.example\", \"b.test:8443\"]\nsecrets = [\"one\", \"two\"]\n{}{}",
        secret("one", "X-One"),
        secret("two", "X-Two"),
    );
    assert_eq!(lab(&parse(&text).unwrap()).secrets.len(), 2);
}

/// A range may cover the addresses of cloud metadata. That it does not open them is the policy's to hold.
#[test]
fn a_range_may_be_as_wide_as_the_private_ones() {
    for range in ["10.0.0.0/8", "127.0.0.0/8", "169.254.0.0/16", "fc00::/7"] {
        let text = format!("[egress.lab]\nallow_private = [{range:?}]\n");
        assert!(parse(&text).is_ok(), "{range}");
    }
}

#[test]
fn hosts_have_one_spelling_wherever_they_stand() {
    let settings = parse(
        "[egress.lab]\nallow = [\"A.Test.:443\", \"0x7f.1:81\"]\nsecrets = [\"s\"]\n\
         [egress.lab.resolve]\n\"A.TEST\" = [\"::ffff:127.0.0.1\"]\n\
         [secrets.s]\nfrom = { env = \"A\" }\nhosts = [\"a.TEST\"]\ninject = { basic = \"me\" }\n",
    )
    .unwrap();
    let lab = lab(&settings);
    assert!(lab.rules[0].hosts.covers(&Host::parse("a.test").unwrap()));
    assert!(
        lab.rules[1]
            .hosts
            .covers(&Host::parse("127.0.0.1").unwrap())
    );
    let (name, addresses) = lab.resolve.first_key_value().unwrap();
    assert_eq!(name.as_str(), "a.test");
    assert_eq!(addresses[0].to_string(), "127.0.0.1");
    assert_eq!(lab.secrets[0].hosts[0].to_string(), "a.test:443");
}

mod authorities {
    use super::*;

    /// A configuration that names `ca.pem` beside it, which holds `pem`.
    fn with_ca(pem: &str) -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("belljar.toml");
        fs::write(&path, "[egress.lab]\nupstream_ca = \"ca.pem\"\n").unwrap();
        fs::write(folder.path().join("ca.pem"), pem).unwrap();
        (folder, path)
    }

    fn load(path: &Path) -> Result<Settings, ConfigError> {
        Settings::load(&Environment::default(), Some(path))
    }

    #[test]
    fn they_are_read_from_beside_the_configuration_and_not_from_the_current_directory() {
        let pem = fixture("lab-ca.pem");
        let (_folder, path) = with_ca(&format!("a comment\n{pem}{pem}"));
        let settings = load(&path).unwrap();
        assert_eq!(lab(&settings).upstream_ca.len(), 2);
        assert!(
            settings
                .show()
                .unwrap()
                .contains("upstream_ca = \"ca.pem\"")
        );
    }

    #[test]
    fn one_broken_among_them_is_named() {
        let pem = fixture("lab-ca.pem");
        let (_folder, path) = with_ca(&format!("{pem}{}", fixture("broken-ca.pem")));
        let found = problem(load(&path).unwrap_err());
        assert!(
            matches!(found, EgressProblem::CaBroken { at: 2, .. }),
            "{found}"
        );
    }

    #[test]
    fn too_many_bytes_are_refused() {
        let (_folder, path) = with_ca(&" ".repeat(1024 * 1024 + 1));
        let found = problem(load(&path).unwrap_err());
        assert!(matches!(found, EgressProblem::CaTooLarge { .. }), "{found}");
    }

    #[cfg(unix)]
    #[test]
    fn what_everybody_may_write_is_refused() {
        use std::os::unix::fs::PermissionsExt as _;
        let (folder, path) = with_ca(&fixture("lab-ca.pem"));
        let ca = folder.path().join("ca.pem");
        fs::set_permissions(ca, fs::Permissions::from_mode(0o666)).unwrap();
        let found = problem(load(&path).unwrap_err());
        assert!(
            matches!(found, EgressProblem::CaWorldWritable { .. }),
            "{found}"
        );
    }
}

#[test]
fn the_schema_takes_what_the_fixtures_say() {
    let schema = serde_json::to_value(belljar::config::schema()).unwrap();
    jsonschema::meta::validate(&schema).unwrap();
    let read = |text: &str| -> serde_json::Value {
        serde_json::to_value(toml::from_str::<toml::Table>(text).unwrap()).unwrap()
    };
    assert!(jsonschema::is_valid(&schema, &read(&fixture("full.toml"))));
    for wrong in [
        "[egress.lab]\ndeny = []\n",
        "[egress.lab]\nallow = [{ port = 443 }]\n",
        "[egress.lab]\nallow = [{ host = \"a.test\", method = [] }]\n",
        "[secrets.s]\nvalue = \"x\"\n",
        "[packages.python]\nregistry = \"x\"\n",
    ] {
        assert!(!jsonschema::is_valid(&schema, &read(wrong)), "{wrong}");
    }
}
