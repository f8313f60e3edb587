//! Hands a fuzzer's bytes to one of belljar's targets: the one that the variable `FUZZ_TARGET` names.
#![no_main]

use std::sync::OnceLock;

use belljar::fuzzing::{TARGETS, Target, target};
use libfuzzer_sys::fuzz_target;

static CHOSEN: OnceLock<Target> = OnceLock::new();

/// The target to fuzz; ends the program where there is none of that name, so that a slip does not look like a success.
fn choose() -> Target {
    let name = std::env::var("FUZZ_TARGET").unwrap_or_default();
    target(&name).unwrap_or_else(|| {
        let known = TARGETS.map(|(known, _)| known).join(" ");
        eprintln!("FUZZ_TARGET is {name:?}; it must be one of: {known}");
        std::process::exit(2);
    })
}

fuzz_target!(init: { CHOSEN.get_or_init(choose); }, |bytes: &[u8]| CHOSEN.get_or_init(choose)(bytes));
