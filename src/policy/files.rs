//! The rules for files that a caller brings: where they may go and how large they may be.

use std::collections::BTreeSet;

use base64::{Engine as _, prelude::BASE64_STANDARD};

use super::{Content, Denial, FileAsk, FileSource, InputFile, Quoted, Upload};
use crate::types::{FileId, MIB, WorkspacePath};

/// The most files of one run: each costs the guest a walk and an open.
pub const MAX_FILES: usize = 256;
/// The most bytes given inline in one call, decoded. Stops calls from filling the server's memory; what is larger comes
/// as an upload from a local file.
#[expect(clippy::cast_possible_truncation, reason = "ten mebibytes")]
pub const MAX_INLINE_BYTES: usize = 10 * MIB as usize;
/// The folder of the sandbox user's home: files may go beneath it, but it must stay a folder.
const HOME: &[u8] = b".home";

/// The inputs of a run whose program's own file is `program`, in a workspace of `workspace_mib`.
pub(super) fn inputs(
    asked: Vec<FileAsk>,
    program: &WorkspacePath,
    workspace_mib: u32,
) -> Result<Vec<InputFile>, Denial> {
    if asked.len() > MAX_FILES {
        return Err(Denial::TooManyFiles { count: asked.len() });
    }
    let mut seen: BTreeSet<WorkspacePath> = BTreeSet::new();
    let mut files = Vec::with_capacity(asked.len());
    let mut inline = 0;
    for file in asked {
        let path = target(&file.path, [program.as_bytes()])?;
        if !seen.insert(path.clone()) {
            return Err(Denial::DuplicatePath { path: shown(&path) });
        }
        let content = match file.source {
            FileSource::Upload(id) => {
                Content::Upload(FileId::parse(&id).map_err(|_| Denial::FileId {
                    asked: Quoted::new(&id),
                    path: shown(&path),
                })?)
            }
            FileSource::Text(text) => Content::Inline(text.into_bytes()),
            FileSource::Base64(text) => Content::Inline(decoded(&path, &text)?),
        };
        if let Content::Inline(bytes) = &content {
            inline += bytes.len();
            check_size(inline, workspace_mib)?;
        }
        files.push(InputFile { path, content });
    }
    if let Some((path, parent)) = beneath_another(&seen) {
        return Err(Denial::PathUnderFile {
            path: shown(path),
            parent: shown(parent),
        });
    }
    Ok(files)
}

/// The content of a file to keep at `path`, or to write into a session whose workspace is of `workspace_mib`.
pub(super) fn upload(
    path: WorkspacePath,
    source: FileSource,
    workspace_mib: u32,
) -> Result<Upload, Denial> {
    let bytes = match source {
        FileSource::Upload(_) => return Err(Denial::UploadOfUpload),
        FileSource::Text(text) => text.into_bytes(),
        FileSource::Base64(text) => decoded(&path, &text)?,
    };
    check_size(bytes.len(), workspace_mib)?;
    Ok(Upload { path, bytes })
}

/// A path in the workspace where a caller may write: none of the programs' own files.
pub(super) fn target<'a>(
    asked: &str,
    programs: impl IntoIterator<Item = &'a [u8]>,
) -> Result<WorkspacePath, Denial> {
    let path = parse_path(asked)?;
    let mut programs = programs.into_iter();
    if path.as_bytes() == HOME || programs.any(|program| is_or_is_beneath(&path, program)) {
        return Err(Denial::ReservedPath { path: shown(&path) });
    }
    Ok(path)
}

/// A path in the workspace.
pub(super) fn parse_path(asked: &str) -> Result<WorkspacePath, Denial> {
    WorkspacePath::parse(asked).map_err(|error| Denial::Path {
        asked: Quoted::new(asked),
        error,
    })
}

fn check_size(bytes: usize, workspace_mib: u32) -> Result<(), Denial> {
    if bytes > MAX_INLINE_BYTES {
        return Err(Denial::InlineTooLarge { bytes });
    }
    if bytes as u64 > u64::from(workspace_mib) * MIB {
        return Err(Denial::WorkspaceTooSmall {
            bytes,
            mib: workspace_mib,
        });
    }
    Ok(())
}

fn decoded(path: &WorkspacePath, text: &str) -> Result<Vec<u8>, Denial> {
    BASE64_STANDARD
        .decode(text)
        .map_err(|_| Denial::Base64 { path: shown(path) })
}

/// A path that was parsed is quoted from its bytes, which are what will be written.
fn shown(path: &WorkspacePath) -> Quoted {
    Quoted::of_bytes(path.as_bytes())
}

fn is_or_is_beneath(path: &WorkspacePath, parent: &[u8]) -> bool {
    path.as_bytes()
        .strip_prefix(parent)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/"))
}

