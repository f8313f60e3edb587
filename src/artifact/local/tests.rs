use std::fs;

use tempfile::TempDir;
use tokio::io::AsyncReadExt as _;

use super::*;

const MOST: u64 = 1000;

fn open(dirs: &[(&Path, Access)]) -> AllowedDirs {
    AllowedDirs::open(
        dirs.iter()
            .map(|(path, access)| (path.to_path_buf(), *access)),
    )
    .unwrap()
}

async fn read(dirs: &AllowedDirs, path: impl AsRef<Path>) -> Result<String, LocalError> {
    let mut local = dirs.open_read(path.as_ref(), MOST).await?;
    let mut text = String::new();
    local.file.read_to_string(&mut text).await.unwrap();
    assert_eq!(local.bytes, text.len() as u64);
    Ok(text)
}

/// A file that holds this text, to be read from its start.
fn content(text: &str) -> std::fs::File {
    use std::io::{Seek as _, Write as _};
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(text.as_bytes()).unwrap();
    file.rewind().unwrap();
    file
}

async fn save(
    dirs: &AllowedDirs,
    path: impl AsRef<Path>,
    overwrite: Overwrite,
    text: &str,
) -> Result<(), LocalError> {
    let mut writer = dirs.save(path.as_ref(), overwrite).await?;
    writer.copy_of(content(text)).await?;
    writer.finish().await
}

fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<_> = fs::read_dir(dir)
        .unwrap()
        .map(|item| item.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

/// A folder with a file, beside a secret that must stay out of reach.
fn folder() -> (TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let open = dir.path().join("open");
    fs::create_dir_all(open.join("sub")).unwrap();
    fs::write(open.join("sub/a.txt"), "inside").unwrap();
    fs::write(dir.path().join("secret"), "secret").unwrap();
    (dir, open)
}

#[tokio::test]
async fn files_beneath_an_opened_folder_are_read_by_absolute_and_relative_path() {
    let (_dir, folder) = folder();
    let dirs = open(&[(&folder, Access::Read)]);
    assert_eq!(
        read(&dirs, folder.join("sub/a.txt")).await.unwrap(),
        "inside"
    );
    assert_eq!(read(&dirs, "sub/a.txt").await.unwrap(), "inside");
    assert_eq!(read(&dirs, "sub/../sub/a.txt").await.unwrap(), "inside");
    assert!(matches!(
        read(&dirs, "sub/b.txt").await,
        Err(LocalError::NotFound { .. })
    ));
    assert!(matches!(
        read(&dirs, "sub").await,
        Err(LocalError::NotRegular { .. })
    ));
    assert!(matches!(
        read(&dirs, &folder).await,
        Err(LocalError::NotRegular { .. })
    ));
}

#[tokio::test]
async fn no_path_leads_out() {
    let (dir, folder) = folder();
    let dirs = open(&[(&folder, Access::ReadWrite)]);
    for path in [
        dir.path().join("secret"),
        folder.join("../secret"),
        folder.join("sub/../../secret"),
        PathBuf::from("../secret"),
        PathBuf::from("/etc/passwd"),
    ] {
        let error = read(&dirs, &path).await.unwrap_err();
        assert!(
            matches!(error, LocalError::NotReadable { .. }),
            "{path:?}: {error:?}"
        );
        assert!(error.to_string().contains("--allow-dir DIR"));
        let error = save(&dirs, &path, Overwrite::Replace, "x")
            .await
            .unwrap_err();
        assert!(
            matches!(error, LocalError::NotWritable { .. }),
            "{path:?}: {error:?}"
        );
    }
    assert_eq!(
        fs::read_to_string(dir.path().join("secret")).unwrap(),
        "secret"
    );
    assert!(matches!(
        read(&open(&[]), "a").await,
        Err(LocalError::NotReadable { .. })
    ));
}

#[cfg(unix)]
#[tokio::test]
async fn links_are_followed_within_the_folder_and_never_out_of_it() {
    use std::os::unix::fs::symlink;
    let (dir, folder) = folder();
    symlink("sub/a.txt", folder.join("within")).unwrap();
    symlink("../secret", folder.join("out")).unwrap();
    symlink(dir.path().join("secret"), folder.join("absolute")).unwrap();
    symlink("..", folder.join("up")).unwrap();
    let dirs = open(&[(&folder, Access::ReadWrite)]);
    assert_eq!(read(&dirs, "within").await.unwrap(), "inside");
    for path in ["out", "absolute", "up/secret"] {
        let error = read(&dirs, path).await.unwrap_err();
        assert!(
            matches!(error, LocalError::NotReadable { .. }),
            "{path}: {error:?}"
        );
        save(&dirs, path, Overwrite::Replace, "x")
            .await
            .unwrap_err();
    }
    // A link is neither followed nor replaced when saving, also one that leads nowhere.
    symlink("nowhere", folder.join("dangling")).unwrap();
    for overwrite in [Overwrite::Refuse, Overwrite::Replace] {
        let error = save(&dirs, "dangling", overwrite, "x").await.unwrap_err();
        assert!(matches!(error, LocalError::NotRegular { .. }), "{error:?}");
    }
    assert_eq!(
        fs::read_to_string(dir.path().join("secret")).unwrap(),
        "secret"
    );
}

#[cfg(unix)]
#[tokio::test]
async fn a_fifo_and_a_device_are_refused_at_once() {
    let (_dir, folder) = folder();
    let made = std::process::Command::new("mkfifo")
        .arg(folder.join("fifo"))
        .status()
        .unwrap();
    assert!(made.success());
    let dirs = open(&[
        (&folder, Access::ReadWrite),
        (Path::new("/dev"), Access::Read),
    ]);
    for path in [folder.join("fifo"), PathBuf::from("/dev/zero")] {
        let error = read(&dirs, &path).await.unwrap_err();
        assert!(
            matches!(error, LocalError::NotRegular { .. }),
            "{path:?}: {error:?}"
        );
    }
    let error = save(&dirs, "fifo", Overwrite::Replace, "x")
        .await
        .unwrap_err();
    assert!(matches!(error, LocalError::NotRegular { .. }), "{error:?}");
}

#[tokio::test]
async fn a_file_over_the_bound_is_refused_with_its_size() {
    let (_dir, folder) = folder();
    fs::write(folder.join("large"), vec![0; 1001]).unwrap();
    let dirs = open(&[(&folder, Access::Read)]);
    let error = read(&dirs, "large").await.unwrap_err();
    assert!(
        matches!(
            error,
            LocalError::TooLarge {
                bytes: 1001,
                most: MOST,
                ..
            }
        ),
        "{error:?}"
    );
}

#[tokio::test]
async fn a_file_is_saved_whole_or_not_at_all() {
    let (_dir, folder) = folder();
    let dirs = open(&[(&folder, Access::ReadWrite)]);
    let mut writer = dirs
        .save(Path::new("sub/new"), Overwrite::Refuse)
        .await
        .unwrap();
    writer.copy_of(content("half")).await.unwrap();
    assert!(!folder.join("sub/new").exists());
    drop(writer);
    assert_eq!(names(&folder.join("sub")), ["a.txt"]);
    save(&dirs, folder.join("sub/new"), Overwrite::Refuse, "whole")
        .await
        .unwrap();
    assert_eq!(names(&folder.join("sub")), ["a.txt", "new"]);
    assert_eq!(fs::read_to_string(folder.join("sub/new")).unwrap(), "whole");
    let error = save(&dirs, "no/such/folder", Overwrite::Refuse, "x")
        .await
        .unwrap_err();
    assert!(matches!(error, LocalError::NotFound { .. }), "{error:?}");
}

#[tokio::test]
async fn a_file_is_overwritten_only_where_that_is_asked_for() {
    let (_dir, folder) = folder();
    let dirs = open(&[(&folder, Access::ReadWrite)]);
    let path = folder.join("sub/a.txt");
    let error = save(&dirs, &path, Overwrite::Refuse, "new")
        .await
        .unwrap_err();
    assert!(matches!(error, LocalError::Exists { .. }), "{error:?}");
    assert_eq!(fs::read_to_string(&path).unwrap(), "inside");
    save(&dirs, &path, Overwrite::Replace, "new").await.unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), "new");
    assert_eq!(names(&folder.join("sub")), ["a.txt"]);
}

#[tokio::test]
async fn who_comes_second_does_not_overwrite() {
    let (_dir, folder) = folder();
    let dirs = open(&[(&folder, Access::ReadWrite)]);
    let mut first = dirs.save(Path::new("x"), Overwrite::Refuse).await.unwrap();
    let mut second = dirs.save(Path::new("x"), Overwrite::Refuse).await.unwrap();
    first.copy_of(content("first")).await.unwrap();
    second.copy_of(content("second")).await.unwrap();
    first.finish().await.unwrap();
    let error = second.finish().await.unwrap_err();
    assert!(matches!(error, LocalError::Exists { .. }), "{error:?}");
    assert_eq!(fs::read_to_string(folder.join("x")).unwrap(), "first");
    assert_eq!(names(&folder), ["sub", "x"]);
}

