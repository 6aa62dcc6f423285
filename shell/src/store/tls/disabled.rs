//! What stands in for TLS when the feature `tls` is off: opening such a store is an error.

use std::io;

use tokio::net::TcpStream;

use super::TlsOptions;
use crate::store::StoreError;
use crate::store::connector::Stream;

/// A TLS client that cannot exist.
pub(crate) enum TlsClient {}

impl TlsClient {
    pub(crate) fn new(_: &TlsOptions) -> Result<Self, StoreError> {
        Err(StoreError::FeatureDisabled { url: "valkeys:// and rediss://", feature: "tls" })
    }

    pub(crate) async fn connect(&self, _: &str, _: TcpStream) -> io::Result<Box<dyn Stream>> {
        match *self {}
    }
}