/// A path that has another one as its parent, and that parent. Looked up folder by folder: with every path's
/// depth bounded, a long list costs no more than its length.
fn beneath_another(paths: &BTreeSet<WorkspacePath>) -> Option<(&WorkspacePath, &WorkspacePath)> {
    paths.iter().find_map(|path| {
        let bytes = path.as_bytes();
        let folders = (0..bytes.len()).filter(|&at| bytes[at] == b'/');
        folders
            .filter_map(|at| WorkspacePath::from_bytes(bytes[..at].to_vec()).ok())
            .find_map(|folder| paths.get(&folder))
            .map(|parent| (path, parent))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program() -> WorkspacePath {
        WorkspacePath::parse(".main.py").unwrap()
    }

    fn text(path: &str, content: &str) -> FileAsk {
        FileAsk {
            path: path.to_owned(),
            source: FileSource::Text(content.to_owned()),
        }
    }

    fn reason<T>(result: Result<T, Denial>) -> &'static str {
        result.err().map_or("allowed", |denial| denial.reason())
    }

    #[test]
    fn paths_are_distinct_and_no_file_is_a_folder() {
        for (paths, expected) in [
            (vec!["a", "b", "in/a", "in/b"], "allowed"),
            (vec![".home/.config/x"], "allowed"),
            (vec![".main.pyx"], "allowed"),
            (vec!["a", "a"], "duplicate_path"),
            (vec!["a", "\\x61"], "duplicate_path"),
            (vec!["a/b", "a"], "path_under_file"),
            (vec!["a", "a.b", "a/b/c"], "path_under_file"),
            (vec!["../x"], "path"),
            (vec!["/etc/passwd"], "path"),
            (vec![""], "path"),
            (vec!["."], "path"),
            (vec!["x\0y"], "path"),
            (vec![".main.py"], "reserved_path"),
            (vec![".main.py/x"], "reserved_path"),
            (vec![".home"], "reserved_path"),
        ] {
            let files = paths.iter().map(|path| text(path, "")).collect();
            assert_eq!(reason(inputs(files, &program(), 1)), expected, "{paths:?}");
        }
    }

    #[test]
    fn a_long_list_is_refused_before_it_is_read() {
        let many = |count: usize| (0..count).map(|at| text(&format!("f{at}"), "")).collect();
        assert_eq!(reason(inputs(many(MAX_FILES), &program(), 1)), "allowed");
        assert_eq!(
            reason(inputs(many(MAX_FILES + 1), &program(), 1)),
            "too_many_files"
        );
        assert_eq!(
            reason(inputs(many(100_000), &program(), 1)),
            "too_many_files"
        );
    }

    #[test]
    fn sizes_count_together() {
        let mib = "x".repeat(1024 * 1024);
        let files = |count: usize| (0..count).map(|at| text(&at.to_string(), &mib)).collect();
        assert_eq!(reason(inputs(files(10), &program(), 256)), "allowed");
        assert_eq!(
            reason(inputs(files(11), &program(), 256)),
            "inline_too_large"
        );
        assert_eq!(
            reason(inputs(files(2), &program(), 1)),
            "workspace_too_small"
        );
    }

    #[test]
    fn base64_and_ids_are_parsed_here() {
        let file = |source| {
            vec![FileAsk {
                path: "f".to_owned(),
                source,
            }]
        };
        let parse = |source| inputs(file(source), &program(), 1);
        let files = parse(FileSource::Base64("AP8=".to_owned())).unwrap();
        assert_eq!(files[0].content, Content::Inline(vec![0, 0xff]));
        for bad in ["AP8", "A-_=", "AP8=\n", "*", "A"] {
            let bad = parse(FileSource::Base64(bad.to_owned()));
            assert_eq!(reason(bad), "base64");
        }
        let id = FileId::random();
        let files = parse(FileSource::Upload(id.to_string())).unwrap();
        assert_eq!(files[0].content, Content::Upload(id));
        assert_eq!(
            reason(parse(FileSource::Upload("../x".to_owned()))),
            "file_id"
        );
    }

    #[test]
    fn an_upload_is_one_file_within_bounds() {
        let upload = |source, mib| upload(parse_path("in/my däta.bin").unwrap(), source, mib);
        let text = |bytes: usize| FileSource::Text("x".repeat(bytes));
        let done = upload(text(3), 1).unwrap();
        assert_eq!(done.path.as_bytes(), "in/my däta.bin".as_bytes());
        assert_eq!(done.bytes, b"xxx");
        assert_eq!(
            reason(upload(text(MAX_INLINE_BYTES + 1), 2048)),
            "inline_too_large"
        );
        assert_eq!(
            reason(upload(text(1024 * 1024 + 1), 1)),
            "workspace_too_small"
        );
        assert_eq!(
            reason(upload(FileSource::Upload(String::new()), 1)),
            "upload_of_upload"
        );
        assert_eq!(
            reason(upload(FileSource::Base64("?".to_owned()), 1)),
            "base64"
        );
    }
}
