//! The grammar of hosts: what is taken has one spelling, which is taken for the same.
#![no_main]

use belljar::types::{Endpoint, Host};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Ok(host) = Host::parse(text) {
        assert_eq!(Host::parse(&host.to_string()), Ok(host));
    }
    if let Ok(endpoint) = Endpoint::parse(text, Some(443)) {
        assert_eq!(Endpoint::parse(&endpoint.to_string(), None), Ok(endpoint));
    }
});
