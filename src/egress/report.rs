//! What several ways out of one run reached, as one report.

use super::ledger::{Allowed, Denied, Failed, MAX_REPORTED, Report};

impl Report {
    /// Both together: equal lines are one, and no more are listed than in either.
    #[must_use]
    pub fn and(mut self, other: Self) -> Self {
        self.allowed_omitted += other.allowed_omitted;
        self.denied_omitted += other.denied_omitted;
        self.failed_omitted += other.failed_omitted;
        for allowed in other.allowed {
            let same = |one: &&mut Allowed| one.host == allowed.host && one.port == allowed.port;
            if let Some(known) = self.allowed.iter_mut().find(same) {
                known.count += allowed.count;
            } else if self.allowed.len() < MAX_REPORTED {
                self.allowed.push(allowed);
            } else {
                self.allowed_omitted += allowed.count;
            }
        }
        for denied in other.denied {
            let same = |one: &&mut Denied| {
                one.host == denied.host && one.port == denied.port && one.reason == denied.reason
            };
            if let Some(known) = self.denied.iter_mut().find(same) {
                known.count += denied.count;
            } else if self.denied.len() < MAX_REPORTED {
                self.denied.push(denied);
            } else {
                self.denied_omitted += denied.count;
            }
        }
        for failed in other.failed {
            let same = |one: &&mut Failed| {
                one.host == failed.host && one.port == failed.port && one.reason == failed.reason
            };
            if let Some(known) = self.failed.iter_mut().find(same) {
                known.count += failed.count;
            } else if self.failed.len() < MAX_REPORTED {
                self.failed.push(failed);
            } else {
                self.failed_omitted += failed.count;
            }
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(hosts: usize) -> Report {
        Report {
            allowed: (0..hosts)
                .map(|at| Allowed {
                    host: format!("{at}.test"),
                    port: 443,
                    count: 2,
                })
                .collect(),
            denied: (0..hosts)
                .map(|at| Denied {
                    host: format!("{at}.test"),
                    port: 443,
                    reason: "host_not_allowed",
                    count: 3,
                })
                .collect(),
            failed: (0..hosts)
                .map(|at| Failed {
                    host: format!("{at}.test"),
                    port: 443,
                    reason: "unresolvable",
                    count: 1,
                })
                .collect(),
            allowed_omitted: 1,
            denied_omitted: 1,
            failed_omitted: 1,
        }
    }

    #[test]
    fn equal_lines_are_one_and_the_list_stays_bounded() {
        let both = report(1).and(report(2));
        assert_eq!(
            both.allowed.iter().map(|one| one.count).collect::<Vec<_>>(),
            [4, 2]
        );
        assert_eq!(
            both.denied.iter().map(|one| one.count).collect::<Vec<_>>(),
            [6, 3]
        );
        assert_eq!(
            both.failed.iter().map(|one| one.count).collect::<Vec<_>>(),
            [2, 1]
        );
        let full = report(MAX_REPORTED).and(report(MAX_REPORTED + 1));
        assert_eq!(
            (full.allowed.len(), full.denied.len(), full.failed.len()),
            (MAX_REPORTED, MAX_REPORTED, MAX_REPORTED)
        );
        assert_eq!(
            (
                full.allowed_omitted,
                full.denied_omitted,
                full.failed_omitted
            ),
            (1 + 1 + 2, 1 + 1 + 3, 1 + 1 + 1)
        );
    }
}
