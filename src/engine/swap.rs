//! Whether the daemon's host has swap: a limit on swap matters only where there is some.

use super::daemon::{Info, Locality, Place};

/// The swap of the daemon's host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Swap {
    /// There is none, read from this machine, whose kernel the daemon shares.
    None,
    /// There is some.
    Some,
    /// The daemon runs on another kernel, or nothing could be read: taken for some.
    Unknown,
}

impl Swap {
    /// Reads this machine's memory information, if it is the daemon's: a local socket, and the same kernel
    /// behind it (Docker Desktop and Colima have a virtual machine's).
    pub(super) fn of(place: &Place, info: &Info) -> Self {
        match place.locality {
            Locality::Network => Self::Unknown,
            Locality::LocalSocket => {
                let read = |path| std::fs::read_to_string(path).ok();
                match read("/proc/sys/kernel/osrelease") {
                    Some(kernel) if kernel.trim() == info.kernel => {
                        read("/proc/meminfo").map_or(Self::Unknown, |text| Self::parse(&text))
                    }
                    Some(_) | None => Self::Unknown,
                }
            }
        }
    }

    fn parse(meminfo: &str) -> Self {
        let total = meminfo
            .lines()
            .find_map(|line| line.strip_prefix("SwapTotal:"))
            .and_then(|rest| rest.split_whitespace().next())
            .and_then(|number| number.parse::<u64>().ok());
        match total {
            Some(0) => Self::None,
            Some(_) => Self::Some,
            None => Self::Unknown,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn swap_is_none_only_when_the_kernel_says_zero() {
        assert_eq!(
            Swap::parse("MemTotal: 5 kB\nSwapTotal:      0 kB\n"),
            Swap::None
        );
        assert_eq!(Swap::parse("SwapTotal: 4 kB\n"), Swap::Some);
        for odd in ["", "SwapTotal:", "SwapTotal: x kB"] {
            assert_eq!(Swap::parse(odd), Swap::Unknown, "{odd:?}");
        }
    }

    #[test]
    fn another_kernel_behind_a_local_socket_is_unknown() {
        let place = Place {
            endpoint: "unix:///x".into(),
            why: String::new(),
            locality: Locality::LocalSocket,
        };
        let info = Info {
            kernel: "0.0.1-linuxkit".into(),
            ..Info::default()
        };
        assert_eq!(Swap::of(&place, &info), Swap::Unknown);
    }
}
