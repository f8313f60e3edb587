//! The home directory: made at the start, seeded from the image's skeleton.
//!
//! Nothing here may keep the guest from starting, and an image cannot use the skeleton to fill the
//! workspace.

use std::fs;
use std::path::Path;

/// `HOME` of every program.
const HOME: &str = "/workspace/.home";
/// What an image may put into it.
const SKELETON: &str = "/usr/share/belljar/skel";
/// Files copied at most, and bytes in all: an image is hostile configuration.
const MAX_FILES: usize = 64;
const MAX_BYTES: u64 = 2 * 1024 * 1024;
/// Nesting of directories below the skeleton.
const MAX_NESTING: usize = 8;

/// Makes the home directory.
pub(crate) fn prepare() {
    let _ = fs::create_dir(HOME);
    let mut budget = Budget {
        files: MAX_FILES,
        bytes: MAX_BYTES,
    };
    copy(
        Path::new(SKELETON),
        Path::new(HOME),
        MAX_NESTING,
        &mut budget,
    );
}

struct Budget {
    files: usize,
    bytes: u64,
}

fn copy(from: &Path, to: &Path, nesting: usize, budget: &mut Budget) {
    let Ok(entries) = fs::read_dir(from) else {
        return;
    };
    for entry in entries.flatten() {
        // Of the entry itself: links are not followed, and devices and FIFOs not opened.
        let Ok(metadata) = entry.metadata() else {
            continue;
        };
        let target = to.join(entry.file_name());
        if budget.files == 0 {
            return;
        }
        budget.files -= 1;
        if metadata.is_dir() && nesting > 0 {
            if fs::create_dir(&target).is_ok() {
                copy(&entry.path(), &target, nesting - 1, budget);
            }
        } else if metadata.is_file() && metadata.len() <= budget.bytes {
            budget.bytes -= metadata.len();
            let _ = fs::copy(entry.path(), target);
        }
    }
}
