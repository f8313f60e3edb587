//! A certificate authority for tests, and the certificates that it signs, good and bad.

use std::fmt;

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair, KeyUsagePurpose, date_time_ymd,
};
use tokio_rustls::rustls::{
    ServerConfig, crypto,
    pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer},
};

/// What is wrong with a server's certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Certificate {
    /// Nothing.
    Valid,
    /// It ended years ago.
    Expired,
    /// It is for `wrong.invalid`, whatever names were asked for.
    WrongName,
    /// No authority signed it.
    SelfSigned,
}

/// A certificate authority that no system trusts.
pub struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    pem: String,
}

/// Shows nothing of the key.
impl fmt::Debug for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authority").finish_non_exhaustive()
    }
}

impl Default for Authority {
    fn default() -> Self {
        Self::new()
    }
}

impl Authority {
    /// Makes one with a new key.
    ///
    /// # Panics
    /// Where the system has no randomness.
    #[must_use]
    pub fn new() -> Self {
        let mut params = params(&[], "belljar test authority");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![
            KeyUsagePurpose::DigitalSignature,
            KeyUsagePurpose::KeyCertSign,
            KeyUsagePurpose::CrlSign,
        ];
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let pem = issuer.pem();
        Self { issuer, pem }
    }

    /// Its certificate, as PEM.
    #[must_use]
    pub fn pem(&self) -> &str {
        &self.pem
    }

    /// Its certificate, as DER.
    #[must_use]
    pub fn der(&self) -> CertificateDer<'static> {
        self.issuer.der().clone()
    }

    /// What a server needs to show a certificate for `names`.
    pub(crate) fn server_config(
        &self,
        names: &[String],
        certificate: Certificate,
        alpn: Vec<Vec<u8>>,
    ) -> ServerConfig {
        let key = KeyPair::generate().unwrap();
        let wrong = ["wrong.invalid".to_owned()];
        let names = match certificate {
            Certificate::WrongName => &wrong,
            Certificate::Valid | Certificate::Expired | Certificate::SelfSigned => names,
        };
        let mut params = params(names, "belljar test upstream");
        params.use_authority_key_identifier_extension = true;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        if certificate == Certificate::Expired {
            params.not_after = date_time_ymd(2020, 2, 1);
        }
        let signed = if certificate == Certificate::SelfSigned {
            params.self_signed(&key)
        } else {
            params.signed_by(&key, &self.issuer)
        }
        .unwrap();
        let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let provider = crypto::ring::default_provider();
        let mut config = ServerConfig::builder_with_provider(provider.into())
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![signed.der().clone()], key)
            .unwrap();
        config.alpn_protocols = alpn;
        config
    }
}

/// Valid from long ago until long after: no clock of a test machine decides a test.
fn params(names: &[String], common_name: &str) -> CertificateParams {
    let mut params = CertificateParams::new(names).unwrap();
    params
        .distinguished_name
        .push(DnType::CommonName, common_name);
    params.not_before = date_time_ymd(2020, 1, 1);
    params.not_after = date_time_ymd(2120, 1, 1);
    params
}
