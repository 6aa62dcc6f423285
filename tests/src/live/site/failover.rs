//! How a replica takes the place of its primary: in good order, when the primary dies, and when it
//! dies with what the replica had not heard.

use std::time::Duration;

use super::{Site, Struck, TAKEN_OVER_WITHIN};
use crate::live::clock_ms;
use crate::live::crash::Crash;
use crate::live::plan::{Shape, Strike};
use crate::live::proxy::{Listener, Proxy};
use crate::live::said::{changes, figure, info};
use crate::live::view;
use crate::patience::Patience;
use crate::server::ServerError;

/// What callers know of a primary that dies, and its replica does not.
#[derive(Clone, Copy, Debug)]
pub(super) enum Unheard {
    /// Nothing: whatever callers were told, the replica has.
    Nothing,
    /// What the primary told them for so long.
    For(Duration),
}

impl Site {
    pub(super) fn fail_over(&mut self, strike: &Strike) -> Result<Struck, ServerError> {
        if self.shape == Shape::Pair {
            self.await_replica()?;
            let next = 1 - self.primary;
            let port = self.feeds[next].port().to_string();
            self.tell(self.primary, &["FAILOVER", "TO", "127.0.0.1", &port, "TIMEOUT", "5000"])?;
            if !self.takes_over(next) {
                return Ok(Struck::Missed);
            }
            self.lead_to(next);
            return Ok(Struck::Over);
        }
        let Some(replica) = self.some_replica(strike)? else { return Ok(Struck::Missed) };
        self.tell(replica, &["CLUSTER", "FAILOVER"])?;
        Ok(if self.takes_over(replica) { Struck::Over } else { Struck::Missed })
    }

    /// Whether a replica becomes the primary before the servers give it up, which on a busy machine
    /// they may.
    fn takes_over(&self, replica: usize) -> bool {
        let leads = || {
            let told = info(&self.servers[replica], "replication").ok()?;
            told.contains("role:master").then_some(())
        };
        Patience::of(GIVEN_UP_WITHIN).until(leads).is_some()
    }

    /// The primary dies; when its replica has taken over, it comes back as a replica.
    pub(super) fn crash(
        &mut self,
        strike: &Strike,
        unheard: Unheard,
    ) -> Result<Struck, ServerError> {
        if self.shape == Shape::Pair {
            let (old, next) = (self.primary, 1 - self.primary);
            if let Struck::Missed = self.kill_primary(old, next, unheard)? {
                return Ok(Struck::Missed);
            }
            self.tell(next, &["REPLICAOF", "NO", "ONE"])?;
            self.lead_to(next);
            self.bring_back(old)?;
            return Ok(Struck::Over);
        }
        let Some(replica) = self.some_replica(strike)? else { return Ok(Struck::Missed) };
        let Some(primary) = self.primary_of(replica)? else { return Ok(Struck::Missed) };
        if let Struck::Missed = self.kill_primary(primary, replica, unheard)? {
            return Ok(Struck::Missed);
        }
        self.tell(replica, &["CLUSTER", "FAILOVER", "TAKEOVER"])?;
        // It must not come back before that: it would come back empty, and still as a primary.
        self.await_role(replica, "role:master")?;
        self.bring_back(primary)?;
        Ok(Struck::Over)
    }

    /// Starts a dead server again as the replica of whoever has its place.
    pub(super) fn bring_back(&mut self, at: usize) -> Result<(), ServerError> {
        self.servers[at].restart()?;
        if self.shape == Shape::Pair {
            let port = self.feeds[self.primary].port().to_string();
            self.tell(at, &["REPLICAOF", "127.0.0.1", &port])?;
        }
        self.await_role(at, "master_link_status:up")
    }

    fn kill_primary(
        &mut self,
        primary: usize,
        replica: usize,
        unheard: Unheard,
    ) -> Result<Struck, ServerError> {
        match unheard {
            Unheard::Nothing => self.kill_heard(primary, replica),
            Unheard::For(lag) => self.kill_unheard(primary, replica, lag),
        }
    }

