//! [`Connection`]: one multiplexed connection to one server.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, RedisConnectionInfo};
use selvedge_core::command::Answer;
use selvedge_core::error::ServerError;
use tokio::io::{AsyncRead as _, AsyncWrite as _, ReadBuf};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use super::StoreError;
use super::connector::Connector;
use super::reply;
use super::url::Address;

/// One open connection. It ends when the server closes it, and is closed when the server stops
/// answering.
///
/// The client library is used only to frame commands and match replies. It neither reconnects nor
/// retries, so a command is sent at most once.
pub(super) struct Connection {
    multiplexed: MultiplexedConnection,
    /// Fires when the connection has ended.
    ended: CancellationToken,
    /// How many pipelines were answered: tells a slow server from one that stopped answering.
    answered: AtomicU64,
    _driver: AbortOnDropHandle<()>,
}

impl Connection {
    /// Connects, authenticates and selects the database.
    pub(super) async fn open(
        address: &Address,
        connector: &Connector,
    ) -> Result<Self, ServerError> {
        let unreachable =
            |error: &dyn std::fmt::Display| ServerError::unreachable(address.to_string(), error);
        let within = connector.connect_within;
        let opening = async {
            let stream = connector.stream(address).await.map_err(|error| unreachable(&error))?;
            let config = AsyncConnectionConfig::new()
                .set_response_timeout(None)
                .set_connection_timeout(None)
                .set_pipeline_buffer_size(PIPELINES_QUEUED);
            MultiplexedConnection::new_with_config(&BARE, stream, config)
                .await
                .map_err(|error| unreachable(&error))
        };
        let (multiplexed, driver) = timeout(within, opening)
            .await
            .map_err(|_| unreachable(&format!("no connection within {within:?}")))??;
        let ended = CancellationToken::new();
        let guard = ended.clone().drop_guard();
        let driver = tokio::spawn(async move {
            let _ends = guard;
            driver.await;
        });
        let connection = Self {
            multiplexed,
            ended,
            answered: AtomicU64::new(0),
            _driver: AbortOnDropHandle::new(driver),
        };
        connection.authenticate(connector).await?;
        Ok(connection)
    }

    async fn authenticate(&self, connector: &Connector) -> Result<(), ServerError> {
        let commands = connector.handshake();
        if commands.is_empty() {
            return Ok(());
        }
        let words: Vec<&[Vec<u8>]> = commands.iter().map(Vec::as_slice).collect();
        for answer in self.send(&words, connector.connect_within).await {
            answer.into_result()?;
        }
        Ok(())
    }

    /// Sends commands as one pipeline; one answer each, in order.
    pub(super) async fn send(&self, commands: &[&[Vec<u8>]], within: Duration) -> Vec<Answer> {
        if self.ended.is_cancelled() {
            let error = ServerError::never_sent("the connection is closed");
            return vec![Answer::NotApplied(error); commands.len()];
        }
        let mut pipeline = redis::Pipeline::with_capacity(commands.len());
        for words in commands {
            let mut command = redis::Cmd::new();
            for word in *words {
                command.arg(word.as_slice());
            }
            pipeline.add_command(command);
        }
        let answered_before = self.answered.load(Ordering::Relaxed);
        let mut multiplexed = self.multiplexed.clone();
        let exchange = multiplexed.send_packed_commands(&pipeline, 0, commands.len());
        let error = match timeout(within, exchange).await {
            Ok(Ok(replies)) if replies.len() == commands.len() => {
                self.answered.fetch_add(1, Ordering::Relaxed);
                return replies
                    .into_iter()
                    .map(|wire| Answer::Applied(reply::value(wire)))
                    .collect();
            }
            Ok(Ok(replies)) => {
                self.ended.cancel();
                format!("got {} replies to {} commands", replies.len(), commands.len())
            }
            Ok(Err(error)) => {
                self.ended.cancel();
                error.to_string()
            }
            Err(_) => {
                // Keep the connection if other pipelines were answered meanwhile: it is only slow.
                if self.answered.load(Ordering::Relaxed) == answered_before {
                    self.ended.cancel();
                }
                format!("no reply within {within:?}")
            }
        };
        vec![Answer::PerhapsApplied(ServerError::silence(error)); commands.len()]
    }

    /// Waits until the connection has ended.
    pub(super) async fn ended(&self) {
        self.ended.cancelled().await;
    }

    pub(super) fn has_ended(&self) -> bool {
        self.ended.is_cancelled()
    }
}

/// Why a server closed the connection, where the client library reports only that it did. Either it
/// is no Valkey or Redis server, which would answer `PING` with a status or an error; or it refused
/// the client certificate, which shows only after the TLS handshake.
pub(super) async fn diagnose_hangup(
    address: &Address,
    connector: &Connector,
) -> Option<StoreError> {
    let server = address.to_string();
    let first_byte = async {
        let mut stream = connector.stream(address).await?;
        poll_fn(|cx| Pin::new(&mut stream).poll_write(cx, b"*1\r\n$4\r\nPING\r\n")).await?;
        poll_fn(|cx| Pin::new(&mut stream).poll_flush(cx)).await?;
        let mut byte = [0];
        let mut read = ReadBuf::new(&mut byte);
        poll_fn(|cx| Pin::new(&mut stream).poll_read(cx, &mut read)).await?;
        Ok::<_, io::Error>(read.filled().first().copied())
    };
    match timeout(connector.connect_within, first_byte).await {
        Ok(Ok(Some(byte))) if !matches!(byte, b'+' | b'-') => {
            Some(StoreError::NotValkey { server })
        }
        Ok(Err(error)) if error.to_string().contains("alert") => {
            Some(StoreError::TlsRefused { server, reason: error.to_string() })
        }
        Ok(Ok(_) | Err(_)) | Err(_) => None,
    }
}

/// Keeps the client library from authenticating: [`Connection::authenticate`] preserves the
/// server's error text.
static BARE: LazyLock<RedisConnectionInfo> =
    LazyLock::new(|| RedisConnectionInfo::default().set_skip_set_lib_name());

/// Pipelines queued for the socket before senders wait. The engine sends at most 1,024 at a time.
const PIPELINES_QUEUED: usize = 2_048;
