//! Sends signals to suspended executions, and finds the ticket that authorizes it.

use std::fmt;
use std::str::FromStr;

use selvedge_core::call::signal::{IncomingSignal, SignalEffect};
use selvedge_core::client::SendSignal;
use selvedge_core::command::Command;
use selvedge_core::id::{ExecutionId, SignalId, WaitpointId};
use selvedge_core::key::Key;
use selvedge_core::reply::fields;
use selvedge_core::token::WaitpointToken;
use uuid::Uuid;

use super::invalid_input::InvalidInput;
use super::names::check_argument;
use super::task::PAYLOAD_BYTES_MAX;
use super::{Client, ClientError};

/// The address of a waitpoint with its signed token: whoever has it may send signals to it.
///
/// It is a credential: [`SignalTicket::expose`] returns it as text to hand out; `Debug` hides the
/// token.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SignalTicket {
    /// The execution that waits.
    pub execution_id: ExecutionId,
    /// Its waitpoint.
    pub waitpoint_id: WaitpointId,
    /// The signed token of the waitpoint.
    pub token: WaitpointToken,
}

impl SignalTicket {
    /// The ticket as text, `<execution>/<waitpoint>/<token>`. Parse it with [`str::parse`].
    #[must_use]
    pub fn expose(&self) -> String {
        format!("{}/{}/{}", self.execution_id, self.waitpoint_id, self.token.expose())
    }
}

impl fmt::Debug for SignalTicket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SignalTicket({}/{}/…)", self.execution_id, self.waitpoint_id)
    }
}

impl FromStr for SignalTicket {
    type Err = InvalidInput;

    fn from_str(text: &str) -> Result<Self, InvalidInput> {
        // The text is a credential: no message quotes it.
        let wrong = |part| InvalidInput::Ticket { part };
        let mut parts = text.splitn(3, '/');
        let mut part = || parts.next().unwrap_or_default();
        Ok(Self {
            execution_id: part().parse().map_err(|_| wrong("execution id"))?,
            waitpoint_id: part().parse().map_err(|_| wrong("waitpoint id"))?,
            token: part().parse().map_err(|_| wrong("token"))?,
        })
    }
}

/// A signal to send.
///
/// ```
/// use selvedge::client::Signal;
///
/// let signal = Signal::new("approved").payload(b"by the board").source("user", "board-7");
/// assert_eq!(signal.name(), "approved");
/// ```
#[derive(Clone, Debug)]
pub struct Signal {
    name: String,
    payload: Vec<u8>,
    source_type: String,
    source_identity: String,
    idempotency_key: Option<String>,
    correlation_id: Option<String>,
}

impl Signal {
    /// A signal with the name that the waiting execution asked for.
    #[must_use]
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            payload: Vec::new(),
            source_type: "client".to_owned(),
            source_identity: String::new(),
            idempotency_key: None,
            correlation_id: None,
        }
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its payload: any bytes, at most [`PAYLOAD_BYTES_MAX`].
    #[must_use]
    pub fn payload(mut self, payload: impl Into<Vec<u8>>) -> Self {
        self.payload = payload.into();
        self
    }

    /// The type and identity of the sender, recorded with the signal. Both are names; the identity
    /// may be empty.
    #[must_use]
    pub fn source(mut self, kind: impl Into<String>, identity: impl Into<String>) -> Self {
        self.source_type = kind.into();
        self.source_identity = identity.into();
        self
    }

    /// Makes sending idempotent: a signal with the same key is accepted once within a day.
    #[must_use]
    pub fn idempotency_key(mut self, key: impl Into<String>) -> Self {
        self.idempotency_key = Some(key.into());
        self
    }

    /// Its idempotency key, if it has one.
    #[cfg(feature = "inspect")]
    pub(crate) fn key(&self) -> Option<&str> {
        self.idempotency_key.as_deref()
    }

    /// A correlation id, recorded with the signal.
    #[must_use]
    pub fn correlation_id(mut self, id: impl Into<String>) -> Self {
        self.correlation_id = Some(id.into());
        self
    }

    /// Checks names, idempotency key and payload size.
    fn check(&self) -> Result<(), InvalidInput> {
        check_argument("name of the signal", &self.name)?;
        check_argument("kind of the source of the signal", &self.source_type)?;
        if !self.source_identity.is_empty() {
            check_argument("source of the signal", &self.source_identity)?;
        }
        if let Some(key) = &self.idempotency_key {
            check_argument("idempotency key", key)?;
        }
        let bytes = self.payload.len();
        if bytes > PAYLOAD_BYTES_MAX {
            return Err(InvalidInput::PayloadTooLarge { bytes });
        }
        Ok(())
    }

    fn into_incoming(self, ticket: &SignalTicket) -> IncomingSignal {
        let signal_id = SignalId::from(Uuid::new_v4());
        IncomingSignal {
            signal_id,
            execution_id: ticket.execution_id.clone(),
            waitpoint_id: ticket.waitpoint_id,
            name: self.name,
            category: "external".to_owned(),
            source_type: self.source_type,
            source_identity: self.source_identity,
            payload: self.payload,
            payload_encoding: "bytes".to_owned(),
            // The default key is the signal's own id, so that a retried call counts once.
            idempotency_key: Some(self.idempotency_key.unwrap_or_else(|| signal_id.to_string())),
            correlation_id: self.correlation_id,
            target_scope: "waitpoint".to_owned(),
            created_at: None,
            dedup_ttl_ms: REMEMBERED_MS,
            resume_delay_ms: 0,
            signal_maxlen: IncomingSignal::KEPT_MAX,
            max_signals_per_execution: IncomingSignal::PER_EXECUTION_MAX,
            token: ticket.token.clone(),
        }
    }
}

