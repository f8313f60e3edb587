//! Packages: who may ask for what, and how an installation is told and recorded. The installer of these tests installs
//! everything but `missing`; real ones are in `tests/egress/`.

use serde_json::{Value, json};

use crate::harness::{Setup, World};

/// A registry that nobody asks: nothing in these tests dials.
const ON: &str = "[packages.python]\nindex = \"https://index.packages.test/simple\"\n";

async fn world(config: &str) -> World {
    Setup::new().config(config).start().await
}

#[tokio::test]
async fn packages_are_off_unless_the_operator_opens_them() {
    let world = World::new().await;
    let answer = world
        .run_with("out hello", json!({"packages": ["six"]}))
        .await;
    assert_eq!(
        answer.error(),
        "packages are off: the operator enables them with [packages.python] in the configuration"
    );
    assert_eq!(world.created(), 0);
    let line = world.lines("run_code").pop().unwrap();
    assert_eq!(
        line["decision"],
        json!({"verdict": "deny", "reason": "packages_off"})
    );
    // Nothing asked for is nothing to refuse.
    let answer = world.run_with("out hello", json!({"packages": []})).await;
    assert_eq!(answer.ok()["packages"], Value::Null);
}

#[tokio::test]
async fn packages_go_in_before_the_program_and_are_on_record() {
    let world = world(ON).await;
    let packages = json!(["six==1.17.0", "requests>=2"]);
    let answer = world
        .run_with("out hello", json!({"packages": packages}))
        .await;
    let result = answer.ok();
    assert_eq!(result["stdout"]["text"], "hello\n");
    assert_eq!(result["packages"]["status"], "installed");
    assert_eq!(result["sandbox"]["network"], "none");
    assert!(
        answer.text().contains("packages installed in "),
        "{}",
        answer.text()
    );
    let run = &result["run_id"];
    let actions: Vec<_> = world
        .audit()
        .into_iter()
        .filter(|line| line["run_id"] == *run)
        .map(|line| {
            (
                line["action"].clone(),
                line["network"].clone(),
                line["packages"].clone(),
            )
        })
        .collect();
    let line = |action: &str, network: &str| (json!(action), json!(network), packages.clone());
    assert_eq!(
        actions,
        [
            line("install_packages", "packages"),
            line("begin_run", "none"),
            line("run_code", "none")
        ]
    );
}

#[tokio::test]
async fn what_cannot_be_installed_keeps_the_program_from_starting() {
    let world = world(ON).await;
    let answer = world
        .run_with("out hello", json!({"packages": ["missing"]}))
        .await;
    let result = answer.ok();
    assert_eq!(
        (&result["status"], &result["exit_code"]),
        (&json!("exited"), &json!(1))
    );
    assert_eq!(result["packages"]["status"], "failed");
    assert_eq!(result["stdout"]["text"], "");
    assert_eq!(result["stderr"]["text"], "no such package: missing\n");
    assert!(
        answer
            .text()
            .contains("packages not installed; the program did not start")
    );
    assert!(world.lines("begin_run").is_empty());
    assert_eq!(world.lines("run_code")[0]["outcome"]["exit_code"], 1);
    world.until_empty().await;
}

#[tokio::test]
async fn a_session_whose_packages_cannot_be_installed_is_not_opened() {
    let world = world(ON).await;
    let answer = world
        .tool(
            "open_session",
            json!({"language": "python", "packages": ["missing"]}),
        )
        .await;
    let text = answer.error();
    assert!(text.starts_with("packages not installed, and no session opened: the installer ended as exited with exit code 1"));
    let (before, inside) = text.split_once("----- BEGIN UNTRUSTED stderr ").unwrap();
    assert!(!before.contains("no such package"));
    assert!(inside.contains("no such package: missing"));
    let line = world.lines("open_session").pop().unwrap();
    assert_eq!(line["error"], "packages_not_installed");
    assert_eq!(line["packages"], json!(["missing"]));
    world.until_empty().await;
}

#[tokio::test]
async fn a_session_has_its_packages_from_the_start_and_gets_more_with_a_run() {
    let world = world(ON).await;
    let session = world.open(json!({"packages": ["six"]})).await;
    let first = world.run_with("out 1", json!({"session": session})).await;
    assert_eq!(first.ok()["packages"], Value::Null);
    assert_eq!(first.ok()["sandbox"]["fresh"], false);
    let more = json!({"session": session, "packages": ["requests"]});
    let second = world.run_with("out 2", more).await;
    assert_eq!(second.ok()["packages"]["status"], "installed");
    assert_eq!(second.ok()["stdout"]["text"], "2\n");
    assert_eq!(world.lines("install_packages").len(), 2);
}

#[tokio::test]
async fn what_is_no_package_is_refused_with_words() {
    let world = world(ON).await;
    for (packages, words) in [
        (
            json!(["six @ https://evil.test/six.whl"]),
            "packages has \"six @ https://evil.test/six.whl\": a Python package is a name with versions",
        ),
        (
            json!(["--index-url=https://evil.test"]),
            "packages has \"--index-url=https://evil.test\": a Python package",
        ),
        (json!(["./six"]), "packages has \"./six\": a Python package"),
        (
            json!(["six.whl"]),
            "packages has \"six.whl\": it ends as the name of an archive does",
        ),
        (
            json!([format!("six=={}", "1".repeat(300))]),
            "it is longer than 256 bytes",
        ),
        (
            json!(vec!["six"; 65]),
            "packages has 65 entries, and at most 64 are allowed",
        ),
    ] {
        let answer = world
            .run_with("out hello", json!({"packages": packages}))
            .await;
        assert!(answer.error().contains(words), "{}", answer.error());
    }
    for (language, words) in [
        (
            "bash",
            "no packages can be put in for bash: its image says no installer. Ask for them with ",
        ),
        (
            "javascript",
            "packages are off: the operator enables them with [packages.javascript]",
        ),
    ] {
        let more = json!({"language": language, "packages": ["six"]});
        let answer = world.run_with("out hello", more).await;
        assert!(answer.error().starts_with(words), "{}", answer.error());
    }
    assert_eq!(world.created(), 0);
}

#[tokio::test]
async fn packages_may_be_for_some_callers_only() {
    let world = world(&format!("[packages]\ncallers = [\"token\"]\n{ON}")).await;
    let answer = world
        .run_with("out hello", json!({"packages": ["six"]}))
        .await;
    assert!(
        answer
            .error()
            .starts_with("packages are not for this caller"),
        "{}",
        answer.error()
    );
}

#[tokio::test]
async fn an_installer_that_takes_too_long_is_ended() {
    let world = world(&format!("[packages]\ntimeout_seconds = 1\n{ON}")).await;
    let answer = world
        .run_with("out hello", json!({"packages": ["endless"]}))
        .await;
    let result = answer.ok();
    assert_eq!(result["status"], "timed_out");
    assert_eq!(result["packages"]["status"], "failed");
    assert!(world.lines("begin_run").is_empty());
}
