//! Failovers: planned, after the death of the primary, and after its death with writes that the
//! replica had not received.

use std::time::Duration;

use super::{Injection, Servers, TAKEN_OVER_WITHIN};
use crate::live::clock_ms;
use crate::live::cluster_info::{changes, figure, info};
use crate::live::fault_schedule::{Shape, TimedFault};
use crate::live::primary_crash::PrimaryCrash;
use crate::live::read_keyspace;
use crate::proxy::{Listener, Proxy};
use crate::server::ServerError;
use crate::wait::Wait;

/// What callers know of a primary that dies, and its replica does not.
#[derive(Clone, Copy, Debug)]
pub(super) enum Unheard {
    /// Nothing: the replica has every acknowledged write.
    Nothing,
    /// The writes that the primary acknowledged during this time.
    For(Duration),
}

impl Servers {
    pub(super) fn fail_over(&mut self, timed: &TimedFault) -> Result<Injection, ServerError> {
        if self.shape == Shape::Pair {
            self.await_replica()?;
            let next = 1 - self.primary;
            let port = self.feeds[next].port().to_string();
            self.tell(self.primary, &["FAILOVER", "TO", "127.0.0.1", &port, "TIMEOUT", "5000"])?;
            if !self.takes_over(next) {
                return Ok(Injection::Missed);
            }
            self.lead_to(next);
            return Ok(Injection::Over);
        }
        let Some(replica) = self.some_replica(timed)? else { return Ok(Injection::Missed) };
        self.tell(replica, &["CLUSTER", "FAILOVER"])?;
        Ok(if self.takes_over(replica) { Injection::Over } else { Injection::Missed })
    }

    /// Whether a replica becomes the primary before the servers give it up, which on a busy machine
    /// they may.
    fn takes_over(&self, replica: usize) -> bool {
        let leads = || {
            let told = info(&self.servers[replica], "replication").ok()?;
            told.contains("role:master").then_some(())
        };
        Wait::at_most(GIVEN_UP_WITHIN).until(leads).is_some()
    }

    /// The primary dies; when its replica has taken over, it comes back as a replica.
    pub(super) fn crash(
        &mut self,
        timed: &TimedFault,
        unheard: Unheard,
    ) -> Result<Injection, ServerError> {
        if self.shape == Shape::Pair {
            let (old, next) = (self.primary, 1 - self.primary);
            if let Injection::Missed = self.kill_primary(old, next, unheard)? {
                return Ok(Injection::Missed);
            }
            self.tell(next, &["REPLICAOF", "NO", "ONE"])?;
            self.lead_to(next);
            self.bring_back(old)?;
            return Ok(Injection::Over);
        }
        let Some(replica) = self.some_replica(timed)? else { return Ok(Injection::Missed) };
        let Some(primary) = self.primary_of(replica)? else { return Ok(Injection::Missed) };
        if let Injection::Missed = self.kill_primary(primary, replica, unheard)? {
            return Ok(Injection::Missed);
        }
        self.tell(replica, &["CLUSTER", "FAILOVER", "TAKEOVER"])?;
        // It must not come back before that: it would come back empty, and still as a primary.
        self.await_role(replica, "role:master")?;
        self.bring_back(primary)?;
        Ok(Injection::Over)
    }

