//! The system calls that a program behind a stub may not make: those that lead into a new namespace.
//!
//! gVisor ignores the profile that comes with the container, but keeps a filter that a process sets for itself. Whoever
//! makes a user namespace has every capability in it, and under gVisor a process with `CAP_SYS_RESOURCE` in its own
//! namespace is not bound by `RLIMIT_NPROC`: a fork bomb then takes gVisor itself down, and its output with it. This is
//! no replacement for the profile, and must never be one: what else there is is gVisor's to refuse.

use libc::{c_long, sock_filter};
use nix::errno::Errno;

/// `AUDIT_ARCH_…` of the only kind of system calls that there may be.
#[cfg(target_arch = "x86_64")]
const NATIVE: u32 = 0xc000_003e;
/// `AUDIT_ARCH_…` of the only kind of system calls that there may be.
#[cfg(target_arch = "aarch64")]
const NATIVE: u32 = 0xc000_00b7;

/// Where the kernel's `seccomp_data` has the number of the call, its architecture and the low half of the first argument.
const NUMBER: u32 = 0;
const ARCHITECTURE: u32 = 4;
const FIRST_ARGUMENT: u32 = 16;

/// Every `CLONE_NEW…` flag that `clone` knows, as in the profile of the other runtimes.
const NEW_NAMESPACES: u32 = 0x7e02_0000;
/// Numbers from here on are the other ABI of x86-64. Above all numbers of other architectures.
const X32: u32 = 0x4000_0000;

/// The answers, at the end of the program and in this order.
const ALLOW: sock_filter = ret(libc::SECCOMP_RET_ALLOW);
const REFUSE: sock_filter = ret(libc::SECCOMP_RET_ERRNO | libc::EPERM as u32);
/// Makes libraries fall back to `clone`, whose flags can be seen; and is what a kernel says to a call of another ABI.
const UNKNOWN: sock_filter = ret(libc::SECCOMP_RET_ERRNO | libc::ENOSYS as u32);

/// The program. Jumps count the instructions that they pass over.
const PROGRAM: [sock_filter; 13] = [
    load(ARCHITECTURE),
    jump(libc::BPF_JEQ, NATIVE, 0, 10),
    load(NUMBER),
    jump(libc::BPF_JGE, X32, 8, 0),
    jump(libc::BPF_JEQ, call(libc::SYS_clone3), 7, 0),
    jump(libc::BPF_JEQ, call(libc::SYS_unshare), 5, 0),
    jump(libc::BPF_JEQ, call(libc::SYS_setns), 4, 0),
    jump(libc::BPF_JEQ, call(libc::SYS_clone), 0, 2),
    load(FIRST_ARGUMENT),
    jump(libc::BPF_JSET, NEW_NAMESPACES, 1, 0),
    ALLOW,
    REFUSE,
    UNKNOWN,
];

const fn load(offset: u32) -> sock_filter {
    instruction(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, offset, 0, 0)
}

const fn jump(condition: u32, value: u32, met: u8, unmet: u8) -> sock_filter {
    instruction(libc::BPF_JMP | condition | libc::BPF_K, value, met, unmet)
}

const fn ret(answer: u32) -> sock_filter {
    instruction(libc::BPF_RET | libc::BPF_K, answer, 0, 0)
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "codes of the classic BPF are a byte, and the constants are wider"
)]
const fn instruction(code: u32, k: u32, jt: u8, jf: u8) -> sock_filter {
    sock_filter {
        code: code as u16,
        jt,
        jf,
        k,
    }
}

/// Numbers of calls are small and positive.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "numbers of calls are below 2^10"
)]
const fn call(number: c_long) -> u32 {
    number as u32
}

/// Sets the filter for this process and all that come from it, for good.
pub(crate) fn install() -> nix::Result<()> {
    // SAFETY: no pointers; PR_SET_NO_NEW_PRIVS takes one integer. Without it an unprivileged process may set no filter.
    Errno::result(unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) })?;
    let mut instructions = PROGRAM;
    let program = libc::sock_fprog {
        len: u16::try_from(instructions.len()).map_err(|_| Errno::EINVAL)?,
        filter: instructions.as_mut_ptr(),
    };
    // SAFETY: the program and its instructions are live for the call, which copies them and writes nothing.
    let set = unsafe {
        libc::syscall(
            libc::SYS_seccomp,
            libc::SECCOMP_SET_MODE_FILTER,
            0,
            &raw const program,
        )
    };
    Errno::result(set).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the program answers, by the rules of the classic BPF that it uses.
    fn answer(architecture: u32, number: u32, first: u32) -> u32 {
        let (mut at, mut accumulator) = (0, 0);
        loop {
            let instruction = PROGRAM[at];
            let (code, k) = (u32::from(instruction.code), instruction.k);
            at += 1;
            let met = match code {
                code if code == libc::BPF_LD | libc::BPF_W | libc::BPF_ABS => {
                    accumulator = match k {
                        NUMBER => number,
                        ARCHITECTURE => architecture,
                        FIRST_ARGUMENT => first,
                        other => panic!("nothing is at {other}"),
                    };
                    continue;
                }
                code if code == libc::BPF_RET | libc::BPF_K => return k,
                code if code == libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K => accumulator == k,
                code if code == libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K => accumulator >= k,
                code if code == libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K => {
                    accumulator & k != 0
                }
                other => panic!("no such instruction: {other}"),
            };
            let over = if met { instruction.jt } else { instruction.jf };
            at += usize::from(over);
        }
    }

    const NEW_USER: u32 = 0x1000_0000;
    const THREAD: u32 = 0x003d_0f00;

    #[test]
    fn namespaces_are_refused_and_processes_and_threads_are_not() {
        let clone = call(libc::SYS_clone);
        for flags in [NEW_USER, 0x0002_0000, 0x2000_0000, THREAD | NEW_USER] {
            assert_eq!(answer(NATIVE, clone, flags), REFUSE.k, "{flags:x}");
        }
        for flags in [libc::SIGCHLD as u32, THREAD, 0x4111] {
            assert_eq!(answer(NATIVE, clone, flags), ALLOW.k, "{flags:x}");
        }
        for number in [libc::SYS_unshare, libc::SYS_setns] {
            assert_eq!(answer(NATIVE, call(number), 0), REFUSE.k);
        }
        assert_eq!(answer(NATIVE, call(libc::SYS_clone3), 0), UNKNOWN.k);
        for number in [libc::SYS_read, libc::SYS_execve, libc::SYS_kill] {
            assert_eq!(answer(NATIVE, call(number), NEW_USER), ALLOW.k);
        }
    }

    #[test]
    fn calls_of_another_abi_are_unknown() {
        let clone = call(libc::SYS_clone);
        assert_eq!(answer(0x4000_0003, 120, NEW_USER), UNKNOWN.k, "i386");
        assert_eq!(answer(NATIVE, clone | X32, 0), UNKNOWN.k);
    }
}
