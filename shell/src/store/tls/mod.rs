//! TLS to a server: the options, and the client behind the feature `tls`.

#[cfg(not(feature = "tls"))]
mod disabled;
#[cfg(feature = "tls")]
mod rustls_client;

use std::path::PathBuf;

#[cfg(not(feature = "tls"))]
pub(super) use disabled::TlsClient;
#[cfg(feature = "tls")]
pub(super) use rustls_client::TlsClient;

/// Certificates for `valkeys://` and `rediss://`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TlsOptions {
    /// PEM file with the trusted CA certificates; those of the system by default.
    pub ca_file: Option<PathBuf>,
    /// PEM file with the client certificate, if the server requires one.
    pub cert_file: Option<PathBuf>,
    /// PEM file with the private key of the client certificate.
    pub key_file: Option<PathBuf>,
}

impl TlsOptions {
    /// The same options, but with the authorities of this PEM file instead of the system's.
    #[must_use]
    pub fn ca_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.ca_file = Some(path.into());
        self
    }

    /// The same options with a certificate of our own and the private key to it, both PEM files.
    #[must_use]
    pub fn client_certificate(
        mut self,
        cert_file: impl Into<PathBuf>,
        key_file: impl Into<PathBuf>,
    ) -> Self {
        self.cert_file = Some(cert_file.into());
        self.key_file = Some(key_file.into());
        self
    }
}
