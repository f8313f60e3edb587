//! The messages of SOCKS 5: never panics, and never says that it read more than there is.
#![no_main]

use belljar::egress::socks::{greeting, request};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(Some(length)) = greeting(bytes) {
        assert!(length <= bytes.len());
    }
    if let Ok(Some((length, endpoint))) = request(bytes) {
        assert!(length <= bytes.len());
        assert_ne!(endpoint.port, 0);
    }
});
