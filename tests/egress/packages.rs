//! Packages before a program: the installers of the images, the registries that this machine reaches, a real container.
//! Where the registries are is what pip and npm of this machine say, so that none is named here; without a way to them
//! these tests fail.

use std::{collections::BTreeSet, path::Path, process::Command};

use belljar::{
    broker::{Opening, Refusal},
    config::{FileOrigin, Settings, machine_cpus},
    egress::Packages,
    policy::{RunAsk, SessionAsk},
    types::{Caller, PackageKind, Status},
};
use tokio_util::sync::CancellationToken;

use crate::support::{PRELUDE, Ran, World, addresses};

/// What pip is to install: pure Python, and in no image.
const IMPORTS: &str =
    "import iniconfig, importlib.metadata\nprint(importlib.metadata.version('iniconfig'))\n";
/// What npm is to install, with a dependency of its own.
const REQUIRES: &str =
    "console.log(require('is-odd')(3), require('is-odd/package.json').version);\n";

/// The host of the registry that the server will find by itself.
async fn registry(kind: PackageKind) -> String {
    let config = format!("[packages.{kind}]\n");
    let settings = Settings::parse(&config, FileOrigin::BuiltIn, machine_cpus()).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let packages = Packages::new(&settings.packages, folder.path().join("packages"));
    let registry = packages.registry(kind).await.unwrap().unwrap();
    registry.url().endpoint.host.to_string()
}

/// A world with a registry of this kind, its own host open wherever it is, and those that turn out to be needed beside
/// it: those where files lie.
async fn world(kind: PackageKind, language: &str, packages: &[&str], further: &str) -> World {
    let mut hosts = BTreeSet::from([registry(kind).await]);
    for _ in 0..3 {
        let open = addresses(&hosts).await;
        let config = format!("[packages.{kind}]\nallow_private = [{open}]\n{further}");
        let world = World::new(&config).await;
        let ran = run(&world, language, packages, "").await.unwrap();
        let denied = &ran.0.egress.denied;
        if denied.is_empty() {
            return world;
        }
        assert!(
            denied.iter().all(|one| one.reason == "address_denied"),
            "{ran:?}"
        );
        hosts.extend(denied.iter().map(|one| one.host.clone()));
        world.close().await;
    }
    panic!("more and more hosts are needed: {hosts:?}");
}

/// A world of which every registry's host leads to a port where nobody listens, with what `from` keeps.
async fn cut_off(kind: PackageKind, from: &World, ttl_seconds: u64) -> World {
    let host = registry(kind).await;
    let world = World::new(&format!(
        "[packages]\nindex_ttl_seconds = {ttl_seconds}\n[packages.{kind}]\nresolve = {{ \"{host}\" = [\"127.0.0.1\"] }}\n\
         allow_private = [\"127.0.0.1/32\"]\n"
    ))
    .await;
    let (kept, here) = (from.state.path(), world.state.path());
    copy(&kept.join("packages"), &here.join("packages"));
    world
}

fn copy(from: &Path, to: &Path) {
    let copied = Command::new("cp").arg("-r").args([from, to]).status();
    assert!(copied.unwrap().success());
}

async fn run(world: &World, language: &str, packages: &[&str], code: &str) -> Result<Ran, Refusal> {
    let ask = RunAsk {
        language: language.to_owned(),
        // An empty line is a program in every language.
        code: format!("{code}\n"),
        packages: packages.iter().map(|&one| one.to_owned()).collect(),
        timeout_seconds: Some(60.0),
        ..RunAsk::default()
    };
    world.try_run(None, ask).await.map(Ran)
}

