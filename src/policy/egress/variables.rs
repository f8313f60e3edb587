//! The variables by which programs find the way out and trust it.

use std::collections::BTreeMap;

/// Where a proxy is looked for. Programs look for either spelling.
const PROXY: [&str; 6] = [
    "ALL_PROXY",
    "HTTPS_PROXY",
    "HTTP_PROXY",
    "all_proxy",
    "http_proxy",
    "https_proxy",
];
/// What is not asked of a proxy: the sandbox itself.
const NO_PROXY: [&str; 2] = ["NO_PROXY", "no_proxy"];
/// The sandbox itself, as those variables have it.
const LOCAL: &str = "localhost,127.0.0.1,::1";
/// Where certificates are looked for: OpenSSL, Python's requests, pip, Node.js, curl, git, cargo, the clients of AWS,
/// Deno and gRPC.
const TRUST: [&str; 10] = [
    "AWS_CA_BUNDLE",
    "CARGO_HTTP_CAINFO",
    "CURL_CA_BUNDLE",
    "DENO_CERT",
    "GIT_SSL_CAINFO",
    "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH",
    "NODE_EXTRA_CA_CERTS",
    "PIP_CERT",
    "REQUESTS_CA_BUNDLE",
    "SSL_CERT_FILE",
];

/// The names of all of them.
pub(in crate::policy) fn names() -> impl Iterator<Item = &'static str> {
    PROXY.into_iter().chain(NO_PROXY).chain(TRUST)
}

/// All of them, for a proxy at `proxy` (`host:port`) and certificates in the file `trust`.
#[must_use]
pub fn variables(proxy: &str, trust: &str) -> BTreeMap<String, String> {
    // Named as an HTTP proxy everywhere: a library without SOCKS fails at the mere sight of the other kind.
    let proxy = format!("http://{proxy}");
    let each = |names: &[&str], value: &str| -> Vec<(String, String)> {
        names
            .iter()
            .map(|name| ((*name).to_owned(), value.to_owned()))
            .collect()
    };
    [
        each(&PROXY, &proxy),
        each(&NO_PROXY, LOCAL),
        each(&TRUST, trust),
    ]
    .into_iter()
    .flatten()
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_gets_its_value_and_no_other_does() {
        let variables = variables("127.0.0.1:3128", "/tmp/ca.pem");
        assert_eq!(variables.len(), names().count());
        assert!(names().all(|name| variables.contains_key(name)));
        assert!(names().all(crate::config::is_reserved_variable));
        assert_eq!(variables["https_proxy"], "http://127.0.0.1:3128");
        assert_eq!(variables["ALL_PROXY"], variables["http_proxy"]);
        assert_eq!(variables["SSL_CERT_FILE"], "/tmp/ca.pem");
        assert_eq!(variables["NO_PROXY"], "localhost,127.0.0.1,::1");
    }
}
