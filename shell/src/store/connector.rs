//! [`Connector`]: opens TCP and TLS streams, and holds the credentials.

use std::io;
use std::time::Duration;

use redis::RedisConnectionInfo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

use super::tls::TlsClient;
use super::url::{Address, Servers};
use super::{StoreError, StoreOptions};
use crate::secret_text::SecretText;

/// How to connect to any server of a store; only the address differs.
pub(super) struct Connector {
    tls: Option<TlsClient>,
    user: Option<String>,
    password: Option<SecretText>,
    database: u32,
    pub(super) connect_within: Duration,
}

/// A TCP or TLS stream.
pub(crate) trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> Stream for T {}

impl Connector {
    pub(super) fn new(servers: &Servers, options: &StoreOptions) -> Result<Self, StoreError> {
        let tls = servers.tls.then(|| TlsClient::new(&options.tls)).transpose()?;
        Ok(Self {
            tls,
            user: servers.user.clone(),
            password: servers.password.clone(),
            database: servers.database,
            connect_within: options.connect_within,
        })
    }

    /// Opens a stream to this server; with TLS, also verifies its certificate.
    pub(super) async fn stream(&self, address: &Address) -> io::Result<Box<dyn Stream>> {
        let tcp = TcpStream::connect((address.host.as_str(), address.port)).await?;
        tcp.set_nodelay(true)?;
        match &self.tls {
            Some(tls) => tls.connect(&address.host, tcp).await,
            None => Ok(Box::new(tcp)),
        }
    }

    /// The credentials, for a connection on which the client library authenticates.
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

    /// The first commands of a new connection: authentication and database. Each must reply `OK`.
    pub(super) fn handshake(&self) -> Vec<Vec<Vec<u8>>> {
        let mut commands = Vec::new();
        match (&self.user, &self.password) {
            (Some(user), Some(password)) => {
                commands.push(argv(&["AUTH", user, password.expose()]));
            }
            (None, Some(password)) => commands.push(argv(&["AUTH", password.expose()])),
            // A user without a password may have `nopass`.
            (Some(user), None) => commands.push(argv(&["AUTH", user, ""])),
            (None, None) => {}
        }
        if self.database > 0 {
            commands.push(argv(&["SELECT", &self.database.to_string()]));
        }
        commands
    }
}

/// A command as the server takes it: one byte string per word.
pub(super) fn argv(command: &[&str]) -> Vec<Vec<u8>> {
    command.iter().map(|word| word.as_bytes().to_vec()).collect()
}
