//! Escapes and evasions: programs that run inside, one file each, below a folder for each topic.
//!
//! The head of each file says what it tries, whose idea that is, and what plain Docker, a sandbox under runc and one under
//! gVisor must come to; `agent.py` beside the tests says what it may call. `build.rs` gathers them: a file here is a
//! test, and one whose head cannot be read does not build. Nothing here runs anything.

mod head;

pub use head::{Docker, Expected, Host, Probe, Programs};

/// The path of each file, `topic/name`, and its text.
const FILES: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/files.rs"));

/// Every probe, by topic and name.
///
/// # Panics
/// Never: the build has read the same files.
#[must_use]
#[expect(clippy::expect_used, reason = "the build has read the same files")]
pub fn all() -> Vec<Probe> {
    FILES
        .iter()
        .map(|(path, text)| Probe::parse(path, text).expect("the build has read the same file"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str =
        "# Tries: a\n# Idea: b\n# Docker: breached\n# runc: held EPERM\n# gVisor: breached, c\n";

    #[test]
    fn a_head_and_its_programs_are_read() {
        let probe =
            Probe::parse("a/b", &format!("{HEAD}1\n#--- then, as another run\n2\n")).unwrap();
        assert_eq!(probe.path(), "a/b");
        assert_eq!(probe.docker, Docker::Breached);
        assert_eq!(probe.runc, Expected::Held(Some("EPERM".into())));
        assert_eq!(probe.gvisor, Expected::Breached("c".into()));
        assert!(matches!(probe.programs, Programs::Steps(steps) if steps == ["1\n", "2\n"]));
        let pair = format!("{HEAD}1\n#--- meanwhile, in another container and on the host\n2\n");
        let probe = Probe::parse("a/b", &pair).unwrap();
        assert!(matches!(
            probe.programs,
            Programs::Pair {
                host: Host::Too,
                ..
            }
        ));
    }

    #[test]
    fn a_head_that_says_too_little_does_not_build() {
        for (line, broken) in [
            ("# Tries: a\n", ""),
            ("# Idea: b\n", "# Idea: \n"),
            ("Docker: breached", "Docker: broken"),
            ("runc: held EPERM", "runc: holds"),
            ("gVisor: breached, c", "gVisor: breached"),
        ] {
            let text = format!("{HEAD}1\n").replace(line, broken);
            assert!(Probe::parse("a/b", &text).is_err(), "{text}");
        }
        assert!(Probe::parse("a/b", HEAD).is_err(), "no program");
        assert!(Probe::parse("a/b", &format!("{HEAD}1\n#--- else\n2\n")).is_err());
    }
}
