//! Stands before the C library's clock in a server under test, and adds to the wall clock what a file says. The other
//! clocks are left as they are, as somebody who sets the wall clock leaves them. Built by `clock.rs` as a library to be
//! preloaded; it must never be part of anything else.

use std::{
    ffi::{c_int, c_long},
    path::PathBuf,
    sync::OnceLock,
};

/// The number of the system call.
#[cfg(target_arch = "x86_64")]
const CLOCK_GETTIME: c_long = 228;
/// The number of the system call.
#[cfg(target_arch = "aarch64")]
const CLOCK_GETTIME: c_long = 113;
/// The wall clock, and its coarse twin.
const WALL: [c_int; 2] = [0, 5];

/// The C library's `struct timespec`.
#[repr(C)]
pub struct Time {
    seconds: i64,
    nanoseconds: i64,
}

unsafe extern "C" {
    fn syscall(number: c_long, ...) -> c_long;
}

/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clock_gettime(clock: c_int, time: *mut Time) -> c_int {
    // SAFETY: what the caller gave to this function, whose contract is the kernel's.
    let done = unsafe { syscall(CLOCK_GETTIME, clock, time) };
    if done == 0 && WALL.contains(&clock) {
        // SAFETY: the kernel has just written it.
        unsafe { (*time).seconds += shift() };
    }
    if done == 0 { 0 } else { -1 }
}

fn shift() -> i64 {
    static FILE: OnceLock<PathBuf> = OnceLock::new();
    let file = FILE.get_or_init(|| std::env::var_os("TEST_CLOCK").unwrap_or_default().into());
    let text = std::fs::read_to_string(file).unwrap_or_default();
    text.trim().parse().unwrap_or(0)
}
