//! Names of the signals of Linux, which is what runs inside whatever the server itself runs on.

/// The name of a signal by its number; numbers without a name are shown as `SIG<number>`.
#[must_use]
pub fn name(number: i32) -> String {
    // signal(7), the numbers of x86 and ARM.
    const NAMES: [&str; 31] = [
        "SIGHUP",
        "SIGINT",
        "SIGQUIT",
        "SIGILL",
        "SIGTRAP",
        "SIGABRT",
        "SIGBUS",
        "SIGFPE",
        "SIGKILL",
        "SIGUSR1",
        "SIGSEGV",
        "SIGUSR2",
        "SIGPIPE",
        "SIGALRM",
        "SIGTERM",
        "SIGSTKFLT",
        "SIGCHLD",
        "SIGCONT",
        "SIGSTOP",
        "SIGTSTP",
        "SIGTTIN",
        "SIGTTOU",
        "SIGURG",
        "SIGXCPU",
        "SIGXFSZ",
        "SIGVTALRM",
        "SIGPROF",
        "SIGWINCH",
        "SIGIO",
        "SIGPWR",
        "SIGSYS",
    ];
    usize::try_from(number)
        .ok()
        .and_then(|number| number.checked_sub(1))
        .and_then(|index| NAMES.get(index))
        .map_or_else(|| format!("SIG{number}"), |name| (*name).to_owned())
}

#[cfg(test)]
mod tests {
    use super::name;

    #[test]
    fn known_and_unknown_numbers_have_names() {
        assert_eq!(
            (name(11), name(9), name(31)),
            ("SIGSEGV".into(), "SIGKILL".into(), "SIGSYS".into())
        );
        assert_eq!(
            (name(34), name(0), name(-1)),
            ("SIG34".into(), "SIG0".into(), "SIG-1".into())
        );
    }
}
