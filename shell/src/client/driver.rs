//! Runs a procedure of the client: carries out its effects on the store, and feeds it answers,
//! pushes and the time. Every decision is the procedure's.

use std::pin::Pin;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use selvedge_core::client::{Effect, Input, Machine, Procedure, Settings};
use selvedge_core::command::{Answer, Ticket};
use selvedge_core::push::Hint;
use selvedge_core::time::LocalTime;
use tokio::time::{Instant, sleep_until};
use uuid::Uuid;

use super::completions::Waiter;
use super::{Client, ClientError};
use crate::store::{Push, Subscription};

type InFlight<'a> = Pin<Box<dyn Future<Output = (Ticket, Vec<Answer>)> + Send + 'a>>;

/// Where the pushes of a procedure come from.
enum Pushes<'a> {
    None,
    /// The subscription that all waiters of a client share.
    Shared(Waiter),
    /// A subscription that outlives the procedure.
    Own(&'a mut Subscription),
}

impl Pushes<'_> {
    async fn next(&mut self) -> Input {
        match self {
            Self::None => std::future::pending().await,
            Self::Shared(waiter) => waiter.next().await,
            Self::Own(subscription) => loop {
                match subscription.next().await {
                    Push::Gap => return Input::PushGap,
                    Push::Message { channel, payload } => {
                        if let Ok(hint) = Hint::read(&channel, &payload) {
                            return Input::Push(hint);
                        }
                    }
                }
            },
        }
    }
}

impl Client {
    /// Runs a procedure to its end.
    pub(crate) async fn run<P: Procedure>(&self, procedure: P) -> Result<P::Output, ClientError> {
        self.drive(procedure, Pushes::None).await
    }

    /// Runs a procedure whose pushes come from this subscription.
    pub(super) async fn run_with_pushes<P: Procedure>(
        &self,
        procedure: P,
        pushes: &mut Subscription,
    ) -> Result<P::Output, ClientError> {
        self.drive(procedure, Pushes::Own(pushes)).await
    }

    async fn drive<P: Procedure>(
        &self,
        procedure: P,
        mut pushes: Pushes<'_>,
    ) -> Result<P::Output, ClientError> {
        let within = self.store().options().call_within;
        let settings = Settings {
            retry_for: self.0.retry_for,
            // More than the store's own timeout, because the store's error says more.
            call_timeout: within + ANSWER_WITHIN,
        };
        let mut machine = Machine::new(procedure, settings, Uuid::new_v4().as_u64_pair().0);
        let started = Instant::now();
        let mut in_flight: FuturesUnordered<InFlight<'_>> = FuturesUnordered::new();
        let mut input = Input::Wake;
        loop {
            machine.handle(now(started), input);
            while let Some(effect) = machine.next_effect() {
                match effect {
                    Effect::Send { ticket, batch, .. } => in_flight.push(Box::pin(async move {
                        (ticket, self.store().run(batch, within).await)
                    })),
                    Effect::Listen(ids) => {
                        pushes = Pushes::Shared(self.completions().register(&ids));
                    }
                }
            }
            if let Some(result) = machine.take_result() {
                return result.map_err(|failure| ClientError::of(failure, self.partitions()));
            }
            let wake_at = machine.deadline().map(|at| started + Duration::from_millis(at.0));
            input = tokio::select! {
                Some((ticket, answers)) = in_flight.next() => Input::Settled { ticket, answers },
                push = pushes.next() => push,
                () = wake(wake_at) => Input::Wake,
            };
        }
    }
}

async fn wake(at: Option<Instant>) {
    match at {
        Some(at) => sleep_until(at).await,
        None => std::future::pending().await,
    }
}

fn now(started: Instant) -> LocalTime {
    LocalTime(u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX))
}

/// How much later than its timeout the store may report it.
const ANSWER_WITHIN: Duration = Duration::from_secs(1);
