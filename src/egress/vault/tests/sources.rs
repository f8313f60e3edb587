//! Where secrets come from, and what is refused.

use std::path::PathBuf;

use super::*;
use crate::egress::vault::source::{MAX_SECRET_BYTES, obtain};

async fn from(source: SecretSource) -> Result<String, String> {
    obtain(&source)
        .await
        .map(|secret| secret.expose().to_owned())
}

fn command(argv: &[&str]) -> SecretSource {
    SecretSource::Command {
        argv: argv.iter().map(|word| (*word).to_owned()).collect(),
        ttl: Duration::from_mins(10),
    }
}

/// A file with these rights.
#[cfg(unix)]
fn file(content: &[u8], mode: u32) -> (tempfile::TempDir, PathBuf) {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("token");
    std::fs::write(&path, content).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
    (folder, path)
}

#[tokio::test]
async fn a_variable_of_the_server_is_a_source() {
    // One that is there wherever tests run, and long enough.
    let path = from(SecretSource::Env("CARGO_MANIFEST_DIR".to_owned())).await;
    assert_eq!(path.unwrap(), env!("CARGO_MANIFEST_DIR"));
    let absent = from(SecretSource::Env("BELLJAR_NOT_THERE".to_owned())).await;
    assert!(absent.unwrap_err().contains("BELLJAR_NOT_THERE"));
}

#[cfg(unix)]
#[tokio::test]
async fn a_file_gives_its_one_line() {
    for content in ["hunter2hunter2", "hunter2hunter2\n", "hunter2hunter2\r\n"] {
        let (_folder, path) = file(content.as_bytes(), 0o600);
        assert_eq!(
            from(SecretSource::File(path)).await.unwrap(),
            "hunter2hunter2"
        );
    }
}

#[cfg(unix)]
#[tokio::test]
async fn a_file_that_everybody_can_read_is_refused_with_the_way_out() {
    for mode in [0o604, 0o644, 0o602] {
        let (_folder, path) = file(b"hunter2hunter2", mode);
        let refused = from(SecretSource::File(path)).await.unwrap_err();
        assert!(refused.contains("chmod o-rwx"), "{refused}");
        assert!(!refused.contains("hunter2"), "{refused}");
    }
    let (_folder, path) = file(b"hunter2hunter2", 0o640);
    from(SecretSource::File(path)).await.unwrap();
}

#[cfg(unix)]
#[tokio::test]
async fn what_is_no_regular_file_is_refused_without_waiting_for_it() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status();
    assert!(made.unwrap().success());
    for path in [pipe, folder.path().to_owned(), PathBuf::from("/dev/zero")] {
        let refused = from(SecretSource::File(path)).await.unwrap_err();
        assert!(refused.contains("no regular file"), "{refused}");
    }
    let absent = from(SecretSource::File(folder.path().join("absent"))).await;
    assert!(absent.unwrap_err().contains("absent"));
}

#[cfg(unix)]
#[tokio::test]
async fn only_one_line_of_printable_text_is_a_secret() {
    let long = "x".repeat(MAX_SECRET_BYTES + 1);
    let cases: [(&[u8], &str); 11] = [
        (b"", "empty"),
        (b"\n", "empty"),
        (b"hunter2hunter2\nhunter3hunter3\n", "more than one line"),
        (b"hunter2hunter2\n\n", "more than one line"),
        (b"hunter2\rhunter2", "more than one line"),
        (b"hunter2\0hunter2", "control characters"),
        (b"hunter2\x1bhunter2", "control characters"),
        ("hünter2hünter2".as_bytes(), "beyond ASCII"),
        (b"\xff\xfehunter2hunter2", "beyond ASCII"),
        (b" hunter2hunter2", "a space"),
        (b"hunter2", "shorter than 8"),
    ];
    for (content, expected) in cases.into_iter().chain([(long.as_bytes(), "longer than")]) {
        let (_folder, path) = file(content, 0o600);
        let refused = from(SecretSource::File(path)).await.unwrap_err();
        assert!(refused.contains(expected), "{refused}");
        assert!(!refused.contains("hunter2"), "{refused}");
    }
    let (_folder, path) = file(&vec![b'x'; MAX_SECRET_BYTES], 0o600);
    from(SecretSource::File(path)).await.unwrap();
}

#[cfg(unix)]
#[tokio::test]
async fn a_command_is_run_without_a_shell_and_from_the_root() {
    let printed = from(command(&["printf", "%s", "$HOME;`id`"])).await;
    assert_eq!(printed.unwrap(), "$HOME;`id`");
    let folder = from(command(&["sh", "-c", "echo in the folder $(pwd)"])).await;
    assert_eq!(folder.unwrap(), "in the folder /");
    let input = from(command(&["sh", "-c", "cat; echo nothing came"])).await;
    assert_eq!(input.unwrap(), "nothing came");
}

#[cfg(unix)]
#[tokio::test]
async fn a_command_that_fails_is_named_and_never_quoted() {
    let cases: [(&[&str], &str); 5] = [
        (
            &["sh", "-c", "echo hunter2hunter2; echo hunter2 >&2; exit 3"],
            "the command sh ended with exit status: 3",
        ),
        (
            &["sh", "-c", "echo hunter2hunter2; kill -9 $$"],
            "the command sh ended with signal: 9",
        ),
        (
            &["belljar-not-there", "hunter2"],
            "the command belljar-not-there",
        ),
        (&["./mint", "hunter2"], "a relative path"),
        (&["sh", "-c", "yes hunter2hunter2"], "longer than"),
    ];
    for (argv, expected) in cases {
        let failed = from(command(argv)).await.unwrap_err();
        assert!(failed.contains(expected), "{failed}");
        assert!(!failed.contains("hunter2"), "{failed}");
    }
}

