//! What the certificates of a run say, as a verifier of another library reads them.

use std::time::Duration;

use rustls_pki_types::{ServerName, UnixTime, pem::PemObject as _};
use tokio_rustls::rustls::{
    RootCertStore,
    client::{WebPkiServerVerifier, danger::ServerCertVerifier as _},
};

use super::*;

fn authority() -> Authority {
    Authority {
        beside: Vec::new(),
        made: OnceLock::new(),
    }
}

fn trusted(authority: &Authority) -> Vec<CertificateDer<'static>> {
    CertificateDer::pem_slice_iter(authority.trust_pem())
        .map(|certificate| certificate.unwrap())
        .collect()
}

/// The certificate that is shown for a host.
fn leaf(authority: &Authority, host: &str) -> CertificateDer<'static> {
    let host = Host::parse(host).unwrap();
    authority.made().unwrap().leaf(&host).unwrap()
}

fn verified(authority: &Authority, leaf: &CertificateDer<'_>, name: &str, now: UnixTime) -> bool {
    let mut roots = RootCertStore::empty();
    for certificate in trusted(authority) {
        roots.add(certificate).unwrap();
    }
    let provider = Arc::new(ring::default_provider());
    let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider)
        .build()
        .unwrap();
    let name = ServerName::try_from(name).unwrap();
    verifier
        .verify_server_cert(leaf, &[], &name, &[], now)
        .is_ok()
}

#[test]
fn a_leaf_is_valid_for_its_host_alone() {
    let authority = authority();
    for (host, other) in [
        ("a.lab.test", "b.lab.test"),
        ("127.0.0.1", "127.0.0.2"),
        ("::1", "::2"),
    ] {
        let leaf = leaf(&authority, host);
        assert!(verified(&authority, &leaf, host, UnixTime::now()), "{host}");
        assert!(
            !verified(&authority, &leaf, other, UnixTime::now()),
            "{other}"
        );
    }
}

#[test]
fn a_leaf_is_valid_from_a_day_ago_to_a_day_ahead() {
    let authority = authority();
    let leaf = leaf(&authority, "a.lab.test");
    let now = UnixTime::now().as_secs();
    for (seconds, valid) in [
        (now - 23 * 3600, true),
        (now - 25 * 3600, false),
        (now + 23 * 3600, true),
        (now + 25 * 3600, false),
    ] {
        let then = UnixTime::since_unix_epoch(Duration::from_secs(seconds));
        assert_eq!(
            verified(&authority, &leaf, "a.lab.test", then),
            valid,
            "{seconds}"
        );
    }
}

#[test]
fn what_one_run_signs_another_does_not_trust() {
    let (one, other) = (authority(), authority());
    let leaf = leaf(&one, "a.lab.test");
    assert!(!verified(&other, &leaf, "a.lab.test", UnixTime::now()));
}

/// The serial number, which follows the version in every certificate.
fn serial(certificate: &CertificateDer<'_>) -> Vec<u8> {
    let version_3_and_integer = [0xa0, 3, 2, 1, 2, 2, u8::try_from(SERIAL_BYTES).unwrap()];
    let at = certificate
        .windows(version_3_and_integer.len())
        .position(|bytes| bytes == version_3_and_integer)
        .unwrap();
    certificate[at + version_3_and_integer.len()..][..SERIAL_BYTES].to_vec()
}

#[test]
fn no_two_certificates_of_a_run_have_the_same_number() {
    let authority = authority();
    let leaf = |host| serial(&leaf(&authority, host));
    let mut numbers = vec![
        leaf("a.lab.test"),
        leaf("a.lab.test"),
        leaf("b.lab.test"),
        serial(&trusted(&authority)[0]),
    ];
    numbers.sort();
    numbers.dedup();
    assert_eq!(numbers.len(), 4);
}

#[test]
fn a_host_keeps_its_certificate_and_not_too_many_are_kept() {
    let authority = authority();
    let config = |host: &str| {
        authority
            .server_config(&Host::parse(host).unwrap())
            .unwrap()
    };
    assert!(Arc::ptr_eq(&config("a.lab.test"), &config("a.lab.test")));
    for at in 0..=MAX_LEAVES {
        config(&format!("n{at}.lab.test"));
    }
    let kept = authority.made().unwrap().leaves.lock().unwrap().len();
    assert!(kept <= MAX_LEAVES, "{kept}");
}

#[test]
fn programs_trust_the_run_and_what_passes_through_unread() {
    let beside = trusted(&authority());
    let authority = Authority {
        beside: beside.clone(),
        made: OnceLock::new(),
    };
    let trusted = trusted(&authority);
    assert_eq!(trusted.len(), 2);
    assert_eq!(trusted[1], beside[0]);
}

#[test]
fn nothing_is_made_before_it_is_needed_and_no_key_is_shown() {
    let authority = authority();
    assert!(authority.made.get().is_none());
    authority.trust_pem();
    assert_eq!(format!("{authority:?}"), "Authority { .. }");
    let trust = std::str::from_utf8(authority.trust_pem()).unwrap();
    assert!(!trust.contains("PRIVATE"));
    assert!(trust.lines().all(|line| line.len() <= PEM_COLUMNS));
}
