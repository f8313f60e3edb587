//! How many processes the kernel has killed in this container for want of memory.
//!
//! The counter is the container's own, in its own cgroup; a run's share is the difference. Where
//! there is none (gVisor) the count is 0.

use std::io::Read as _;

/// cgroup v2, then v1.
const COUNTERS: [&str; 2] = [
    "/sys/fs/cgroup/memory.events",
    "/sys/fs/cgroup/memory/memory.oom_control",
];
/// These files have a few lines; stops a file system that pretends to more.
const MAX_BYTES: u64 = 4096;

/// The counter's value now.
pub(crate) fn kills() -> u64 {
    COUNTERS.iter().find_map(|path| read(path)).unwrap_or(0)
}

fn read(path: &str) -> Option<u64> {
    let mut text = String::new();
    std::fs::File::open(path)
        .ok()?
        .take(MAX_BYTES)
        .read_to_string(&mut text)
        .ok()?;
    parse(&text)
}

fn parse(text: &str) -> Option<u64> {
    text.lines()
        .find_map(|line| line.strip_prefix("oom_kill ")?.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn both_versions_of_the_file_are_read() {
        let v2 = "low 0\nhigh 0\nmax 12\noom 4\noom_kill 3\noom_group_kill 9\n";
        let v1 = "oom_kill_disable 0\nunder_oom 0\noom_kill 7\n";
        assert_eq!(parse(v2), Some(3));
        assert_eq!(parse(v1), Some(7));
        assert_eq!(parse("oom_kill_disable 0\n"), None);
        assert_eq!(parse(""), None);
    }
}
