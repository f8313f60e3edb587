//! Builds the guest for every architecture that a Docker daemon may have, to be embedded by
//! `src/engine/guest_binary.rs`.
//!
//! The guest is a Linux program whatever machine the server is built for or on, so this runs a
//! second cargo with flags of its own, in a target directory of its own (the outer one is locked),
//! and links with the linker that comes with Rust. Nothing but the two targets must be installed.
#![expect(
    clippy::disallowed_methods,
    reason = "cargo speaks to a build script through its environment"
)]

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// One static binary for each.
const TARGETS: [&str; 2] = ["x86_64-unknown-linux-musl", "aarch64-unknown-linux-musl"];

/// What the outer build sets for itself and the inner one must not see: clippy's wrapper would check
/// the guest instead of building it, flags would be for another target, and a profile's overrides
/// would change the guest.
const FOREIGN: [&str; 7] = [
    "CARGO_BUILD_RUSTFLAGS",
    "CARGO_BUILD_TARGET",
    "CARGO_TARGET_DIR",
    "CARGO_BUILD_TARGET_DIR",
    "RUSTC_WORKSPACE_WRAPPER",
    "RUSTFLAGS",
    "RUSTDOCFLAGS",
];

fn main() -> ExitCode {
    for path in ["build.rs", "guest", "wire", "Cargo.lock", "Cargo.toml"] {
        println!("cargo::rerun-if-changed={path}");
    }
    match build() {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            for line in message.lines() {
                println!("cargo::error={line}");
            }
            ExitCode::FAILURE
        }
    }
}

fn build() -> Result<(), String> {
    let root = PathBuf::from(variable("CARGO_MANIFEST_DIR")?);
    let out = PathBuf::from(variable("OUT_DIR")?);
    for target in TARGETS {
        require_installed(target)?;
    }
    let target_dir = shared_directory(&out);
    let mut cargo = Command::new(variable("CARGO")?);
    cargo
        .current_dir(&root)
        .args([
            "build",
            "--package",
            "belljar-guest",
            "--profile",
            "guest",
            "--locked",
        ])
        .arg("--target-dir")
        .arg(&target_dir);
    for target in TARGETS {
        cargo.args(["--target", target]);
    }
    for name in FOREIGN {
        cargo.env_remove(name);
    }
    cargo.env("CARGO_ENCODED_RUSTFLAGS", flags(&root)?);
    let output = cargo
        .output()
        .map_err(|error| format!("start cargo for the guest: {error}"))?;
    if !output.status.success() {
        let log = String::from_utf8_lossy(&output.stderr).into_owned();
        return Err(format!("the guest does not build:\n{log}"));
    }
    for target in TARGETS {
        let built = target_dir.join(target).join("guest").join("belljar-guest");
        let embedded = out.join(format!("belljar-guest-{target}"));
        std::fs::copy(&built, &embedded)
            .map_err(|error| format!("copy {}: {error}", built.display()))?;
    }
    Ok(())
}

/// Where the inner build works: beside the outer one's profiles, so that `check`, `clippy`, `test` and
/// the release, each with an `OUT_DIR` of its own, build the guest once between them.
fn shared_directory(out: &Path) -> PathBuf {
    // `out`, the package's hash, `build`, the profile, and then the target directory.
    out.ancestors().nth(4).unwrap_or(out).join("guest")
}

/// The inner build's compiler flags. Paths of the machine that it is built on have no place in a
/// binary that every sandbox runs, and would change its hash from one checkout to the next.
fn flags(root: &Path) -> Result<OsString, String> {
    let cargo_home = match std::env::var_os("CARGO_HOME") {
        Some(home) => PathBuf::from(home),
        None => std::env::home_dir()
            .ok_or("no home directory")?
            .join(".cargo"),
    };
    let mut flags = OsString::from("-Clinker=rust-lld\x1f-Ctarget-feature=+crt-static");
    for (path, name) in [(root, "/belljar"), (&cargo_home, "/cargo")] {
        flags.push("\x1f--remap-path-prefix=");
        flags.push(path);
        flags.push("=");
        flags.push(name);
    }
    Ok(flags)
}

/// Says what to do about a missing target, instead of hundreds of "can't find crate for `core`".
fn require_installed(target: &str) -> Result<(), String> {
    let output = Command::new(variable("RUSTC")?)
        .args(["--print", "target-libdir", "--target", target])
        .output()
        .map_err(|error| format!("start rustc: {error}"))?;
    let directory = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    if output.status.success() && Path::new(&directory).is_dir() {
        return Ok(());
    }
    Err(format!(
        "the guest needs the target {target}, which is not installed: \
         run `rustup target add {}`",
        TARGETS.join(" ")
    ))
}

fn variable(name: &str) -> Result<OsString, String> {
    std::env::var_os(name).ok_or_else(|| format!("{name} is not set: run by cargo only"))
}
