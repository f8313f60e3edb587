//! Credentials: used outside, and never seen inside or in anything that is kept.

use std::path::{Path, PathBuf};

use base64::{Engine as _, engine::general_purpose::STANDARD};

use crate::support::{CANARY, World};

const CONFIG: &str = r#"
[egress.api]
allow = ["api.lab.test:{tls}", "files.lab.test:{tls}"]
secrets = ["token", "user", "stand-in"]
resolve = {names}
allow_private = ["127.0.0.1/32"]
upstream_ca = "{ca}"

[secrets.token]
from = { file = "{token}" }
hosts = ["api.lab.test:{tls}"]
inject = { header = "X-Api-Token", format = "token {}" }

[secrets.user]
from = { command = ["cat", "{token}"], ttl_seconds = 600 }
hosts = ["api.lab.test:{tls}"]
inject = { basic = "robot" }

[secrets.stand-in]
from = { file = "{token}" }
hosts = ["files.lab.test:{tls}"]
inject = { placeholder = "GITHUB_TOKEN" }

[egress.broken]
allow = ["api.lab.test:{tls}"]
secrets = ["broken"]

[secrets.broken]
from = { command = ["sh", "-c", "echo {token}-said; exit 3"], ttl_seconds = 60 }
hosts = ["api.lab.test:{tls}"]
inject = { header = "Authorization", format = "Bearer {}" }
"#;

/// Every file below `path`.
fn files(path: &Path, into: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(path).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files(&path, into);
        } else {
            into.push(path);
        }
    }
}

