//! What people read of the program itself on a bad day: what happened, why, what to do. No daemon is needed.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use std::{
    fs,
    net::TcpListener,
    path::Path,
    process::{Command, Output, Stdio},
};

use tempfile::TempDir;

/// What `belljar run` ends with where belljar failed and no program did.
const FAILED: Option<i32> = Some(125);

/// A state directory that belongs to the test.
fn state() -> TempDir {
    tempfile::tempdir().unwrap()
}

/// The program, with a state directory, the closed defaults, and no daemon anywhere.
fn belljar(state: &Path) -> Command {
    let config = state.join("belljar.toml");
    if !config.exists() {
        fs::write(&config, "").unwrap();
    }
    let mut command = Command::new(env!("CARGO_BIN_EXE_belljar"));
    command
        .env("BELLJAR_STATE_DIR", state)
        .env("BELLJAR_CONFIG", config)
        .env("DOCKER_HOST", "unix:///nowhere/docker.sock")
        .env_remove("BELLJAR_LOG")
        .stdin(Stdio::null());
    command
}

fn told(command: &mut Command) -> (Output, String, String) {
    let output = command.output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    (output, out, err)
}

/// A program in a file.
fn program(state: &Path) -> String {
    let path = state.join("program.py");
    fs::write(&path, "print(1)").unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn what_keeps_a_program_from_running_is_never_taken_for_its_own_status() {
    let state = state();
    let program = program(state.path());
    for (arguments, words) in [
        (
            ["run", "python", "/nowhere.py"],
            "cannot read the program /nowhere.py",
        ),
        (["run", "perl", program.as_str()], "there is no language"),
        (
            ["run", "python", program.as_str()],
            "no Docker daemon answers",
        ),
    ] {
        let (output, _, err) = told(belljar(state.path()).args(arguments));
        assert_eq!(output.status.code(), FAILED, "{err}");
        assert!(err.contains(words), "{err}");
        assert_eq!(err.matches(words).count(), 1, "said twice: {err}");
    }
    fs::write(state.path().join("belljar.toml"), "[limits]\nmemory = 1\n").unwrap();
    let (output, _, err) = told(belljar(state.path()).args(["run", "python", &program]));
    assert_eq!(output.status.code(), FAILED, "{err}");
    assert!(err.contains("there is no key `memory` here"), "{err}");
}

#[test]
fn a_limit_out_of_its_range_is_told_by_its_flag() {
    let state = state();
    let program = program(state.path());
    for (flag, value) in [
        ("--timeout", "9999"),
        ("--timeout", "-1"),
        ("--memory", "1"),
    ] {
        let (output, _, err) =
            told(belljar(state.path()).args(["run", flag, value, "python", &program]));
        assert_eq!(output.status.code(), FAILED, "{err}");
        assert!(
            err.contains(&format!("belljar: {flag} must lie between")),
            "{err}"
        );
    }
}

#[test]
fn a_state_directory_that_cannot_be_used_is_named_with_what_to_do() {
    let state = state();
    // Nobody can make a folder where a file is, not even root.
    fs::write(state.path().join("artifacts"), "").unwrap();
    let (output, _, err) = told(belljar(state.path()).arg("serve"));
    assert_eq!(output.status.code(), Some(1), "{err}");
    let named = format!(
        "the state directory {} cannot be used",
        state.path().display()
    );
    assert!(
        err.contains(&named) && err.contains("BELLJAR_STATE_DIR"),
        "{err}"
    );
}

#[test]
fn the_doctor_tells_of_a_state_directory_that_cannot_be_written_to() {
    let state = state();
    fs::write(state.path().join("instances"), "").unwrap();
    let (output, out, _) = told(belljar(state.path()).arg("doctor"));
    assert_eq!(output.status.code(), Some(1), "{out}");
    let failure = out.lines().find(|line| line.starts_with("FAILURE"));
    let failure = failure.unwrap_or_else(|| panic!("no failure: {out}"));
    assert!(
        failure.contains("disk") && failure.contains("BELLJAR_STATE_DIR"),
        "{out}"
    );
}

#[test]
fn the_doctor_says_what_to_do_about_a_missing_daemon_and_sends_nobody_to_the_doctor() {
    let state = state();
    let (output, out, _) = told(belljar(state.path()).arg("doctor"));
    assert_eq!(output.status.code(), Some(1), "{out}");
    assert!(out.contains("no Docker daemon answers at"), "{out}");
    assert!(out.contains("start Docker"), "{out}");
    assert_eq!(out.matches("`belljar doctor`").count(), 1, "{out}");
}

#[test]
fn where_there_is_no_log_nothing_passes_for_a_sound_one() {
    let state = state();
    for command in ["tail", "verify"] {
        let (output, out, _) = told(belljar(state.path()).args(["audit", command]));
        assert!(output.status.success(), "{out}");
        assert!(out.starts_with("no event in "), "{out}");
    }
    let (_, out, _) = told(belljar(state.path()).args(["audit", "tail", "--json"]));
    assert_eq!(out, "", "for programs, each line is an event");
}

#[test]
fn a_port_that_is_taken_is_named() {
    let (state, taken) = (state(), TcpListener::bind("127.0.0.1:0").unwrap());
    let addr = taken.local_addr().unwrap().to_string();
    let (output, _, err) = told(belljar(state.path()).args(["serve", "--http", &addr]));
    assert_eq!(output.status.code(), Some(1), "{err}");
    assert!(err.contains(&format!("cannot listen at {addr}")), "{err}");
}

#[test]
fn help_is_a_command_too() {
    let state = state();
    let (output, out, err) = told(belljar(state.path()).args(["help", "run"]));
    assert!(output.status.success(), "{err}");
    assert!(out.contains("--timeout"), "{out}");
}
