//! The look at the first message of TLS: never panics, and what is said of a whole message does not depend on what
//! follows it.
#![no_main]

use belljar::egress::client_hello::inspect;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(Some(seen)) = inspect(bytes) {
        let longer = [bytes, b"\x17\x03\x03\x00\x01x"].concat();
        assert_eq!(inspect(&longer), Ok(Some(seen)));
    }
});
