//! [`Link`]: one connection to one server, shared by everybody who talks to it.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, RedisConnectionInfo};
use selvedge_core::engine::Answer;
use selvedge_core::error::ServerError;
use tokio::io::{AsyncRead as _, AsyncWrite as _, ReadBuf};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use super::access::Access;
use super::reply;
use super::url::Address;

/// One live connection. It ends by itself when the server hangs up, and is ended when it is mute.
///
/// The client library only frames and matches replies here: it neither reconnects nor repeats
/// anything, so what it reports about a command is all that was done about it.
pub(super) struct Link {
    connection: MultiplexedConnection,
    /// Fires when nothing can be sent any more.
    ended: CancellationToken,
    /// How many pipelines have been answered: tells a slow server from a mute one.
    answered: AtomicU64,
    _driver: AbortOnDropHandle<()>,
}

impl Link {
    /// Connects, and says who we are. The error's class tells who has to act.
    pub(super) async fn open(address: &Address, access: &Access) -> Result<Self, ServerError> {
        let unreachable = |error: &dyn std::fmt::Display| {
            ServerError::never_sent(format!("cannot reach {address}: {error}"))
        };
        let within = access.connect_within;
        let opening = async {
            let stream = access.stream(address).await.map_err(|error| unreachable(&error))?;
            let config = AsyncConnectionConfig::new()
                .set_response_timeout(None)
                .set_connection_timeout(None)
                .set_pipeline_buffer_size(PIPELINES_QUEUED);
            MultiplexedConnection::new_with_config(&BARE, stream, config)
                .await
                .map_err(|error| unreachable(&error))
        };
        let (connection, driver) = timeout(within, opening)
            .await
            .map_err(|_| unreachable(&format!("no connection within {within:?}")))??;
        let ended = CancellationToken::new();
        let guard = ended.clone().drop_guard();
        let driver = tokio::spawn(async move {
            let _ends = guard;
            driver.await;
        });
        let link = Self {
            connection,
            ended,
            answered: AtomicU64::new(0),
            _driver: AbortOnDropHandle::new(driver),
        };
        link.greet(access).await?;
        Ok(link)
    }

    async fn greet(&self, access: &Access) -> Result<(), ServerError> {
        let greeting = access.greeting();
        if greeting.is_empty() {
            return Ok(());
        }
        let words: Vec<&[Vec<u8>]> = greeting.iter().map(Vec::as_slice).collect();
        for answer in self.send(&words, access.connect_within).await {
            answer.into_result()?;
        }
        Ok(())
    }

    /// Sends commands as one pipeline; one answer each, in order.
    pub(super) async fn send(&self, commands: &[&[Vec<u8>]], within: Duration) -> Vec<Answer> {
        if self.ended.is_cancelled() {
            let error = ServerError::never_sent("the connection has ended");
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
        let mut connection = self.connection.clone();
        let exchange = connection.send_packed_commands(&pipeline, 0, commands.len());
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
                format!("{} replies came to {} commands", replies.len(), commands.len())
            }
            Ok(Err(error)) => {
                self.ended.cancel();
                error.to_string()
            }
            Err(_) => {
                // Slow is not mute: others may be getting their answers all the while.
                if self.answered.load(Ordering::Relaxed) == answered_before {
                    self.ended.cancel();
                }
                format!("no answer within {within:?}")
            }
        };
        vec![Answer::PerhapsApplied(ServerError::silence(error)); commands.len()]
    }

    /// Waits until nothing can be sent any more.
    pub(super) async fn ended(&self) {
        self.ended.cancelled().await;
    }

    pub(super) fn has_ended(&self) -> bool {
        self.ended.is_cancelled()
    }
}

/// Why a server hung up, where the client library only says that it did. Something else listens there,
/// a web server perhaps: any server of ours answers a `PING` with a status or an error. Or it does
/// not like our certificate, which it says after the handshake.
pub(super) async fn why_hung_up(address: &Address, access: &Access) -> Option<String> {
    let first_byte = async {
        let mut stream = access.stream(address).await?;
        poll_fn(|cx| Pin::new(&mut stream).poll_write(cx, b"*1\r\n$4\r\nPING\r\n")).await?;
        poll_fn(|cx| Pin::new(&mut stream).poll_flush(cx)).await?;
        let mut byte = [0];
        let mut read = ReadBuf::new(&mut byte);
        poll_fn(|cx| Pin::new(&mut stream).poll_read(cx, &mut read)).await?;
        Ok::<_, io::Error>(read.filled().first().copied())
    };
    match timeout(access.connect_within, first_byte).await {
        Ok(Ok(Some(byte))) if !matches!(byte, b'+' | b'-') => {
            Some("what answers there is no Valkey or Redis server".to_owned())
        }
        Ok(Err(error)) if error.to_string().contains("alert") => Some(format!("TLS: {error}")),
        Ok(Ok(_) | Err(_)) | Err(_) => None,
    }
}

/// The client library greets nobody: our own greeting keeps the server's words when it is refused.
static BARE: LazyLock<RedisConnectionInfo> =
    LazyLock::new(|| RedisConnectionInfo::default().set_skip_set_lib_name());

/// Pipelines that may wait for the socket before their senders do. The engine's window is 1,024.
const PIPELINES_QUEUED: usize = 2_048;