#[tokio::test]
async fn a_file_on_its_way_is_whole_or_gone_with_a_name_and_without() {
    let begin_beside: fn(Target) -> std::io::Result<LocalWriter> = LocalWriter::begin_beside;
    for begin in [LocalWriter::begin, begin_beside] {
        let (_dir, folder) = folder();
        for (overwrite, saved) in [
            (Overwrite::Refuse, true),
            (Overwrite::Replace, true),
            (Overwrite::Refuse, false),
        ] {
            let target = Target {
                parent: Dir::open_ambient_dir(&folder, ambient_authority()).unwrap(),
                name: "x".into(),
                overwrite,
                shown: "x".to_owned(),
            };
            // Somebody may come first after the first look.
            let mut writer = match begin(target) {
                Ok(writer) => writer,
                Err(error) => panic!("{error}"),
            };
            writer.copy_of(content("whole")).await.unwrap();
            let finished = writer.finish().await;
            assert_eq!(finished.is_ok(), saved, "{finished:?}");
            assert_eq!(names(&folder), ["sub", "x"]);
            assert_eq!(fs::read_to_string(folder.join("x")).unwrap(), "whole");
        }
    }
}

/// The name of a file that is not whole would outlive a server that is killed.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_file_on_its_way_has_no_name() {
    let (_dir, folder) = folder();
    let dirs = open(&[(&folder, Access::ReadWrite)]);
    let mut writer = dirs.save(Path::new("x"), Overwrite::Refuse).await.unwrap();
    writer.copy_of(content("half")).await.unwrap();
    assert_eq!(names(&folder), ["sub"]);
    writer.finish().await.unwrap();
    assert_eq!(names(&folder), ["sub", "x"]);
}

#[test]
fn without_hard_links_the_name_is_claimed_first() {
    let (_dir, folder) = folder();
    let parent = Dir::open_ambient_dir(&folder, ambient_authority()).unwrap();
    let target = Target {
        parent,
        name: "x".into(),
        overwrite: Overwrite::Refuse,
        shown: "x".to_owned(),
    };
    for (text, saved) in [("first", true), ("second", false)] {
        fs::write(folder.join("temp"), text).unwrap();
        assert_eq!(target.claim_and_rename(Path::new("temp")).is_ok(), saved);
        assert_eq!(fs::read_to_string(folder.join("x")).unwrap(), "first");
    }
}

#[tokio::test]
async fn a_folder_for_reading_is_not_written() {
    let (_dir, folder) = folder();
    let sub = folder.join("sub");
    // Within a folder for reading, one for writing is fine.
    let dirs = open(&[(&folder, Access::Read), (&sub, Access::ReadWrite)]);
    let error = save(&dirs, folder.join("x"), Overwrite::Refuse, "x")
        .await
        .unwrap_err();
    assert!(matches!(error, LocalError::NotWritable { .. }), "{error:?}");
    assert!(error.to_string().contains("--allow-dir-rw DIR"));
    save(&dirs, sub.join("x"), Overwrite::Refuse, "x")
        .await
        .unwrap();
    for out in ["../y", "a/../../y"] {
        assert!(
            save(&dirs, sub.join(out), Overwrite::Refuse, "y")
                .await
                .is_err()
        );
        assert!(save(&dirs, out, Overwrite::Refuse, "y").await.is_err());
    }
    // A relative path goes to the first writable folder.
    save(&dirs, "z", Overwrite::Refuse, "z").await.unwrap();
    assert!(sub.join("z").exists());
}

#[cfg(unix)]
#[test]
fn a_folder_for_reading_within_one_for_writing_shows_at_the_start() {
    let (_dir, folder) = folder();
    let sub = folder.join("sub");
    let link = folder.join("link");
    std::os::unix::fs::symlink(&sub, &link).unwrap();
    for inner in [&folder, &sub, &link] {
        let dirs = [
            (folder.clone(), Access::ReadWrite),
            (inner.clone(), Access::Read),
        ];
        let error = AllowedDirs::open(dirs).unwrap_err();
        assert!(matches!(error, LocalError::Nested { .. }), "{error:?}");
    }
}

#[test]
fn a_missing_folder_shows_at_the_start() {
    let error = AllowedDirs::open([(PathBuf::from("/no/such\nfolder"), Access::Read)]).unwrap_err();
    assert!(
        error
            .to_string()
            .starts_with("the folder /no/such\\nfolder"),
        "{error}"
    );
}