/// The forms in which a text gives the secret away.
fn given_away(text: &str) -> Option<String> {
    let hex: String = CANARY.bytes().map(|byte| format!("{byte:02x}")).collect();
    let percent: String = CANARY.bytes().map(|byte| format!("%{byte:02X}")).collect();
    let json = serde_json::to_string(CANARY).unwrap();
    let mut forms = vec![
        CANARY.to_owned(),
        hex,
        percent,
        json.trim_matches('"').to_owned(),
        // The longest part that every way of writing it leaves alone.
        "Canary0Canary1".to_owned(),
    ];
    // At each of three places in a longer text, without the characters that its neighbours have a part in.
    for before in ["", "a", "ab"] {
        let whole = STANDARD.encode(format!("{before}{CANARY}"));
        let from = if before.is_empty() { 0 } else { 4 };
        forms.push(whole[from..whole.len() - 4].to_owned());
    }
    forms.into_iter().find(|form| text.contains(form.as_str()))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_reaches_its_hosts_and_nobody_else() {
    // Everything that the server and its libraries would ever log.
    let logs = tempfile::tempdir().unwrap();
    let log = std::fs::File::create(logs.path().join("log")).unwrap();
    let everything = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::TRACE)
        .with_ansi(false)
        .with_writer(std::sync::Mutex::new(log))
        .finish();
    tracing::subscriber::set_global_default(everything).unwrap();
    let world = World::new(CONFIG).await;
    let ran = world
        .python(
            "api",
            r#"
forms = ["", "?as=base64", "?as=percent", "?as=json", "?as=hex", "?as=gzip", "?as=deflate"]
for form in forms:
    fetch(f"https://api.lab.test:{TLS}/echo{form}", headers={"X_API_TOKEN": "mine", "x-api-token": "mine", "AUTHORIZATION": "mine"})
own = os.environ["GITHUB_TOKEN"]
for form in forms:
    fetch(f"https://files.lab.test:{TLS}/echo{form}", headers={"Authorization": "Bearer " + own})
import base64
basic = base64.b64encode(f"me:{own}".encode()).decode()
fetch(f"https://files.lab.test:{TLS}/echo", headers={"Authorization": "Basic " + basic})
# The stand-in is of no use elsewhere.
fetch(f"https://api.lab.test:{TLS}/echo", headers={"X-Other": own})
open("own.txt", "w").write(own)
print(subprocess.run(["sh", "-c", "env; cat /proc/*/environ /proc/*/cmdline 2>/dev/null; grep -rl Canary0 /tmp /workspace /dev/shm 2>/dev/null"], capture_output=True).stdout)
"#,
        )
        .await;
    let stdout = ran.ok();
    assert!(ran.denied().is_empty(), "{stdout}");

    // As the server's log shows it.
    let shown = CANARY.as_bytes().escape_ascii().to_string();
    let seen = world.upstream.seen();
    let to_api: Vec<_> = seen
        .iter()
        .filter(|seen| seen.server_name.as_deref() == Some("api.lab.test"))
        .collect();
    assert_eq!(to_api.len(), 8, "{seen:?}");
    let basic = format!("Basic {}", STANDARD.encode(format!("robot:{CANARY}")));
    for request in &to_api {
        assert!(
            request
                .header("x-api-token")
                .eq([&*format!("token {shown}")]),
            "{request:?}"
        );
        assert!(request.header("authorization").eq([&*basic]), "{request:?}");
        assert!(
            !request.headers.iter().any(|(name, _)| name.contains('_')),
            "{request:?}"
        );
    }
    let to_files: Vec<_> = seen
        .iter()
        .filter(|seen| seen.server_name.as_deref() == Some("files.lab.test"))
        .collect();
    assert_eq!(to_files.len(), 8, "{seen:?}");
    for request in &to_files[..7] {
        assert!(
            request
                .header("authorization")
                .eq([&*format!("Bearer {shown}")]),
            "{request:?}"
        );
        assert!(
            request.header("x-api-token").next().is_none(),
            "{request:?}"
        );
    }
    let basic = format!("Basic {}", STANDARD.encode(format!("me:{CANARY}")));
    assert!(to_files[7].header("authorization").eq([&*basic]));

    // What came back and what is kept has it in no form.
    assert_eq!(given_away(&stdout), None, "{stdout}");
    assert_eq!(given_away(&format!("{:?}", ran.0)), None);
    let names = ["token", "user", "stand-in"];
    let recorded = world.recorded(&ran.id());
    assert!(
        names
            .iter()
            .all(|name| recorded.iter().any(|line| line["egress"]["secrets"]
                .as_array()
                .is_some_and(|secrets| secrets.iter().any(|secret| secret == name)))),
        "{recorded:?}"
    );
    // What is kept in the background is kept by the end of the server.
    let state = world.state.path().to_owned();
    world.broker().stop().await;
    let mut kept = Vec::new();
    files(&state, &mut kept);
    files(logs.path(), &mut kept);
    assert!(std::fs::metadata(logs.path().join("log")).unwrap().len() > 10_000);
    assert!(
        kept.iter()
            .any(|file| file.starts_with(state.join("audit")))
    );
    for file in kept.iter().filter(|file| !file.ends_with("token")) {
        let text = String::from_utf8_lossy(&std::fs::read(file).unwrap()).into_owned();
        assert_eq!(given_away(&text), None, "{}", file.display());
    }
    world.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_that_cannot_be_had_stops_the_run_and_names_the_command_alone() {
    let world = World::new(CONFIG).await;
    let ask = world.ask("python", "broken", "print('never')");
    let refusal = world.try_run(None, ask).await.unwrap_err();
    let message = refusal.message();
    assert!(
        message.contains("broken") && message.contains("sh"),
        "{message}"
    );
    assert!(!message.contains("said"), "{message}");
    assert!(!format!("{:?}", world.log()).contains("said"));
    assert!(world.upstream.seen().is_empty());
    world.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_searched_is_held_back() {
    let world = World::new(CONFIG).await;
    let ran = world
        .python("api", r#"fetch(f"https://api.lab.test:{TLS}/echo?as=br")"#)
        .await;
    assert_eq!(ran.denied(), ["uninspectable"], "{}", ran.stdout());
    let stdout = ran.stdout();
    assert!(stdout.contains("uninspectable"), "{stdout}");
    assert_eq!(given_away(&stdout), None);
    world.close().await;
}
