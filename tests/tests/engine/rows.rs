//! How each scanner's candidates are made, broken and changed: a row per scanner.

use std::fmt::Write as _;
use std::time::Duration;

use selvedge_core::engine::{Command, EngineConfig, Observation, ScannerName};
use selvedge_tests::rig::Rig;

use crate::flow_rows::FLOW_ROWS;
use crate::kit::{World, core, execution, lane, only};

/// How one scanner's candidates are made.
pub(crate) struct Row {
    pub(crate) name: ScannerName,
    /// The function that does the work.
    pub(crate) function: &'static str,
    /// The index that lists candidates, and whether it has scores.
    pub(crate) index: (&'static str, bool),
    pub(crate) batch: usize,
    pub(crate) filtered: bool,
    /// The `n`-th candidate's member.
    pub(crate) member: fn(usize) -> String,
    /// The record that makes a candidate fail when it is a plain text.
    pub(crate) record: fn(usize) -> String,
    pub(crate) plant: fn(&mut Rig, usize),
    /// What somebody else does between read and call; `$` stands for the member.
    pub(crate) change: &'static str,
}

fn uuid(n: usize) -> String {
    format!("00000000-0000-4000-8000-{n:012}")
}

pub(crate) fn of_execution(n: usize) -> String {
    core(&execution(n))
}

fn waitpoint(n: usize) -> String {
    format!("ff:wp:{{fp:0}}:{}", uuid(n))
}

fn budget(n: usize) -> String {
    format!("ff:budget:{{b:0}}:{}", uuid(n))
}

fn quota(n: usize) -> String {
    format!("ff:quota:{{q:0}}:{}", uuid(n))
}

/// An execution whose record says something else than its creation did.
fn put(rig: &mut Rig, n: usize, fields: &str) {
    let id = execution(n);
    rig.create(&id, "{}");
    rig.run(&format!("ZREM {} {id}", lane("eligible")));
    rig.run(&format!("HSET {} {fields}", core(&id)));
}

fn leased(rig: &mut Rig, n: usize) {
    rig.create(&execution(n), "{}");
    rig.claim(&execution(n), 1_000);
}

const ROWS: &[Row] = &[
    Row {
        name: ScannerName::LeaseExpiry,
        function: "ff_mark_lease_expired_if_due",
        index: ("ff:idx:{fp:0}:lease_expiry", true),
        batch: 50,
        filtered: true,
        member: execution,
        record: of_execution,
        plant: leased,
        change: "HSET ff:exec:{fp:0}:$:core lease_expires_at 1800000000000",
    },
    Row {
        name: ScannerName::LeaseReclaimer,
        function: "ff_requeue_lost_lease",
        index: ("ff:idx:{fp:0}:lease_expiry", true),
        batch: 50,
        filtered: true,
        member: execution,
        record: of_execution,
        plant: leased,
        change: "HSET ff:exec:{fp:0}:$:core lease_expires_at 1800000000000",
    },
    Row {
        name: ScannerName::DelayedPromoter,
        function: "ff_promote_delayed",
        index: ("ff:idx:{fp:0}:lane:default:delayed", true),
        batch: 50,
        filtered: true,
        member: execution,
        record: of_execution,
        plant: |rig, n| {
            let fields = "eligibility_state not_eligible_until_time blocking_reason \
                          waiting_for_delay delay_until 500 public_state delayed";
            put(rig, n, fields);
            rig.run(&format!("ZADD {} 500 {}", lane("delayed"), execution(n)));
        },
        change: "HSET ff:exec:{fp:0}:$:core delay_until 1800000000000",
    },
    Row {
        name: ScannerName::AttemptTimeout,
        function: "ff_expire_if_due",
        index: ("ff:idx:{fp:0}:attempt_timeout", true),
        batch: 50,
        filtered: true,
        member: execution,
        record: of_execution,
        plant: |rig, n| {
            rig.create(&execution(n), "{}");
            rig.claim(&execution(n), 600_000);
            rig.run(&format!("ZADD ff:idx:{{fp:0}}:attempt_timeout 500 {}", execution(n)));
        },
        change: "HSET ff:exec:{fp:0}:$:core current_attempt_index 7",
    },
    Row {
        name: ScannerName::ExecutionDeadline,
        function: "ff_expire_if_due",
        index: ("ff:idx:{fp:0}:execution_deadline", true),
        batch: 50,
        filtered: true,
        member: execution,
        record: of_execution,
        plant: |rig, n| {
            rig.create(&execution(n), "{}");
            rig.run(&format!("ZADD ff:idx:{{fp:0}}:execution_deadline 500 {}", execution(n)));
        },
        change: "ZADD ff:idx:{fp:0}:execution_deadline 1800000000000 $",
    },
    Row {
        name: ScannerName::SuspensionTimeout,
        function: "ff_expire_suspension",
        index: ("ff:idx:{fp:0}:suspension_timeout", true),
        batch: 50,
        filtered: true,
        member: execution,
        record: of_execution,
        plant: |rig, n| {
            let id = execution(n);
            let wp = uuid(n);
            put(
                rig,
                n,
                &format!(
                    "lifecycle_phase suspended public_state suspended current_waitpoint_id {wp} \
                     attempt_state attempt_interrupted current_suspension_id s{n}"
                ),
            );
            rig.run(&format!("HSET {} state active suspension_id s{n}", waitpoint(n)));
            rig.run(&format!(
                "HSET ff:exec:{{fp:0}}:{id}:suspension:current suspension_id s{n} waitpoint_id \
                 {wp} timeout_at 500 timeout_behavior fail"
            ));
            rig.run(&format!("ZADD {} 500 {id}", lane("suspended")));
            rig.run(&format!("ZADD ff:idx:{{fp:0}}:suspension_timeout 500 {id}"));
        },
        change: "HSET ff:exec:{fp:0}:$:suspension:current timeout_at 1800000000000",
    },
    Row {
        name: ScannerName::PendingWpExpiry,
        function: "ff_expire_pending_waitpoint_if_due",
        index: ("ff:idx:{fp:0}:pending_waitpoint_expiry", true),
        batch: 100,
        filtered: true,
        member: uuid,
        record: waitpoint,
        plant: |rig, n| {
            rig.create(&execution(n), "{}");
            rig.run(&format!(
                "HSET {} state pending expires_at 500 execution_id {}",
                waitpoint(n),
                execution(n)
            ));
            rig.run(&format!("ZADD ff:idx:{{fp:0}}:pending_waitpoint_expiry 500 {}", uuid(n)));
        },
        change: "HSET ff:wp:{fp:0}:$ state active",
    },
    Row {
        name: ScannerName::RetentionTrimmer,
        function: "ff_purge_execution",
        index: ("ff:idx:{fp:0}:lane:default:terminal", true),
        batch: 20,
        filtered: true,
        member: execution,
        record: of_execution,
        plant: |rig, n| {
            put(rig, n, "lifecycle_phase terminal public_state completed completed_at 500");
            rig.run(&format!("ZADD {} 500 {}", lane("terminal"), execution(n)));
        },
        change: "HSET ff:exec:{fp:0}:$:core lifecycle_phase runnable",
    },
    Row {
        name: ScannerName::BudgetReset,
        function: "ff_reset_budget_if_due",
        index: ("ff:idx:{b:0}:budget_resets", true),
        batch: 20,
        filtered: false,
        member: uuid,
        record: budget,
        plant: |rig, n| {
            rig.run(&format!("HSET {} reset_interval_ms 1000000000000", budget(n)));
            rig.run(&format!("HSET {}:usage tokens 5", budget(n)));
            rig.run(&format!("ZADD ff:idx:{{b:0}}:budget_resets 500 {}", uuid(n)));
        },
        change: "ZADD ff:idx:{b:0}:budget_resets 1800000000000 $",
    },
    Row {
        name: ScannerName::BudgetReconciler,
        function: "ff_reconcile_budget",
        index: ("ff:idx:{b:0}:budget_policies", false),
        batch: 100,
        filtered: false,
        member: uuid,
        record: budget,
        plant: |rig, n| {
            rig.run(&format!("HSET {} scope_type lane", budget(n)));
            rig.run(&format!("HSET {}:limits hard:tokens 10", budget(n)));
            rig.run(&format!("HSET {}:usage tokens 20", budget(n)));
            rig.run(&format!("SADD ff:idx:{{b:0}}:budget_policies {}", uuid(n)));
        },
        change: "HSET ff:budget:{b:0}:$:usage tokens 0",
    },
    Row {
        name: ScannerName::QuotaReconciler,
        function: "ff_reconcile_quota",
        index: ("ff:idx:{q:0}:quota_policies", false),
        batch: 100,
        filtered: false,
        member: uuid,
        record: quota,
        plant: |rig, n| {
            rig.create(&execution(n), "{}");
            rig.run(&format!("HSET {} active_concurrency_cap 5", quota(n)));
            rig.run(&format!("SET {}:concurrency 5", quota(n)));
            rig.run(&format!("SADD {}:admitted_set {}", quota(n), execution(n)));
            rig.run(&format!("SADD ff:idx:{{q:0}}:quota_policies {}", uuid(n)));
        },
        change: "SET ff:quota:{q:0}:$:concurrency 1",
    },
    Row {
        name: ScannerName::Unblock,
        function: "ff_unblock_execution",
        index: ("ff:idx:{fp:0}:lane:default:blocked:budget", true),
        batch: 100,
        filtered: true,
        member: execution,
        record: of_execution,
        plant: |rig, n| {
            let fields = "eligibility_state blocked_by_budget blocking_reason waiting_for_budget";
            put(rig, n, fields);
            rig.run(&format!("ZADD {} 500 {}", lane("blocked:budget"), execution(n)));
        },
        change: "HSET ff:exec:{fp:0}:$:core blocking_reason waiting_for_quota",
    },
    Row {
        name: ScannerName::IndexReconciler,
        function: "ff_repair_index",
        index: ("ff:idx:{fp:0}:all_executions", false),
        batch: 100,
        filtered: true,
        member: execution,
        record: of_execution,
        plant: |rig, n| {
            rig.create(&execution(n), "{}");
            rig.run(&format!("ZREM {} {}", lane("eligible"), execution(n)));
        },
        change: "ZADD ff:idx:{fp:0}:lane:default:eligible 0 $",
    },
];

impl Row {
    /// Only this scanner, once a second.
    pub(crate) fn config(&self) -> EngineConfig {
        let mut config = only(&[self.name]);
        config.intervals.insert(self.name, Duration::from_secs(1));
        config
    }

