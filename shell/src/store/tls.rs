//! Whom to trust, and how to show who we are.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};

use super::StoreError;

/// Certificates for `valkeys://` and `rediss://`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsOptions {
    /// PEM file with the authorities to trust; those of the system when there is none.
    pub ca_file: Option<PathBuf>,
    /// PEM file with the certificate that we show, when the server asks for one.
    pub cert_file: Option<PathBuf>,
    /// PEM file with the private key to it.
    pub key_file: Option<PathBuf>,
}

pub(super) fn config(options: &TlsOptions) -> Result<Arc<ClientConfig>, StoreError> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| StoreError::Tls(error.to_string()))?
        .with_root_certificates(authorities(options.ca_file.as_deref())?);
    let config = match (&options.cert_file, &options.key_file) {
        (None, None) => builder.with_no_client_auth(),
        (Some(cert), Some(key)) => builder
            .with_client_auth_cert(certificates(cert)?, private_key(key)?)
            .map_err(|error| StoreError::Tls(format!("{}: {error}", cert.display())))?,
        (Some(_), None) => {
            return Err(StoreError::Tls("a client certificate needs its key file".to_owned()));
        }
        (None, Some(_)) => {
            return Err(StoreError::Tls("a client key needs its certificate file".to_owned()));
        }
    };
    Ok(Arc::new(config))
}

fn authorities(file: Option<&Path>) -> Result<RootCertStore, StoreError> {
    let mut roots = RootCertStore::empty();
    match file {
        Some(file) => {
            for certificate in certificates(file)? {
                roots
                    .add(certificate)
                    .map_err(|error| StoreError::Tls(format!("{}: {error}", file.display())))?;
            }
        }
        None => {
            // A broken certificate among the system's does not spoil the others.
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        }
    }
    if roots.is_empty() {
        return Err(StoreError::Tls("there is no authority to trust; name a CA file".to_owned()));
    }
    Ok(roots)
}

fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, StoreError> {
    let unreadable = |error| StoreError::Tls(format!("{}: {error}", file.display()));
    let certificates: Vec<_> = CertificateDer::pem_file_iter(file)
        .map_err(unreadable)?
        .collect::<Result<_, _>>()
        .map_err(unreadable)?;
    if certificates.is_empty() {
        return Err(StoreError::Tls(format!("{} holds no certificate", file.display())));
    }
    Ok(certificates)
}

fn private_key(file: &Path) -> Result<PrivateKeyDer<'static>, StoreError> {
    PrivateKeyDer::from_pem_file(file)
        .map_err(|error| StoreError::Tls(format!("{}: {error}", file.display())))
}
