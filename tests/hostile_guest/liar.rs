//! The liar's program: built for the daemon, and put into a volume like the guest's.

use std::{
    io::Write as _,
    path::Path,
    process::{Command, Stdio},
    sync::LazyLock,
};

/// Built once for all tests of this program.
static PROGRAM: LazyLock<Vec<u8>> = LazyLock::new(build);

/// What `docker` answers.
pub(crate) fn docker(args: &[&str]) -> Result<String, String> {
    let output = Command::new("docker")
        .args(args)
        .output()
        .expect("the docker command");
    let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    if output.status.success() {
        return Ok(text);
    }
    Err(String::from_utf8_lossy(&output.stderr).into_owned())
}

/// The daemon's architecture, as the compiler calls it.
pub(crate) fn architecture() -> &'static str {
    match docker(&["version", "--format", "{{.Server.Arch}}"])
        .unwrap()
        .as_str()
    {
        "amd64" => "x86_64",
        "arm64" => "aarch64",
        other => panic!("there is no guest for {other}"),
    }
}

/// Like `build.rs` builds the guest, and into the same directory: most of it is built already.
fn build() -> Vec<u8> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let target = format!("{}-unknown-linux-musl", architecture());
    let built = Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("guest");
    let mut cargo = Command::new(env!("CARGO"));
    #[expect(
        clippy::disallowed_methods,
        reason = "names of the build's own, to be taken away again"
    )]
    let inherited = std::env::vars_os();
    for (name, _) in inherited {
        // What the outer build and its runner set for themselves.
        if name.to_string_lossy().starts_with("CARGO_") && name != "CARGO_HOME"
            || name == "RUSTFLAGS"
        {
            cargo.env_remove(name);
        }
    }
    let output = cargo
        .current_dir(root)
        .args([
            "build",
            "--locked",
            "--profile",
            "guest",
            "--package",
            "belljar-test-liar",
        ])
        .args(["--bin", "belljar-test-liar", "--target", &target])
        .arg("--target-dir")
        .arg(&built)
        .env(
            "CARGO_ENCODED_RUSTFLAGS",
            "-Clinker=rust-lld\x1f-Ctarget-feature=+crt-static",
        )
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    std::fs::read(built.join(target).join("guest/belljar-test-liar")).unwrap()
}

/// Makes the volume `name` with the liar in it, as the server makes the guest's.
pub(crate) fn seed(name: &str) {
    let mut tar = tar::Builder::new(Vec::new());
    for (path, kind, mode, content) in [
        (".belljar/", tar::EntryType::Directory, 0o711, &[][..]),
        (".belljar/init", tar::EntryType::Regular, 0o111, &PROGRAM),
    ] {
        let mut header = tar::Header::new_ustar();
        header.set_entry_type(kind);
        header.set_mode(mode);
        header.set_size(content.len() as u64);
        tar.append_data(&mut header, path, content).unwrap();
    }
    let image = format!("belljar-test/{name}:liar").to_lowercase();
    let mut import = Command::new("docker")
        .args(["import", "-", &image])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let mut input = import.stdin.take().unwrap();
    input.write_all(&tar.into_inner().unwrap()).unwrap();
    drop(input);
    assert!(import.wait().unwrap().success());
    docker(&[
        "volume",
        "create",
        "--label",
        "belljar.role=guest-volume",
        name,
    ])
    .unwrap();
    // Making it copies the image's directory into the volume.
    let mount = format!("{name}:/.belljar");
    let made = docker(&["create", "-v", &mount, &image, "/.belljar/init"]).unwrap();
    docker(&["rm", &made]).unwrap();
    docker(&["rmi", &image]).unwrap();
}