#[tokio::test(flavor = "multi_thread")]
async fn pip_installs_before_the_program_and_the_second_time_without_a_network() {
    let packages = ["iniconfig==2.0.0"];
    let world = world(PackageKind::Python, "python", &packages, "").await;
    let ran = run(&world, "python", &packages, IMPORTS).await.unwrap();
    assert_eq!(ran.ok(), "2.0.0\n");
    assert!(ran.0.packages.unwrap().complete);
    assert_eq!(ran.0.sandbox.network, "none");
    assert!(ran.0.artifacts.is_empty(), "{ran:?}");

    let requests = world.recorded(&ran.id());
    assert!(requests.iter().all(|line| line["network"] == "packages"));
    assert!(
        requests
            .iter()
            .all(|line| line["egress"]["method"] == "GET")
    );
    let installing = world
        .log()
        .into_iter()
        .find(|line| line["action"] == "install_packages" && line["run_id"] == ran.id());
    assert_eq!(installing.unwrap()["packages"][0], "iniconfig==2.0.0");

    // An index that is believed, and one that should be asked again and cannot be.
    for ttl_seconds in [3600, 0] {
        let alone = cut_off(PackageKind::Python, &world, ttl_seconds).await;
        let again = run(&alone, "python", &packages, IMPORTS).await.unwrap();
        assert_eq!(again.ok(), "2.0.0\n");
        // From the cache too, each is on record.
        assert_eq!(again.allowed(), ran.allowed());
        alone.close().await;
    }
    world.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn npm_installs_before_the_program_and_the_second_time_without_a_network() {
    let packages = ["is-odd@3.0.1"];
    let world = world(PackageKind::JavaScript, "javascript", &packages, "").await;
    let ran = run(&world, "javascript", &packages, REQUIRES)
        .await
        .unwrap();
    assert_eq!(ran.ok(), "true 3.0.1\n");
    assert!(ran.0.packages.unwrap().complete);
    assert!(ran.0.artifacts.is_empty(), "{ran:?}");
    for ttl_seconds in [3600, 0] {
        let alone = cut_off(PackageKind::JavaScript, &world, ttl_seconds).await;
        let again = run(&alone, "javascript", &packages, REQUIRES)
            .await
            .unwrap();
        assert_eq!(again.ok(), "true 3.0.1\n");
        alone.close().await;
    }
    world.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_scoped_package_is_installed_too() {
    let packages = ["@types/ms@2.1.0"];
    let world = world(PackageKind::JavaScript, "javascript", &packages, "").await;
    let code = "console.log(require('@types/ms/package.json').name);";
    let ran = run(&world, "javascript", &packages, code).await.unwrap();
    assert_eq!(ran.ok(), "@types/ms\n");
    world.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_program_reaches_nothing_of_what_the_installer_did() {
    let packages = ["iniconfig==2.0.0"];
    let world = world(PackageKind::Python, "python", &packages, "").await;
    // 0A is a socket that listens.
    let code = "import os\n\
        print([line for line in open('/proc/net/tcp') if line.split()[3] == '0A'], open('/proc/net/tcp6').read().count(' 0A '))\n\
        print(sorted(name for name in os.environ if 'proxy' in name.lower() or 'INDEX' in name))\n";
    let ran = run(&world, "python", &packages, code).await.unwrap();
    assert_eq!(ran.ok(), "[] 0\n[]\n");
    world.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_profile_is_opened_after_the_gateway_is_closed() {
    let packages = ["iniconfig==2.0.0"];
    let lab = "[egress.lab]\nallow = [\"http://plain.lab.test:{plain}\"]\nresolve = {names}\nallow_private = [\"127.0.0.1/32\"]\n";
    let world = world(PackageKind::Python, "python", &packages, lab).await;
    let program = "import http.client, os, urllib.parse\n\
        proxy = urllib.parse.urlsplit(os.environ['http_proxy'])\n\
        def status(target):\n\
        \x20   connection = http.client.HTTPConnection(proxy.hostname, proxy.port)\n\
        \x20   connection.request('GET', target)\n\
        \x20   return connection.getresponse().status\n\
        print(status(f\"http://plain.lab.test:{os.environ['PLAIN']}/\"), status('/python/simple/iniconfig/') in (400, 403))\n";
    let ask = RunAsk {
        packages: vec![packages[0].to_owned()],
        ..world.ask("python", "lab", &format!("{PRELUDE}\n{IMPORTS}{program}"))
    };
    let ran = Ran(world.try_run(None, ask).await.unwrap());
    assert_eq!(ran.ok(), "2.0.0\n200 True\n");
    world.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_installer_that_fails_is_a_result_and_there_is_no_program() {
    let world = world(PackageKind::Python, "python", &["iniconfig==2.0.0"], "").await;
    let missing = ["belljar-has-no-such-package==1.0"];
    let ran = run(&world, "python", &missing, "print('the program')")
        .await
        .unwrap();
    assert_eq!((ran.0.status, ran.0.exit_code), (Status::Exited, Some(1)));
    assert!(!ran.0.packages.unwrap().complete);
    let stderr = ran.0.stderr.shown.text();
    assert!(stderr.contains("belljar-has-no-such-package"), "{stderr}");
    assert!(!ran.stdout().contains("the program"));
    let begun = world
        .log()
        .into_iter()
        .any(|line| line["action"] == "begin_run" && line["run_id"] == ran.id());
    assert!(!begun, "what never began is not on record as begun");
    world.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sources_are_not_built_unless_the_operator_says_so() {
    // There is no wheel of this version.
    let source = ["six==1.4.0"];
    let world = world(PackageKind::Python, "python", &["iniconfig==2.0.0"], "").await;
    let ran = run(&world, "python", &source, "").await.unwrap();
    assert!(!ran.0.packages.unwrap().complete, "{ran:?}");
    world.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_gets_its_packages_once_and_more_with_a_run() {
    let packages = ["iniconfig==2.0.0"];
    let world = world(PackageKind::Python, "python", &packages, "").await;
    let open = async |packages: &str| {
        let ask = SessionAsk {
            language: "python".to_owned(),
            packages: vec![packages.to_owned()],
            ..SessionAsk::default()
        };
        let broker = world.broker();
        let stop = CancellationToken::new();
        let opened = broker.open_session(&Caller::Local, &ask, &stop).await;
        opened.unwrap()
    };
    let Opening::Opened(opened) = open("iniconfig==2.0.0").await else {
        panic!("the packages are there");
    };
    let session = opened.session.to_string();
    let in_session = async |code: &str, packages: &[&str]| {
        let ask = RunAsk {
            language: "python".to_owned(),
            code: code.to_owned(),
            packages: packages.iter().map(|&one| one.to_owned()).collect(),
            timeout_seconds: Some(60.0),
            ..RunAsk::default()
        };
        Ran(world.try_run(Some(&session), ask).await.unwrap())
    };
    let first = in_session(IMPORTS, &[]).await;
    assert_eq!(first.ok(), "2.0.0\n");
    assert_eq!((first.0.packages, first.0.sandbox.fresh), (None, false));
    let second = in_session(IMPORTS, &["iniconfig==1.1.1"]).await;
    assert_eq!(second.ok(), "1.1.1\n");

    let Opening::NotInstalled(failed) = open("belljar-has-no-such-package").await else {
        panic!("there is no such package");
    };
    assert_eq!((failed.status, failed.exit_code), (Status::Exited, Some(1)));
    assert!(failed.stderr.text().contains("belljar-has-no-such-package"));
    let log = world.log();
    let last = log.iter().rfind(|line| line["action"] == "open_session");
    assert_eq!(last.unwrap()["error"], "packages_not_installed");
    world.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_an_earlier_program_left_is_not_what_installs() {
    let packages = ["iniconfig==2.0.0"];
    let world = world(PackageKind::Python, "python", &packages, "").await;
    let ask = SessionAsk {
        language: "python".to_owned(),
        ..SessionAsk::default()
    };
    let stop = CancellationToken::new();
    let opened = world
        .broker()
        .open_session(&Caller::Local, &ask, &stop)
        .await;
    let Opening::Opened(opened) = opened.unwrap() else {
        panic!("nothing was to be installed");
    };
    let session = opened.session.to_string();
    let hostile = "import os, pathlib\n\
        home = pathlib.Path.home()\n\
        (home / '.local/bin').mkdir(parents=True)\n\
        (home / '.config/pip').mkdir(parents=True)\n\
        fake = home / '.local/bin/python3'\n\
        fake.write_text('#!/bin/sh\\necho fake; exit 3\\n')\n\
        fake.chmod(0o755)\n\
        (home / '.config/pip/pip.conf').write_text('[install]\\nno-index = true\\n')\n";
    let in_session = async |code: &str, packages: &[&str]| {
        let ask = RunAsk {
            language: "python".to_owned(),
            code: code.to_owned(),
            packages: packages.iter().map(|&one| one.to_owned()).collect(),
            timeout_seconds: Some(60.0),
            ..RunAsk::default()
        };
        Ran(world.try_run(Some(&session), ask).await.unwrap())
    };
    in_session(hostile, &[]).await.ok();
    let ran = in_session("print('the program')", &packages).await;
    assert!(ran.0.packages.unwrap().complete, "{ran:?}");
    world.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_was_installed_finds_the_way_out() {
    let lab = "[egress.lab]\nallow = [\"files.lab.test:{tls}\"]\nresolve = {names}\nallow_private = [\"127.0.0.1/32\"]\n\
        upstream_ca = \"{ca}\"\n";
    let packages = ["httpx[http2]==0.28.1"];
    let world = world(PackageKind::Python, "python", &packages, lab).await;
    let code = "import httpx, os\n\
        url = f\"https://files.lab.test:{os.environ['TLS']}/echo\"\n\
        for http2 in (False, True):\n    with httpx.Client(http2=http2) as client:\n        answer = client.get(url)\n        \
        print(answer.status_code, answer.http_version)\n";
    let ask = RunAsk {
        packages: packages.iter().map(|&one| one.to_owned()).collect(),
        ..world.ask("python", "lab", code)
    };
    let ran = Ran(world.try_run(None, ask).await.unwrap());
    assert_eq!(ran.ok(), "200 HTTP/1.1\n200 HTTP/2\n");
    world.close().await;
}