    /// Starts a dead server again as the replica of its successor.
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
    ) -> Result<Injection, ServerError> {
        match unheard {
            Unheard::Nothing => self.kill_heard(primary, replica),
            Unheard::For(lag) => self.kill_unheard(primary, replica, lag),
        }
    }

    /// Kills a primary in the midst of its work, when its replica has heard whatever callers were
    /// told. By itself a server answers before its replica has heard, so its last answers are kept
    /// from callers: those never learn what became of what they asked for, and nothing excuses a
    /// loss.
    fn kill_heard(&mut self, primary: usize, replica: usize) -> Result<Injection, ServerError> {
        self.way_to(primary).hold(Listener::Client);
        self.await_heard(primary, replica)?;
        self.kill(primary)?;
        // With writes in flight to the replica that no caller was told about.
        self.feed_of(primary).reset();
        self.way_to(primary).drop_held();
        self.await_role(replica, "master_link_status:down")?;
        Ok(Injection::Over)
    }

    /// Kills a primary whose replica has heard all but the last of it, and notes what that was: the
    /// primary's slots, and all that the replica holds when it has read its link to the end. As
    /// long as it lags, the primary goes on telling callers what the replica will never hear.
    fn kill_unheard(
        &mut self,
        primary: usize,
        replica: usize,
        lag: Duration,
    ) -> Result<Injection, ServerError> {
        let slots = self.slots_of(primary)?;
        let heard_until_ms = clock_ms();
        self.await_heard(primary, replica)?;
        if !self.let_lag(primary, lag)? {
            return Ok(Injection::Missed);
        }
        self.kill(primary)?;
        self.feed_of(primary).drop_held();
        self.await_role(replica, "master_link_status:down")?;
        let mut connection = self.servers[replica].connect()?;
        // A node of a cluster needs READONLY; any other server refuses it, which does not matter.
        connection.call(&["READONLY"])?;
        let promoted = read_keyspace::read(None, &mut connection)?;
        // Whoever had a reply of the dead one notes it before the promoted replica replies to
        // anybody.
        let _: Option<()> = Wait::at_most(NOTED_WITHIN).until(|| None);
        let taken_over_at_ms = clock_ms();
        self.crashes.push(PrimaryCrash {
            server: primary,
            slots,
            heard_until_ms,
            taken_over_at_ms,
            promoted,
        });
        Ok(Injection::Over)
    }

    /// Waits until a replica has received everything that its primary has written by now.
    fn await_heard(&self, primary: usize, replica: usize) -> Result<(), ServerError> {
        let done = figure(&info(&self.servers[primary], "replication")?, "master_repl_offset:");
        let follows = || {
            let told = info(&self.servers[replica], "replication").unwrap_or_default();
            let heard = figure(&told, "slave_repl_offset:");
            (told.contains("master_link_status:up") && heard >= done).then_some(())
        };
        Wait::at_most(TAKEN_OVER_WITHIN)
            .until(follows)
            .ok_or_else(|| ServerError::Cluster("has a replica that does not follow".into()))
    }

    /// Keeps from replicas what their primary does, for so long and until it has changed anything;
    /// says whether it has.
    fn let_lag(&self, primary: usize, lag: Duration) -> Result<bool, ServerError> {
        self.feed_of(primary).hold(Listener::Replica);
        let before = changes(&self.servers[primary])?;
        let _: Option<()> = Wait::at_most(lag).until(|| None);
        let changed =
            || changes(&self.servers[primary]).is_ok_and(|now| now != before).then_some(());
        let lags = Wait::at_most(LAGS_WITHIN).until(changed).is_some();
        if !lags {
            self.feed_of(primary).release();
        }
        Ok(lags)
    }

    /// Delays the data to replicas.
    pub fn slow_down_replicas(&self, by: Duration) {
        self.feeds.iter().chain(&self.proxies).for_each(|proxy| proxy.delay_replicas(by));
    }

    /// The proxy by which callers reach a primary.
    fn way_to(&self, primary: usize) -> &Proxy {
        &self.proxies[if self.shape == Shape::Cluster { primary } else { 0 }]
    }

    /// The proxy by which replicas reach a server.
    fn feed_of(&self, at: usize) -> &Proxy {
        if self.shape == Shape::Cluster { &self.proxies[at] } else { &self.feeds[at] }
    }
}

/// Servers give up a planned failover after five seconds.
const GIVEN_UP_WITHIN: Duration = Duration::from_secs(15);

/// There is always some load, unless clients are paused.
const LAGS_WITHIN: Duration = Duration::from_secs(10);

/// How long after a reply its time is noted, on a busy machine.
const NOTED_WITHIN: Duration = Duration::from_millis(500);