    /// A rig whose engine has settled before anything is there to be found.
    pub(crate) fn rig(&self, config: EngineConfig) -> Rig {
        let mut rig = Rig::new();
        rig.start(config);
        rig.run_for(10);
        rig
    }

    pub(crate) fn plant(&self, rig: &mut Rig, n: usize) {
        (self.plant)(rig, n);
        rig.name((self.member)(n), format!("X{n}"));
    }

    pub(crate) fn list(&self, rig: &mut Rig, member: &str) {
        let (key, scored) = self.index;
        rig.run(&match scored {
            true => format!("ZADD {key} 1 {member}"),
            false => format!("SADD {key} {member}"),
        });
    }

    pub(crate) fn is_call(&self) -> impl Fn(&Command) -> bool + 'static {
        let function = self.function.as_bytes();
        move |command: &Command| command.argv.get(1).is_some_and(|name| name == function)
    }

    /// What happened, lines that only repeat left out, and what was counted.
    pub(crate) fn tell(&self, told: &mut String, rig: &Rig) {
        let mut trace = rig.trace.clone();
        trace.dedup();
        writeln!(told, "{}", self.name).unwrap();
        for line in trace {
            writeln!(told, "  {line}").unwrap();
        }
        for (_, fact) in &rig.facts {
            if let Observation::ItemBackedOff { failures, backoff_cycles, .. } = fact {
                writeln!(told, "  backed off after {failures} for {backoff_cycles} cycles")
                    .unwrap();
            }
        }
        writeln!(told, "  = {}", self.counted(rig)).unwrap();
    }

