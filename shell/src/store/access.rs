//! How to get from an address to a stream of bytes that the server trusts.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use redis::RedisConnectionInfo;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::tls;
use super::url::{Address, Servers};
use super::{StoreError, StoreOptions};
use crate::secret_text::SecretText;

/// Everything but the address: the same for all servers of a store.
pub(super) struct Access {
    tls: Option<Arc<rustls::ClientConfig>>,
    user: Option<String>,
    password: Option<SecretText>,
    database: u32,
    pub(super) connect_within: Duration,
}

/// TCP, or TLS over it.
pub(super) trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> Stream for T {}

impl Access {
    pub(super) fn new(servers: &Servers, options: &StoreOptions) -> Result<Self, StoreError> {
        let tls = servers.tls.then(|| tls::config(&options.tls)).transpose()?;
        Ok(Self {
            tls,
            user: servers.user.clone(),
            password: servers.password.clone(),
            database: servers.database,
            connect_within: options.connect_within,
        })
    }

    /// Connects and, where asked for, makes sure who is there.
    pub(super) async fn stream(&self, address: &Address) -> io::Result<Box<dyn Stream>> {
        let tcp = TcpStream::connect((address.host.as_str(), address.port)).await?;
        tcp.set_nodelay(true)?;
        let Some(config) = &self.tls else { return Ok(Box::new(tcp)) };
        let name = ServerName::try_from(address.host.clone()).map_err(io::Error::other)?;
        let tls = TlsConnector::from(config.clone()).connect(name, tcp).await?;
        Ok(Box::new(tls))
    }

    /// The same greeting, for a connection that the client library greets itself.
    pub(super) fn credentials(&self) -> RedisConnectionInfo {
        let mut info =
            RedisConnectionInfo::default().set_skip_set_lib_name().set_db(self.database.into());
        if let Some(user) = &self.user {
            info = info.set_username(user).set_password("");
        }
        if let Some(password) = &self.password {
            info = info.set_password(password.expose());
        }
        info
    }

    /// What a new connection says first. The reply to each must be `OK`.
    pub(super) fn greeting(&self) -> Vec<Vec<Vec<u8>>> {
        let mut commands = Vec::new();
        match (&self.user, &self.password) {
            (Some(user), Some(password)) => {
                commands.push(words(&["AUTH", user, password.expose()]));
            }
            (None, Some(password)) => commands.push(words(&["AUTH", password.expose()])),
            // A user without a password may have `nopass`.
            (Some(user), None) => commands.push(words(&["AUTH", user, ""])),
            (None, None) => {}
        }
        if self.database > 0 {
            commands.push(words(&["SELECT", &self.database.to_string()]));
        }
        commands
    }
}

pub(super) fn words(command: &[&str]) -> Vec<Vec<u8>> {
    command.iter().map(|word| word.as_bytes().to_vec()).collect()
}
