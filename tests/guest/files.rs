//! Files: what a run left, and what is written, read and listed from outside.

use belljar::engine::tether::TetherError;
use belljar::engine::tether::message::{
    EntryKind, ExitStatus, GuestError, Hidden, InlineFile, RunSpec,
};

use crate::harness::{Sandbox, guest_error, hear, spec};

#[tokio::test]
async fn only_new_and_changed_regular_files_are_reported() {
    let sandbox = Sandbox::start().await;
    let first = "mkdir -p d node_modules; echo 1 > d/new; echo 1 > node_modules/x; echo 1 > .hidden
                 ln -s /etc/passwd link; mkfifo fifo; echo changed >> edited
                 printf x > $'odd\\n\\xff'";
    let input = |path: &str| InlineFile {
        path: path.into(),
        bytes: b"input".to_vec(),
    };
    let spec_with_inputs = RunSpec {
        files: vec![input("kept"), input("in/kept"), input("edited")],
        ..spec(first)
    };
    let said = hear(&mut sandbox.begin(spec_with_inputs).await)
        .await
        .unwrap();
    assert_eq!(said.files, ["d/new", "edited", "odd\n\u{fffd}"], "{said:?}");

    let said = sandbox.run("echo x > shut; chmod 0 .").await;
    assert_eq!(said.files, ["shut"], "what is shut away is still reported");
    let said = sandbox.run("echo x > one; ln one two").await;
    assert_eq!(said.files, ["one", "two"], "a file of two names has both");

    let said = sandbox
        .run("for n in $(seq 20); do echo $n > many$n; done; touch kept")
        .await;
    assert_eq!((said.files.len(), said.exit().files_omitted), (16, 5));
}

#[tokio::test]
async fn files_are_written_whole_or_not_at_all() {
    let sandbox = Sandbox::start().await;
    let write = |path: &'static str, bytes: &'static [u8]| {
        sandbox
            .tether
            .write(path.as_bytes(), bytes.len() as u64, bytes)
    };
    write("a/b/c", b"content").await.unwrap();
    assert_eq!(sandbox.read("a/b/c").await.unwrap(), b"content");
    write("a/b/c", b"again").await.unwrap();
    assert_eq!(sandbox.read("a/b/c").await.unwrap(), b"again");
    assert_eq!(sandbox.run("stat -c %a a a/b/c").await.out(), "755\n644\n");

    let full = sandbox
        .tether
        .write(b"deep/er/big", 64 << 20, tokio::io::repeat(7))
        .await;
    assert_eq!(guest_error(full.unwrap_err()), GuestError::NoSpace);
    let short = sandbox.tether.write(b"a/new/short", 10, &b"abc"[..]).await;
    assert!(matches!(short, Err(TetherError::Source(_))));
    // The guest may learn of the end of the stream after this request; it runs nothing until then.
    let listing = loop {
        let listing = sandbox.tether.list(b"", 100, Hidden::List).await.unwrap();
        if !listing
            .entries
            .iter()
            .any(|entry| entry.path.ends_with(b".part") || entry.path == b"a/new")
        {
            break listing;
        }
    };
    let names: Vec<_> = listing
        .entries
        .iter()
        .map(|entry| entry.path.as_slice())
        .collect();
    assert_eq!(names, [&b".home"[..], b"a", b"a/b", b"a/b/c"]);

    assert_eq!(
        guest_error(write("a", b"x").await.unwrap_err()),
        GuestError::Exists
    );
    assert_eq!(
        guest_error(write("a/b/c/d", b"x").await.unwrap_err()),
        GuestError::NotDirectory
    );
    for path in ["../x", "/etc/x", "a/../../x", "", "a//b", "."] {
        let error = guest_error(write(path, b"x").await.unwrap_err());
        assert_eq!(error, GuestError::OutsideWorkspace, "{path:?}");
    }
}

#[tokio::test]
async fn links_and_special_files_lead_nowhere() {
    let sandbox = Sandbox::start().await;
    let script = "ln -s /etc/passwd link; ln -s / root; mkfifo fifo; mkdir dir; ln -s . self
                  ln -s /dev/zero zero; echo secret > locked; chmod 0 locked";
    sandbox.run(script).await;
    for path in ["link", "fifo", "dir", "zero"] {
        assert_eq!(
            sandbox.refused(path).await,
            GuestError::NotRegular,
            "{path}"
        );
    }
    assert_eq!(
        sandbox.refused("root/etc/passwd").await,
        GuestError::NotDirectory
    );
    assert_eq!(sandbox.refused("self/dir").await, GuestError::NotDirectory);
    assert_eq!(sandbox.refused("locked").await, GuestError::Denied);
    let through = sandbox.tether.write(b"root/tmp/x", 1, &b"x"[..]).await;
    assert_eq!(guest_error(through.unwrap_err()), GuestError::NotDirectory);
    // Writing to the name of a link replaces the link, not what it points to.
    sandbox.tether.write(b"link", 1, &b"x"[..]).await.unwrap();
    assert_eq!(sandbox.read("link").await.unwrap(), b"x");
    let listing = sandbox.tether.list(b"", 100, Hidden::Skip).await.unwrap();
    let kind = |name: &[u8]| {
        listing
            .entries
            .iter()
            .find(|entry| entry.path == name)
            .map(|entry| entry.kind)
    };
    assert_eq!(kind(b"root"), Some(EntryKind::Link));
    assert_eq!(kind(b"fifo"), Some(EntryKind::Other));
    assert_eq!(kind(b"dir"), Some(EntryKind::Dir));
}

#[tokio::test]
async fn a_deep_or_wide_tree_is_left_out_and_counted() {
    let sandbox = Sandbox::start().await;
    let script = "for n in $(seq 100); do mkdir d && cd d && echo x > f || exit 1; done";
    let said = sandbox.run(script).await;
    assert_eq!(said.exit().status, ExitStatus::Code(0), "{said:?}");
    assert_eq!(said.files.len(), 16);
    assert!(said.exit().files_omitted >= 40, "{said:?}");
    let listing = sandbox.tether.list(b"", 1000, Hidden::Skip).await.unwrap();
    assert!(listing.omitted >= 1);
}
