//! The certificates of a profile that servers may be signed by, read from the file that the configuration names.

use std::{fs, path::Path};

use rustls_pki_types::{CertificateDer, pem::PemObject as _};
use tokio_rustls::rustls::RootCertStore;

use super::{EgressProblem, MAX_CA_BYTES};
use crate::{config::load::is_world_writable, types::read_at_most};

/// Reads and parses them: at least one, and each of them one that a chain can end in.
pub(super) fn read(path: &Path) -> Result<Vec<CertificateDer<'static>>, EgressProblem> {
    let unreadable = |error: std::io::Error| EgressProblem::CaUnreadable {
        path: path.to_path_buf(),
        error: error.to_string(),
    };
    let file = fs::File::open(path).map_err(unreadable)?;
    // Whoever can write it can be every host.
    if is_world_writable(&file.metadata().map_err(unreadable)?) {
        return Err(EgressProblem::CaWorldWritable {
            path: path.to_path_buf(),
        });
    }
    let bytes = read_at_most(file, MAX_CA_BYTES + 1).map_err(unreadable)?;
    if bytes.len() as u64 > MAX_CA_BYTES {
        return Err(EgressProblem::CaTooLarge {
            path: path.to_path_buf(),
        });
    }
    parse(&bytes, path)
}

fn parse(bytes: &[u8], path: &Path) -> Result<Vec<CertificateDer<'static>>, EgressProblem> {
    let mut certificates = Vec::new();
    // Asks of each what will be asked of it when it is used.
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(bytes) {
        let broken = EgressProblem::CaBroken {
            path: path.to_path_buf(),
            at: certificates.len() + 1,
        };
        let Ok(certificate) = certificate else {
            return Err(broken);
        };
        if roots.add(certificate.clone()).is_err() {
            return Err(broken);
        }
        certificates.push(certificate);
    }
    if certificates.is_empty() {
        return Err(EgressProblem::CaEmpty {
            path: path.to_path_buf(),
        });
    }
    Ok(certificates)
}
