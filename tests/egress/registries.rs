//! The registries of packages that this machine reaches, through a profile: the installers' own defaults say where they
//! are, so that none is named here. Without a way to them these tests fail.

use std::{collections::BTreeSet, process::Command};

use crate::support::{Ran, World, addresses};

/// What an image prints without any network.
fn inside(image: &str, command: &[&str]) -> String {
    let output = Command::new("docker")
        .args(["run", "--rm", "--network=none", image])
        .args(command)
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// The host of an address.
fn host(url: &str) -> String {
    let rest = url.split_once("://").unwrap().1;
    rest.split(['/', ':']).next().unwrap().to_owned()
}

/// Installs with one host allowed, wherever it is, and with every host that then turns out to be needed.
async fn install(first: &str, language: &str, code: &str) -> Ran {
    let mut hosts = BTreeSet::from([first.to_owned()]);
    for _ in 0..3 {
        let open = addresses(&hosts).await;
        let allow: Vec<&String> = hosts.iter().collect();
        let world = World::new(&format!(
            "[egress.registry]\nallow = {allow:?}\nallow_private = [{open}]\n"
        ))
        .await;
        let ran = world.run(language, "registry", code).await;
        world.close().await;
        let Some(missing) = ran.0.egress.denied.first() else {
            return ran;
        };
        assert_eq!(missing.reason, "host_not_allowed", "{ran:?}");
        hosts.insert(missing.host.clone());
    }
    panic!("more and more hosts are needed: {hosts:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn pip_installs_from_its_own_default_index() {
    let help = inside("belljar/python", &["pip", "install", "--help"]);
    let index = help
        .split_whitespace()
        .find(|word| word.starts_with("https://"))
        .expect("pip names its index");
    let index = index.trim_end_matches([')', '.']);
    let code = format!(
        "import subprocess, sys\nsubprocess.run([sys.executable, '-m', 'pip', 'install', '--user', '-q', '--retries', '0', \
         '--index-url', '{index}', '--force-reinstall', 'six==1.16.0'], check=True)\n\
         print(subprocess.run([sys.executable, '-c', 'import six; print(six.__version__)'], capture_output=True, text=True).stdout)"
    );
    let ran = install(&host(index), "python", &code).await;
    assert_eq!(ran.ok().trim(), "1.16.0");
}

#[tokio::test(flavor = "multi_thread")]
async fn npm_installs_from_its_own_default_registry() {
    let registry = inside("belljar/javascript", &["npm", "config", "get", "registry"]);
    let code = "const { execFileSync } = require('node:child_process');\n\
        execFileSync('npm', ['install', '--prefix', '/workspace', '--no-audit', '--no-fund', '--fetch-retries', '0', 'is-number@7.0.0'], {stdio: 'inherit'});\n\
        console.log(require('is-number')(5), require('is-number/package.json').version);";
    let ran = install(&host(registry.trim()), "javascript", code).await;
    assert!(ran.ok().ends_with("true 7.0.0\n"), "{}", ran.stdout());
}
