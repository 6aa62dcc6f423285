//! How each scanner's candidates are made, broken and changed: a case per scanner.

use std::fmt::Write as _;
use std::time::Duration;

use selvedge_core::command::Command;
use selvedge_core::engine::{EngineConfig, Observation, ScannerName};
use selvedge_tests::harness::Harness;

use crate::fixtures::{ClientCalls, core, execution, lane, only};
use crate::flow_scanner_cases::FLOW_CASES;

/// How one scanner's candidates are made.
pub(crate) struct ScannerCase {
    pub(crate) name: ScannerName,
    /// The function that does the work.
    pub(crate) function: &'static str,
    /// The index that lists candidates, and whether it has scores.
    pub(crate) index: (&'static str, bool),
    pub(crate) batch: usize,
    pub(crate) filtered: bool,
    /// The `n`-th candidate's member.
    pub(crate) member: fn(usize) -> String,
    /// The record whose replacement by a plain text makes the candidate fail.
    pub(crate) record: fn(usize) -> String,
    pub(crate) plant: fn(&mut Harness, usize),
    /// What another client does between read and call; `$` stands for the member.
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

/// An execution whose record is changed after its creation.
fn put(harness: &mut Harness, n: usize, fields: &str) {
    let id = execution(n);
    harness.create(&id, "{}");
    harness.run(&format!("ZREM {} {id}", lane("eligible")));
    harness.run(&format!("HSET {} {fields}", core(&id)));
}

fn leased(harness: &mut Harness, n: usize) {
    harness.create(&execution(n), "{}");
    harness.claim(&execution(n), 1_000);
}

const CASES: &[ScannerCase] = &[
    ScannerCase {
        name: ScannerName::LeaseExpiry,
        function: "ff_requeue_lost_lease",
        index: ("ff:idx:{fp:0}:lease_expiry", true),
        batch: 50,
        filtered: true,
        member: execution,
        record: of_execution,
        plant: leased,
        change: "HSET ff:exec:{fp:0}:$:core lease_expires_at 1800000000000",
    },
    ScannerCase {
        name: ScannerName::DelayedPromoter,
        function: "ff_promote_delayed",
        index: ("ff:idx:{fp:0}:lane:default:delayed", true),
        batch: 50,
        filtered: true,
        member: execution,
        record: of_execution,
        plant: |harness, n| {
            let fields = "eligibility_state not_eligible_until_time blocking_reason \
                          waiting_for_delay delay_until 500 public_state delayed";
            put(harness, n, fields);
            harness.run(&format!("ZADD {} 500 {}", lane("delayed"), execution(n)));
        },
        change: "HSET ff:exec:{fp:0}:$:core delay_until 1800000000000",
    },
    ScannerCase {
        name: ScannerName::AttemptTimeout,
        function: "ff_expire_if_due",
        index: ("ff:idx:{fp:0}:attempt_timeout", true),
        batch: 50,
        filtered: true,
        member: execution,
        record: of_execution,
        plant: |harness, n| {
            harness.create(&execution(n), "{}");
            harness.claim(&execution(n), 600_000);
            harness.run(&format!("ZADD ff:idx:{{fp:0}}:attempt_timeout 500 {}", execution(n)));
        },
        change: "HSET ff:exec:{fp:0}:$:core current_attempt_index 7",
    },
    ScannerCase {
        name: ScannerName::ExecutionDeadline,
        function: "ff_expire_if_due",
        index: ("ff:idx:{fp:0}:execution_deadline", true),
        batch: 50,
        filtered: true,
        member: execution,
        record: of_execution,
        plant: |harness, n| {
            harness.create(&execution(n), "{}");
            harness.run(&format!("ZADD ff:idx:{{fp:0}}:execution_deadline 500 {}", execution(n)));
        },
        change: "ZADD ff:idx:{fp:0}:execution_deadline 1800000000000 $",
    },
    ScannerCase {
        name: ScannerName::SuspensionTimeout,
        function: "ff_expire_suspension",
        index: ("ff:idx:{fp:0}:suspension_timeout", true),
        batch: 50,
        filtered: true,
        member: execution,
        record: of_execution,
        plant: |harness, n| {
            let id = execution(n);
            let wp = uuid(n);
            put(
                harness,
                n,
                &format!(
                    "lifecycle_phase suspended public_state suspended current_waitpoint_id {wp} \
                     attempt_state attempt_interrupted current_suspension_id s{n}"
                ),
            );
            harness.run(&format!("HSET {} state active suspension_id s{n}", waitpoint(n)));
            harness.run(&format!(
                "HSET ff:exec:{{fp:0}}:{id}:suspension:current suspension_id s{n} waitpoint_id \
                 {wp} timeout_at 500 timeout_behavior fail"
            ));
            harness.run(&format!("ZADD {} 500 {id}", lane("suspended")));
            harness.run(&format!("ZADD ff:idx:{{fp:0}}:suspension_timeout 500 {id}"));
        },
        change: "HSET ff:exec:{fp:0}:$:suspension:current timeout_at 1800000000000",
    },
    ScannerCase {
        name: ScannerName::PendingWpExpiry,
        function: "ff_expire_pending_waitpoint_if_due",
        index: ("ff:idx:{fp:0}:pending_waitpoint_expiry", true),
        batch: 100,
        filtered: true,
        member: uuid,
        record: waitpoint,
        plant: |harness, n| {
            harness.create(&execution(n), "{}");
            harness.run(&format!(
                "HSET {} state pending expires_at 500 execution_id {}",
                waitpoint(n),
                execution(n)
            ));
            harness.run(&format!("ZADD ff:idx:{{fp:0}}:pending_waitpoint_expiry 500 {}", uuid(n)));
        },
        change: "HSET ff:wp:{fp:0}:$ state active",
    },
    ScannerCase {
        name: ScannerName::RetentionTrimmer,
        function: "ff_purge_execution",
        index: ("ff:idx:{fp:0}:lane:default:terminal", true),
        batch: 64,
        filtered: true,
        member: execution,
        record: of_execution,
        plant: |harness, n| {
            put(harness, n, "lifecycle_phase terminal public_state completed completed_at 500");
            harness.run(&format!("ZADD {} 500 {}", lane("terminal"), execution(n)));
        },
        change: "HSET ff:exec:{fp:0}:$:core lifecycle_phase runnable",
    },
    ScannerCase {
        name: ScannerName::BudgetReset,
        function: "ff_reset_budget_if_due",
        index: ("ff:idx:{b:0}:budget_resets", true),
        batch: 20,
        filtered: false,
        member: uuid,
        record: budget,
        plant: |harness, n| {
            harness.run(&format!("HSET {} reset_interval_ms 1000000000000", budget(n)));
            harness.run(&format!("HSET {}:usage tokens 5", budget(n)));
            harness.run(&format!("ZADD ff:idx:{{b:0}}:budget_resets 500 {}", uuid(n)));
        },
        change: "ZADD ff:idx:{b:0}:budget_resets 1800000000000 $",
    },
    ScannerCase {
        name: ScannerName::BudgetReconciler,
        function: "ff_reconcile_budget",
        index: ("ff:idx:{b:0}:budget_policies", false),
        batch: 100,
        filtered: false,
        member: uuid,
        record: budget,
        plant: |harness, n| {
            harness.run(&format!("HSET {} scope_type lane", budget(n)));
            harness.run(&format!("HSET {}:limits hard:tokens 10", budget(n)));
            harness.run(&format!("HSET {}:usage tokens 20", budget(n)));
            harness.run(&format!("SADD ff:idx:{{b:0}}:budget_policies {}", uuid(n)));
        },
        change: "HSET ff:budget:{b:0}:$:usage tokens 0",
    },
    ScannerCase {
        name: ScannerName::QuotaReconciler,
        function: "ff_reconcile_quota",
        index: ("ff:idx:{q:0}:quota_policies", false),
        batch: 100,
        filtered: false,
        member: uuid,
        record: quota,
        plant: |harness, n| {
            harness.create(&execution(n), "{}");
            harness.run(&format!("HSET {} active_concurrency_cap 5", quota(n)));
            harness.run(&format!("SET {}:concurrency 5", quota(n)));
            harness.run(&format!("SADD {}:admitted_set {}", quota(n), execution(n)));
            harness.run(&format!("SADD ff:idx:{{q:0}}:quota_policies {}", uuid(n)));
        },
        change: "SET ff:quota:{q:0}:$:concurrency 1",
    },
    ScannerCase {
        name: ScannerName::Unblock,
        function: "ff_unblock_execution",
        index: ("ff:idx:{fp:0}:lane:default:blocked:budget", true),
        batch: 100,
        filtered: true,
        member: execution,
        record: of_execution,
        plant: |harness, n| {
            let fields = "eligibility_state blocked_by_budget blocking_reason waiting_for_budget";
            put(harness, n, fields);
            harness.run(&format!("ZADD {} 500 {}", lane("blocked:budget"), execution(n)));
        },
        change: "HSET ff:exec:{fp:0}:$:core blocking_reason waiting_for_quota",
    },
    ScannerCase {
        name: ScannerName::IndexReconciler,
        function: "ff_repair_index",
        index: ("ff:idx:{fp:0}:all_executions", false),
        batch: 250,
        filtered: true,
        member: execution,
        record: of_execution,
        plant: |harness, n| {
            harness.create(&execution(n), "{}");
            harness.run(&format!("ZREM {} {}", lane("eligible"), execution(n)));
        },
        change: "ZADD ff:idx:{fp:0}:lane:default:eligible 0 $",
    },
];

impl ScannerCase {
    /// Only this scanner, once a second.
    pub(crate) fn config(&self) -> EngineConfig {
        let mut config = only(&[self.name]);
        config.intervals.insert(self.name, Duration::from_secs(1));
        config
    }

    /// A harness whose engine has done its first scans before there is anything to find.
    pub(crate) fn harness(&self, config: EngineConfig) -> Harness {
        let mut harness = Harness::new();
        harness.start(config);
        harness.run_for(10);
        harness
    }

    pub(crate) fn plant(&self, harness: &mut Harness, n: usize) {
        (self.plant)(harness, n);
        harness.name((self.member)(n), format!("X{n}"));
    }

    pub(crate) fn list(&self, harness: &mut Harness, member: &str) {
        let (key, scored) = self.index;
        harness.run(&match scored {
            true => format!("ZADD {key} 1 {member}"),
            false => format!("SADD {key} {member}"),
        });
    }

    pub(crate) fn is_call(&self) -> impl Fn(&Command) -> bool + 'static {
        let function = self.function.as_bytes();
        move |command: &Command| command.argv.get(1).is_some_and(|name| name == function)
    }

    /// What happened, lines that only repeat left out, and what was counted.
    pub(crate) fn tell(&self, told: &mut String, harness: &Harness) {
        let mut trace = harness.trace.clone();
        trace.dedup();
        writeln!(told, "{}", self.name).unwrap();
        for line in trace {
            writeln!(told, "  {line}").unwrap();
        }
        for (_, fact) in &harness.facts {
            if let Observation::ItemBackedOff { failures, backoff_cycles, .. } = fact {
                writeln!(told, "  backed off after {failures} for {backoff_cycles} cycles")
                    .unwrap();
            }
        }
        writeln!(told, "  = {}", self.counted(harness)).unwrap();
    }

    /// What happened to many candidates: each kind of line once, with its number.
    pub(crate) fn sum_up(&self, told: &mut String, harness: &Harness) {
        let mut kinds: Vec<(String, usize)> = Vec::new();
        for line in &harness.trace {
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
        writeln!(told, "  = {}", self.counted(harness)).unwrap();
    }

    /// The scanner's counts in words.
    pub(crate) fn counted(&self, harness: &Harness) -> String {
        let counts =
            harness.counts(self.name).by_name().into_iter().filter(|(_, count)| *count > 0);
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

/// Every scanner's case.
pub(crate) fn scanner_cases() -> impl Iterator<Item = &'static ScannerCase> {
    CASES.iter().chain(FLOW_CASES)
}

/// Makes the `n`-th candidate of a scanner, due at once (a lease within a second).
pub(crate) fn plant(harness: &mut Harness, name: ScannerName, n: usize) {
    scanner_cases().find(|case| case.name == name).unwrap().plant(harness, n);
}
