//! The certificate authority of one run: TLS from inside is ended with its certificates.
//!
//! Its keys are made when they are first needed, live in this process's memory, are never written or sent anywhere,
//! and are good for nothing outside of the one run whose programs trust them. It must never sign for a host that was
//! not decided first.

#[cfg(test)]
mod tests;

use std::{
    collections::HashMap,
    fmt::{self, Write as _},
    sync::{Arc, Mutex, OnceLock, PoisonError},
    time::Duration,
};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose, SanType, SerialNumber,
};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio_rustls::rustls::{
    ServerConfig,
    crypto::ring,
    sign::{CertifiedKey, SigningKey, SingleCertAndKey},
};
use zeroize::Zeroize as _;

use crate::{
    config::Profile,
    types::{Host, clock},
};

/// How far back certificates are valid: a clock inside that lags does not refuse them.
const BACKDATED: Duration = Duration::from_hours(24);
/// How long certificates are valid, from there on: longer than any run, and useless soon after.
const VALIDITY: Duration = Duration::from_hours(48);
/// The most hosts whose certificates are kept. Stops a program that tries ever new names below a wildcard from
/// filling the memory; past it all are made anew.
const MAX_LEAVES: usize = 256;
/// Bytes of a serial number, the most that RFC 5280 has leaves room for (20).
const SERIAL_BYTES: usize = 16;
/// Characters in a line of PEM (RFC 7468, 2).
const PEM_COLUMNS: usize = 64;
/// What is spoken under TLS, the better first.
const ALPN: [&[u8]; 2] = [b"h2", b"http/1.1"];

/// No certificate could be made. Nothing that a program does leads here: the system gives no randomness.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no certificate can be made: {0}")]
pub(super) struct AuthorityError(String);

/// The authority of one run.
pub(super) struct Authority {
    /// Certificates that programs have to trust besides: of servers whose TLS is passed through.
    beside: Vec<CertificateDer<'static>>,
    made: OnceLock<Result<Made, AuthorityError>>,
}

struct Made {
    issuer: Issuer<'static, KeyPair>,
    /// One key for all leaves of the run: nobody tells hosts apart by it, since all are this process.
    leaf_key: KeyPair,
    leaf_signer: Arc<dyn SigningKey>,
    trust: Vec<u8>,
    leaves: Mutex<HashMap<Host, Arc<ServerConfig>>>,
}

impl Authority {
    /// The authority of a run under `profile`. Costs nothing until it is used.
    pub(super) fn new(profile: &Profile) -> Self {
        let tunnels = profile.rules.iter().any(|rule| rule.tunnel);
        Self {
            beside: if tunnels {
                profile.upstream_ca.clone()
            } else {
                Vec::new()
            },
            made: OnceLock::new(),
        }
    }

    /// The certificates that programs inside have to trust, as PEM. Empty where none could be made: then they trust
    /// nothing of what is intercepted.
    pub(super) fn trust_pem(&self) -> &[u8] {
        match self.made() {
            Ok(made) => &made.trust,
            Err(_) => b"",
        }
    }

    /// How TLS towards `host` is ended.
    pub(super) fn server_config(&self, host: &Host) -> Result<Arc<ServerConfig>, AuthorityError> {
        let made = self.made()?;
        let mut leaves = made.leaves.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(config) = leaves.get(host) {
            return Ok(Arc::clone(config));
        }
        if leaves.len() >= MAX_LEAVES {
            leaves.clear();
        }
        let config = Arc::new(made.server_config(host)?);
        leaves.insert(host.clone(), Arc::clone(&config));
        Ok(config)
    }

    fn made(&self) -> Result<&Made, AuthorityError> {
        self.made
            .get_or_init(|| Made::new(&self.beside))
            .as_ref()
            .map_err(Clone::clone)
    }
}

/// Shows no key.
impl fmt::Debug for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authority").finish_non_exhaustive()
    }
}

impl Made {
    fn new(beside: &[CertificateDer<'static>]) -> Result<Self, AuthorityError> {
        let mut name = String::from("belljar run ");
        for byte in random::<4>()? {
            let _ = write!(name, "{byte:02x}");
        }
        let mut params = params(&name)?;
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];

        // What signs is a form of its own; the serialized one is of no more use.
        let mut key = KeyPair::generate().map_err(failed)?;
        key.zeroize();
        let certificate = params.self_signed(&key).map_err(failed)?;

        let mut leaf_key = KeyPair::generate().map_err(failed)?;
        let mut serialized =
            PrivateKeyDer::from(PrivatePkcs8KeyDer::from(leaf_key.serialized_der().to_vec()));
        let leaf_signer = ring::sign::any_ecdsa_type(&serialized).map_err(failed);
        serialized.zeroize();
        leaf_key.zeroize();

        let mut trust = pem(certificate.der());
        for certificate in beside {
            trust.push_str(&pem(certificate));
        }
        Ok(Self {
            issuer: Issuer::new(params, key),
            leaf_key,
            leaf_signer: leaf_signer?,
            trust: trust.into_bytes(),
            leaves: Mutex::default(),
        })
    }

    fn server_config(&self, host: &Host) -> Result<ServerConfig, AuthorityError> {
        let certified = CertifiedKey::new(vec![self.leaf(host)?], Arc::clone(&self.leaf_signer));
        let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(failed)?
            .with_no_client_auth()
            .with_cert_resolver(Arc::new(SingleCertAndKey::from(certified)));
        config.alpn_protocols = ALPN.map(<[u8]>::to_vec).into();
        Ok(config)
    }

    fn leaf(&self, host: &Host) -> Result<CertificateDer<'static>, AuthorityError> {
        let mut params = params("belljar")?;
        params.subject_alt_names = vec![match host {
            Host::Name(name) => SanType::DnsName(name.as_str().try_into().map_err(failed)?),
            Host::Ip(address) => SanType::IpAddress(*address),
        }];
        params.is_ca = IsCa::ExplicitNoCa;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        // Strict clients demand to be told which key signed.
        params.use_authority_key_identifier_extension = true;
        let leaf = params
            .signed_by(&self.leaf_key, &self.issuer)
            .map_err(failed)?;
        Ok(leaf.into())
    }
}

/// What every certificate of a run has: a subject, a validity, and a serial number of its own, since two of one
/// issuer with the same are refused by some clients.
fn params(name: &str) -> Result<CertificateParams, AuthorityError> {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    let from = clock::file_clock() - BACKDATED;
    params.not_before = from.into();
    params.not_after = (from + VALIDITY).into();
    let mut serial = random::<SERIAL_BYTES>()?;
    serial[0] &= 0x7f; // a positive number
    serial[0] |= 0x40; // that needs no shortening
    params.serial_number = Some(SerialNumber::from_slice(&serial));
    Ok(params)
}

fn random<const N: usize>() -> Result<[u8; N], AuthorityError> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(failed)?;
    Ok(bytes)
}

fn failed(error: impl fmt::Display) -> AuthorityError {
    AuthorityError(error.to_string())
}

fn pem(certificate: &CertificateDer<'_>) -> String {
    let text = BASE64_STANDARD.encode(certificate);
    let mut pem = String::from("-----BEGIN CERTIFICATE-----\n");
    let mut rest = text.as_str();
    while !rest.is_empty() {
        let (line, after) = rest.split_at(rest.len().min(PEM_COLUMNS));
        pem.push_str(line);
        pem.push('\n');
        rest = after;
    }
    pem.push_str("-----END CERTIFICATE-----\n");
    pem
}