#[cfg(unix)]
#[tokio::test(start_paused = true)]
async fn a_command_that_does_not_end_is_ended() {
    let failed = from(command(&["sleep", "600"])).await.unwrap_err();
    assert_eq!(failed, "the command sleep did not end within 10 s");
}

/// The end of the pipe comes only when nobody holds it any more, and the process in the background does.
#[cfg(unix)]
#[tokio::test]
async fn a_command_that_is_ended_takes_along_what_it_started() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status();
    assert!(made.unwrap().success());
    let script = format!(
        "exec 3> '{}'; sleep 600 & yes too-much-of-it",
        pipe.display()
    );
    let reading = tokio::task::spawn_blocking(move || std::fs::read(pipe));
    let failed = from(command(&["sh", "-c", &script])).await.unwrap_err();
    assert!(failed.contains("longer than"), "{failed}");
    assert_eq!(reading.await.unwrap().unwrap(), b"");
}

#[tokio::test]
async fn the_secret_that_is_missing_is_named() {
    let mut missing = spec("github", "x", &["api.lab.test"], bearer());
    missing.from = SecretSource::Env("BELLJAR_NOT_THERE".to_owned());
    let there = spec("other", TOKEN, &["api.lab.test"], placeholder("T"));
    let error = Vault::open(&profile(vec![there, missing]))
        .await
        .unwrap_err();
    assert_eq!(error.name, "github");
    assert!(
        error
            .to_string()
            .starts_with("the secret github is not available")
    );
}

#[cfg(unix)]
#[tokio::test]
async fn secrets_are_minted_at_the_same_time() {
    // Each waits for the other at the pipe: one after the other, neither would ever end.
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status();
    assert!(made.unwrap().success());
    let pipe = pipe.to_str().unwrap();
    let mut writes = spec("writes", "", &["api.lab.test"], placeholder("A"));
    writes.from = command(&["sh", "-c", "echo met > \"$1\"; echo first-token", "x", pipe]);
    let mut reads = spec("reads", "", &["api.lab.test"], placeholder("B"));
    reads.from = command(&[
        "sh",
        "-c",
        "cat \"$1\" > /dev/null; echo second-token",
        "x",
        pipe,
    ]);
    assert_eq!(vault(vec![writes, reads]).await.env().len(), 2);
}

/// Prints another token at each run, and fails when there is none left.
#[cfg(unix)]
fn minting(tokens: &[&str], ttl: Duration) -> (tempfile::TempDir, SecretSource) {
    let folder = tempfile::tempdir().unwrap();
    for (at, token) in tokens.iter().enumerate() {
        std::fs::write(folder.path().join(at.to_string()), token).unwrap();
    }
    let script = r#"cd "$1"; for f in *; do test -f "$f" || exit 4; cat "$f"; rm "$f"; exit; done"#;
    let folder_name = folder.path().to_str().unwrap();
    let argv = ["sh", "-c", script, "mint", folder_name];
    let source = SecretSource::Command {
        argv: argv.map(str::to_owned).to_vec(),
        ttl,
    };
    (folder, source)
}

#[cfg(unix)]
async fn sent(vault: &Vault) -> Result<String, SecretError> {
    let mut sent = HeaderMap::new();
    let to = endpoint("api.lab.test");
    vault.prepare(&to, Scheme::Https, &mut sent).await?;
    Ok(value(&sent, "authorization").to_owned())
}

#[cfg(unix)]
#[tokio::test]
async fn a_command_is_asked_once_as_long_as_its_secret_is_good() {
    let (_folder, source) = minting(&["first-token"], Duration::from_mins(10));
    let mut one = spec("one", "", &["api.lab.test"], bearer());
    one.from = source;
    let vault = vault(vec![one]).await;
    for _ in 0..3 {
        assert_eq!(sent(&vault).await.unwrap(), "Bearer first-token");
    }
}

#[cfg(unix)]
#[tokio::test]
async fn what_ran_out_is_minted_anew_and_both_are_taken_out_of_answers() {
    let (_folder, source) = minting(&["first-token", "second-token"], Duration::ZERO);
    let mut one = spec("one", "", &["api.lab.test"], bearer());
    one.from = source;
    let vault = vault(vec![one]).await;
    let redactor = vault.redactor().unwrap();
    assert_eq!(sent(&vault).await.unwrap(), "Bearer second-token");
    let mut answer = headers(&[("x-a", "first-token"), ("x-b", "second-token")]);
    redactor.headers(&mut answer);
    assert_eq!(value(&answer, "x-a"), "[belljar: secret removed]");
    assert_eq!(value(&answer, "x-b"), "[belljar: secret removed]");

    // There is no third one, and what ran out is not sent.
    let error = sent(&vault).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "the secret one is not available: the command sh ended with exit status: 4"
    );
}

#[cfg(unix)]
#[tokio::test]
async fn a_command_that_failed_is_left_alone_for_a_while() {
    let (folder, source) = minting(&["first-token"], Duration::ZERO);
    let mut one = spec("one", "", &["api.lab.test"], bearer());
    one.from = source;
    let vault = vault(vec![one]).await;
    sent(&vault).await.unwrap_err();
    std::fs::write(folder.path().join("1"), "second-token").unwrap();
    sent(&vault).await.unwrap_err();
    tokio::time::pause();
    tokio::time::advance(RETRY_PAUSE).await;
    tokio::time::resume();
    assert_eq!(sent(&vault).await.unwrap(), "Bearer second-token");
}