    /// Kills a primary in the midst of its work, when its replica has heard whatever callers were
    /// told. By itself a server answers before its replica has heard, so its last answers are kept
    /// from callers: those never learn what became of what they asked for, and nothing excuses a loss.
    fn kill_heard(&mut self, primary: usize, replica: usize) -> Result<Struck, ServerError> {
        self.way_to(primary).hold(Listener::Client);
        self.await_heard(primary, replica)?;
        self.kill(primary)?;
        // With what is under way to the replica, of which nobody was told.
        self.feed_of(primary).reset();
        self.way_to(primary).drop_held();
        self.await_role(replica, "master_link_status:down")?;
        Ok(Struck::Over)
    }

    /// Kills a primary whose replica has heard all but the last of it, and notes what that was: the
    /// primary's slots, and all that the replica holds when it has read its link to the end. As long
    /// as it lags, the primary goes on telling callers what the replica will never hear.
    fn kill_unheard(
        &mut self,
        primary: usize,
        replica: usize,
        lag: Duration,
    ) -> Result<Struck, ServerError> {
        let slots = self.slots_of(primary)?;
        let heard_until_ms = clock_ms();
        self.await_heard(primary, replica)?;
        if !self.let_lag(primary, lag)? {
            return Ok(Struck::Missed);
        }
        self.kill(primary)?;
        self.feed_of(primary).drop_held();
        self.await_role(replica, "master_link_status:down")?;
        let mut connection = self.servers[replica].connect()?;
        // A node of a cluster must be told that a replica will do; any other refuses, and will do.
        connection.call(&["READONLY"])?;
        let heir = view::read(None, &mut connection)?;
        // Whoever had a reply of the dead one notes it before anybody can have one of its heir.
        let _: Option<()> = Patience::of(NOTED_WITHIN).until(|| None);
        let taken_over_at_ms = clock_ms();
        self.crashes.push(Crash { server: primary, slots, heard_until_ms, taken_over_at_ms, heir });
        Ok(Struck::Over)
    }

    /// Waits until a replica has heard all that its primary has done by now.
    fn await_heard(&self, primary: usize, replica: usize) -> Result<(), ServerError> {
        let done = figure(&info(&self.servers[primary], "replication")?, "master_repl_offset:");
        let follows = || {
            let told = info(&self.servers[replica], "replication").unwrap_or_default();
            let heard = figure(&told, "slave_repl_offset:");
            (told.contains("master_link_status:up") && heard >= done).then_some(())
        };
        Patience::of(TAKEN_OVER_WITHIN)
            .until(follows)
            .ok_or_else(|| ServerError::Cluster("has a replica that does not follow".into()))
    }

    /// Keeps from replicas what their primary does, for so long and until it has changed anything;
    /// says whether it has.
    fn let_lag(&self, primary: usize, lag: Duration) -> Result<bool, ServerError> {
        self.feed_of(primary).hold(Listener::Replica);
        let before = changes(&self.servers[primary])?;
        let _: Option<()> = Patience::of(lag).until(|| None);
        let changed =
            || changes(&self.servers[primary]).is_ok_and(|now| now != before).then_some(());
        let lags = Patience::of(LAGS_WITHIN).until(changed).is_some();
        if !lags {
            self.feed_of(primary).release();
        }
        Ok(lags)
    }

    /// Lets replicas hear everything so much later.
    pub fn slow_down_replicas(&self, by: Duration) {
        self.feeds.iter().chain(&self.proxies).for_each(|proxy| proxy.delay_replicas(by));
    }

    /// The proxy by which callers reach a primary.
    fn way_to(&self, primary: usize) -> &Proxy {
        &self.proxies[if self.shape == Shape::Cluster { primary } else { 0 }]
    }

    /// The proxy by which replicas hear from a server.
    fn feed_of(&self, at: usize) -> &Proxy {
        if self.shape == Shape::Cluster { &self.proxies[at] } else { &self.feeds[at] }
    }
}

/// Servers give up a failover in good order after five seconds.
const GIVEN_UP_WITHIN: Duration = Duration::from_secs(15);

/// Somebody always submits or works, unless clients are paused.
const LAGS_WITHIN: Duration = Duration::from_secs(10);

/// How long after a reply its time is noted, on a busy machine.
const NOTED_WITHIN: Duration = Duration::from_millis(500);