impl Client {
    /// Sends a signal to a waitpoint. Returns its effect, or `None` if a signal with the same
    /// idempotency key was accepted before.
    ///
    /// # Errors
    /// When the signal is invalid, the token does not verify, the execution does not wait any more,
    /// or the store does not answer.
    pub async fn signal(
        &self,
        ticket: &SignalTicket,
        signal: Signal,
    ) -> Result<Option<SignalEffect>, ClientError> {
        signal.check()?;
        self.run(SendSignal::new(signal.into_incoming(ticket))).await
    }

    /// The ticket of the current waitpoint of a suspended execution; `None` if it is not suspended.
    /// For operators: everyone who can read the store can read the tokens.
    ///
    /// # Errors
    /// [`ClientError::NotFound`] when the execution does not exist; otherwise when the store does
    /// not answer.
    pub async fn ticket(&self, id: &ExecutionId) -> Result<Option<SignalTicket>, ClientError> {
        let core = Key::execution(id).core();
        let names: [&[u8]; 2] = [b"lifecycle_phase", b"current_waitpoint_id"];
        let record = fields(self.read_one(Command::read("HMGET", &core, &names)).await?);
        let [phase, waitpoint] = record.as_slice() else { return Ok(None) };
        if phase.is_empty() {
            return Err(ClientError::NotFound { kind: "execution", id: id.to_string() });
        }
        let Ok(waitpoint_id) = waitpoint.parse::<WaitpointId>() else { return Ok(None) };
        if phase != "suspended" {
            return Ok(None);
        }
        let key = Key::waitpoint(id.partition(), waitpoint_id);
        let token =
            fields(self.read_one(Command::read("HMGET", &key, &[b"waitpoint_token"])).await?);
        let token = token.first().and_then(|token| token.parse().ok());
        Ok(token.map(|token| SignalTicket { execution_id: id.clone(), waitpoint_id, token }))
    }
}

/// How long the idempotency key of a signal is kept: a day.
const REMEMBERED_MS: u64 = 86_400_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_signals_are_refused_before_they_are_sent() {
        for (signal, says) in [
            (Signal::new(""), "name of the signal"),
            (Signal::new("a\tb"), "character 2"),
            (Signal::new("a").idempotency_key(""), "idempotency key"),
            (Signal::new("a").source("", "x"), "kind of the source"),
            (Signal::new("a").source("user", "x\n"), "the source of the signal cannot be used"),
            (Signal::new("a").payload(vec![0; PAYLOAD_BYTES_MAX + 1]), "the limit is 16777216"),
        ] {
            let error = signal.check().unwrap_err().to_string();
            assert!(error.contains(says), "{error} / {says}");
        }
        assert!(Signal::new("a").payload(vec![0; PAYLOAD_BYTES_MAX]).check().is_ok());
        assert!(Signal::new("a").source("user", "").check().is_ok());
    }

    #[test]
    fn a_ticket_round_trips_as_text_and_debug_hides_its_token() {
        let text = "{fp:7}:550e8400-e29b-41d4-a716-446655440000/\
                    123e4567-e89b-12d3-a456-426614174000/k1:ffce0f2360557335e0fdcbf3438cd2990f67f58b";
        let ticket: SignalTicket = text.parse().unwrap();
        assert_eq!(ticket.expose(), text);
        assert!(!format!("{ticket:?}").contains("ffce"));
        for bad in ["", "x", "{fp:7}:550e8400-e29b-41d4-a716-446655440000/y/z"] {
            let refused = bad.parse::<SignalTicket>();
            assert!(matches!(refused, Err(InvalidInput::Ticket { .. })), "{refused:?}");
        }
    }
}
