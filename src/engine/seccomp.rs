//! The system calls that a sandbox may make: an allow-list, kept as data in `seccomp.json`.
//!
//! It is passed as JSON with every container, since Docker's own default silently becomes
//! `unconfined` where the kernel or the daemon lacks it, while an explicit profile makes the create fail. What
//! is not listed fails with EPERM, calls of a foreign ABI (i386, x32) die of SIGSYS, since no other
//! architecture is listed, and calls newer than the list get ENOSYS from the runtime.

/// The profile, as Docker reads it.
pub const PROFILE: &str = include_str!("seccomp.json");

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use serde_json::Value;

    use super::*;

    fn rules() -> Vec<Value> {
        let profile: Value = serde_json::from_str(PROFILE).unwrap();
        assert_eq!(profile["defaultAction"], "SCMP_ACT_ERRNO");
        profile["syscalls"].as_array().unwrap().clone()
    }

    fn names(rule: &Value) -> impl Iterator<Item = &str> {
        let names = rule["names"].as_array().unwrap();
        names.iter().map(|name| name.as_str().unwrap())
    }

    fn args(rule: &Value) -> Vec<(u64, u64, u64, &str)> {
        let number = |arg: &Value, key: &str| arg[key].as_u64().unwrap_or_default();
        rule["args"].as_array().map_or_else(Vec::new, |args| {
            args.iter()
                .map(|arg| {
                    let op = arg["op"].as_str().unwrap();
                    (
                        number(arg, "index"),
                        number(arg, "value"),
                        number(arg, "valueTwo"),
                        op,
                    )
                })
                .collect()
        })
    }

    fn rules_for(name: &str) -> Vec<Value> {
        rules()
            .into_iter()
            .filter(|rule| names(rule).any(|found| found == name))
            .collect()
    }

    #[test]
    fn hardening_seccomp_no_call_is_listed_twice_but_by_argument() {
        let mut seen = HashSet::new();
        for rule in rules() {
            for name in names(&rule) {
                let argued = rule["args"].is_array();
                assert!(
                    seen.insert(name.to_owned()) || argued,
                    "{name}: a second rule without arguments would allow everything"
                );
            }
        }
    }

    #[test]
    fn hardening_seccomp_what_nothing_needs_is_not_listed() {
        for name in [
            // System V objects outlive the process that made them, and so its run.
            "shmget",
            "semget",
            "msgget",
            "io_uring_setup",
            "io_uring_enter",
            "io_uring_register",
            "keyctl",
            "add_key",
            "request_key",
            "userfaultfd",
            "bpf",
            "perf_event_open",
            "ptrace",
            "process_vm_readv",
            "process_vm_writev",
            "process_madvise",
            "pidfd_getfd",
            "kcmp",
            "mount",
            "umount",
            "umount2",
            "pivot_root",
            "chroot",
            "unshare",
            "setns",
            "fsopen",
            "fsmount",
            "move_mount",
            "open_tree",
            "mount_setattr",
            "name_to_handle_at",
            "open_by_handle_at",
            "memfd_secret",
            "init_module",
            "finit_module",
            "delete_module",
            "kexec_load",
            "reboot",
            "swapon",
            "acct",
            "quotactl",
            "syslog",
            "iopl",
            "ioperm",
            "modify_ldt",
            "personality",
            "settimeofday",
            "clock_settime",
            "sethostname",
            "fanotify_init",
            "lookup_dcookie",
            "move_pages",
            "set_mempolicy",
            "vhangup",
            "nfsservctl",
            "socketcall",
        ] {
            assert_eq!(rules_for(name).len(), 0, "{name}");
        }
    }

    #[test]
    fn hardening_seccomp_clone3_says_that_it_does_not_exist() {
        let rules = rules_for("clone3");
        assert_eq!(rules.len(), 1);
        assert_eq!(rules[0]["action"], "SCMP_ACT_ERRNO");
        assert_eq!(rules[0]["errnoRet"], 38);
    }

    #[test]
    fn hardening_seccomp_clone_makes_no_namespace() {
        let rules = rules_for("clone");
        assert_eq!(rules.len(), 1);
        let all = 0x7e02_0000;
        assert_eq!(args(&rules[0]), [(0, all, 0, "SCMP_CMP_MASKED_EQ")]);
    }

    #[test]
    fn hardening_seccomp_prlimit_is_for_oneself() {
        let rules = rules_for("prlimit64");
        assert_eq!(rules.len(), 1);
        assert_eq!(args(&rules[0]), [(0, 0, 0, "SCMP_CMP_EQ")]);
    }

    #[test]
    fn hardening_seccomp_sockets_are_allowed_by_family_with_equality_only() {
        let mut families = HashSet::new();
        for rule in rules_for("socket") {
            assert_eq!(rule["action"], "SCMP_ACT_ALLOW");
            let args = args(&rule);
            let (index, family, _, op) = args[0];
            assert_eq!((index, op), (0, "SCMP_CMP_EQ"));
            assert!(args.iter().all(|arg| arg.3 != "SCMP_CMP_NE"));
            // Two conditions on one argument would become alternatives.
            let indices: HashSet<u64> = args.iter().map(|arg| arg.0).collect();
            assert_eq!(indices.len(), args.len());
            if family == 16 {
                assert_eq!(args[1..], [(2, 0, 0, "SCMP_CMP_EQ")], "only NETLINK_ROUTE");
            }
            families.insert(family);
        }
        assert_eq!(families, HashSet::from([1, 2, 10, 16]));
    }

    #[test]
    fn hardening_seccomp_native_abi_only() {
        let profile: Value = serde_json::from_str(PROFILE).unwrap();
        for arch in profile["archMap"].as_array().unwrap() {
            assert_eq!(arch["subArchitectures"].as_array().unwrap().len(), 0);
        }
    }
}
