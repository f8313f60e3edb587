//! The program that runs as PID 1: its hostname, `lie-` and three digits, says which lie it tells.

use belljar_test_liar::{lies::LIES, voice::Voice};

fn main() {
    // Without a hostname of that form it only shows that it runs, as the guest does where nobody greets it.
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let number = name
        .trim()
        .strip_prefix("lie-")
        .and_then(|n| n.parse().ok());
    if let Some(lie) = number.and_then(|number: usize| LIES.get(number)) {
        Voice::new(lie).serve();
    }
}
