//! The variables of a program that are not for the operator's secrets, since they mean something already.

use crate::images::is_loader_variable;

/// What every program is given, egress or not.
const OF_EVERY_PROGRAM: [&str; 5] = ["HOME", "LANG", "LOGNAME", "PATH", "USER"];
/// Where programs look for a proxy, in any case of letters.
const OF_THE_PROXY: [&str; 12] = [
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "FTP_PROXY",
    "ALL_PROXY",
    "NO_PROXY",
    "SOCKS_PROXY",
    "GLOBAL_AGENT_HTTP_PROXY",
    "NODE_USE_ENV_PROXY",
    "NPM_CONFIG_PROXY",
    "NPM_CONFIG_HTTPS_PROXY",
    "PIP_PROXY",
    "CARGO_HTTP_PROXY",
];
/// Where programs look for the certificates that they trust, in any case of letters.
const OF_TRUST: [&str; 16] = [
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "REQUESTS_CA_BUNDLE",
    "CURL_CA_BUNDLE",
    "NODE_EXTRA_CA_CERTS",
    "GIT_SSL_CAINFO",
    "GIT_SSL_CAPATH",
    "CARGO_HTTP_CAINFO",
    "PIP_CERT",
    "NPM_CONFIG_CAFILE",
    "NPM_CONFIG_CA",
    "AWS_CA_BUNDLE",
    "DENO_CERT",
    "JAVA_TOOL_OPTIONS",
    "HTTPLIB2_CA_CERTS",
    "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH",
];

/// Whether belljar sets the variable for programs, or the loader obeys it: nothing of the operator's or the caller's
/// stands in for it. The case of letters does not matter, since many programs read either.
#[must_use]
pub fn is_reserved_variable(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    let listed = |list: &[&str]| list.contains(&name.as_str());
    listed(&OF_EVERY_PROGRAM)
        || listed(&OF_THE_PROXY)
        || listed(&OF_TRUST)
        || is_loader_variable(&name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_belljar_sets_is_reserved_in_any_case() {
        for name in [
            "HTTP_PROXY",
            "https_proxy",
            "All_Proxy",
            "no_proxy",
            "SSL_CERT_FILE",
            "ssl_cert_dir",
            "REQUESTS_CA_BUNDLE",
            "NODE_EXTRA_CA_CERTS",
            "CURL_CA_BUNDLE",
            "GIT_SSL_CAINFO",
            "CARGO_HTTP_CAINFO",
            "PIP_CERT",
            "npm_config_cafile",
            "PATH",
            "LD_PRELOAD",
            "ld_preload",
            "GLIBC_TUNABLES",
        ] {
            assert!(is_reserved_variable(name), "{name}");
        }
        for name in ["GITHUB_TOKEN", "PROXY", "MODEL_KEY", "LDAP_PASSWORD"] {
            assert!(!is_reserved_variable(name), "{name}");
        }
    }
}
