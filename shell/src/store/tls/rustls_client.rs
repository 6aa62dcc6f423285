//! TLS configuration: trusted authorities and client certificate.

use std::io;
use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::TlsOptions;
use crate::store::connector::Stream;
use crate::store::{StoreError, TlsError, TlsFile};

/// A TLS client with the certificates of its options.
pub(crate) struct TlsClient(Arc<ClientConfig>);

impl TlsClient {
    pub(crate) fn new(options: &TlsOptions) -> Result<Self, StoreError> {
        config(options).map(Self)
    }

    /// Makes sure that the server is `host`, and encrypts the stream.
    pub(crate) async fn connect(&self, host: &str, tcp: TcpStream) -> io::Result<Box<dyn Stream>> {
        let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
        Ok(Box::new(TlsConnector::from(self.0.clone()).connect(name, tcp).await?))
    }
}

fn config(options: &TlsOptions) -> Result<Arc<ClientConfig>, StoreError> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| TlsError::Settings(error.to_string()))?
        .with_root_certificates(authorities(options.ca_file.as_deref())?);
    let config = match (&options.cert_file, &options.key_file) {
        (None, None) => builder.with_no_client_auth(),
        (Some(cert), Some(key)) => builder
            .with_client_auth_cert(certificates(TlsFile::Certificate, cert)?, private_key(key)?)
            .map_err(|error| unusable(TlsFile::Certificate, cert, &error))?,
        (Some(_), None) => {
            return Err(TlsError::NoKey.into());
        }
        (None, Some(_)) => {
            return Err(TlsError::NoClientCertificate.into());
        }
    };
    Ok(Arc::new(config))
}

fn authorities(file: Option<&Path>) -> Result<RootCertStore, StoreError> {
    let mut roots = RootCertStore::empty();
    match file {
        Some(file) => {
            for certificate in certificates(TlsFile::Authorities, file)? {
                roots
                    .add(certificate)
                    .map_err(|error| unusable(TlsFile::Authorities, file, &error))?;
            }
        }
        None => {
            // Skips system certificates that cannot be parsed.
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        }
    }
    if roots.is_empty() {
        return Err(TlsError::NoAuthorities.into());
    }
    Ok(roots)
}

fn certificates(role: TlsFile, file: &Path) -> Result<Vec<CertificateDer<'static>>, StoreError> {
    let unreadable = |error| unusable(role, file, &error);
    let certificates: Vec<_> = CertificateDer::pem_file_iter(file)
        .map_err(unreadable)?
        .collect::<Result<_, _>>()
        .map_err(unreadable)?;
    if certificates.is_empty() {
        return Err(TlsError::NoCertificate { role, file: file.to_owned() }.into());
    }
    Ok(certificates)
}

fn private_key(file: &Path) -> Result<PrivateKeyDer<'static>, StoreError> {
    PrivateKeyDer::from_pem_file(file).map_err(|error| unusable(TlsFile::Key, file, &error).into())
}

fn unusable(role: TlsFile, file: &Path, error: &dyn std::fmt::Display) -> TlsError {
    TlsError::File { role, file: file.to_owned(), reason: error.to_string() }
}