    /// What happened to many candidates: each kind of line once, with its number.
    pub(crate) fn sum_up(&self, told: &mut String, rig: &Rig) {
        let mut kinds: Vec<(String, usize)> = Vec::new();
        for line in &rig.trace {
            let kind: Vec<&str> = line.split(' ').filter(|word| !is_number(word)).collect();
            let kind = kind.join(" ");
            match kinds.iter_mut().find(|(known, _)| *known == kind) {
                Some((_, count)) => *count += 1,
                None => kinds.push((kind, 1)),
            }
        }
        writeln!(told, "{}", self.name).unwrap();
        for (kind, count) in kinds {
            writeln!(told, "  {count:>3} x {kind}").unwrap();
        }
        writeln!(told, "  = {}", self.counted(rig)).unwrap();
    }

    /// The scanner's tally in words.
    pub(crate) fn counted(&self, rig: &Rig) -> String {
        let counts = rig.tally(self.name).counts().into_iter().filter(|(_, count)| *count > 0);
        let words = counts.map(|(word, count)| match word {
            "nothing" => format!("{count} nothing to do"),
            word => format!("{count} {word}"),
        });
        words.collect::<Vec<_>>().join(", ")
    }
}

/// Whether a word of a trace differs from candidate to candidate: a short name, an id, a number.
fn is_number(word: &str) -> bool {
    let digits = word.trim_start_matches("{fp:0}:").trim_start_matches(['X', 'E', 'F', 'S']);
    !digits.is_empty() && digits.chars().all(|c| c.is_ascii_hexdigit() || c == '-')
        || word.contains("garbage")
}

/// Every scanner's row.
pub(crate) fn rows() -> impl Iterator<Item = &'static Row> {
    ROWS.iter().chain(FLOW_ROWS)
}

/// Makes the `n`-th candidate of a scanner, due at once (a lease within a second).
pub(crate) fn plant(rig: &mut Rig, name: ScannerName, n: usize) {
    rows().find(|row| row.name == name).unwrap().plant(rig, n);
}
