//! Whom a server's certificate may be signed by.

use std::{io, sync::Arc};

use rustls_native_certs::load_native_certs;
use rustls_pki_types::CertificateDer;
use tokio::sync::OnceCell;
use tokio_rustls::rustls::{ClientConfig, RootCertStore, crypto::ring};

/// What is spoken under TLS, the better first.
const ALPN: [&[u8]; 2] = [b"h2", b"http/1.1"];

/// How TLS towards servers is begun: verified against the system's roots, read once per process, and `besides`.
///
/// # Errors
/// No certificate of `besides` is left out silently: one that is none is an error.
pub(super) async fn client_config(
    besides: &[CertificateDer<'static>],
) -> Result<Arc<ClientConfig>, io::Error> {
    let mut roots = system().await?.clone();
    for certificate in besides {
        roots.add(certificate.clone()).map_err(io::Error::other)?;
    }
    let mut config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = ALPN.map(<[u8]>::to_vec).into();
    Ok(Arc::new(config))
}

/// The system's roots. A machine that has none trusts only what the operator names.
async fn system() -> Result<&'static RootCertStore, io::Error> {
    static SYSTEM: OnceCell<RootCertStore> = OnceCell::const_new();
    SYSTEM
        .get_or_try_init(|| async {
            let found = tokio::task::spawn_blocking(load_native_certs).await?;
            for error in &found.errors {
                tracing::warn!(%error, "some of the system's root certificates cannot be read");
            }
            let mut roots = RootCertStore::empty();
            roots.add_parsable_certificates(found.certs);
            Ok(roots)
        })
        .await
}
