//! `LedgerAdds`: the part that needs the history. The state oracle compares counts with their
//! holders.

use std::collections::{BTreeMap, BTreeSet};

use selvedge_core::key::{BudgetPart, Key, QuotaPart};

use super::call::Call;
use super::{Changes, Checker, Class, Findings, Oracle, View};
use crate::event::{Applied, Event, EventKind};

pub(super) const ORACLE: Oracle = Oracle {
    name: "LedgerAdds",
    statement: "usage is the sum of the accepted reports, less what was released, and every holder of \
                a slot was admitted",
    class: Class::Safety,
    checker: || Box::<LedgerAdds>::default(),
};

/// How long a dedup key is valid.
const DEDUP_MS: u64 = 86_400_000;

/// What a budget must contain, according to the accepted reports.
#[derive(Clone, Debug, Default)]
struct Account {
    usage: BTreeMap<String, i64>,
    by_execution: BTreeMap<String, BTreeMap<String, i64>>,
    /// Until when a report with this dedup key does not count again, by the server's clock.
    reported: BTreeMap<String, u64>,
}

#[derive(Default)]
struct LedgerAdds {
    /// By the key of the usage.
    accounts: BTreeMap<Key, Account>,
    /// By the key of the admitted set.
    holders: BTreeMap<Key, BTreeSet<String>>,
    /// The node that serves an account. After a failover it may lack some reports.
    nodes: BTreeMap<Key, u8>,
}

impl Checker for LedgerAdds {
    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "an oracle reacts to the events that it names"
    )]
    fn on_event(&mut self, event: &Event, _: &Changes, view: &View<'_>, findings: &mut Findings) {
        match &event.kind {
            EventKind::CommitsLost { .. } => self.reload(view),
            // Writes to a branch that will be lost do not count.
            EventKind::Applied(applied) if !applied.superseded && applied.answer.is_done() => {
                let Some(call) = Call::of(applied) else { return };
                let Some(account) = call.key("usage").or_else(|| call.key("admitted_set")) else {
                    return;
                };
                let node = self.nodes.insert(account.clone(), applied.node);
                if node.is_some_and(|node| node != applied.node) {
                    self.read(&account, view);
                } else {
                    self.account(&call, applied);
                    self.compare(&call, view, findings);
                }
            }
            _ => {}
        }
    }
}

impl LedgerAdds {
    fn account(&mut self, call: &Call<'_>, applied: &Applied) {
        let answer = &applied.answer;
        let added = answer.says("OK") || answer.says("SOFT_BREACH");
        let now_ms = applied.server_time_us / 1000;
        match call.function {
            "report_usage_and_check" if added => {
                let count = size(call.argument("dim_count"));
                let words = texts(call);
                let account = self.account_of(call);
                let fresh = account.is_new(words.get(count * 2 + 2), now_ms);
                for at in (1..=count).filter(|_| fresh) {
                    let (name, delta) = (words.get(at), words.get(at + count));
                    account.add(None, name, delta);
                }
            }
            // What has happened counts, also above a limit.
            "record_spend" | "record_usage"
                if added || call.function == "record_usage" && answer.says("HARD_BREACH") =>
            {
                let count = size(call.argument("pair_count"));
                let words = texts(call);
                let spender = words.get(count * 2 + 3).filter(|id| !id.is_empty()).cloned();
                let account = self.account_of(call);
                let fresh = account.is_new(words.get(count * 2 + 2), now_ms);
                for at in (0..count).filter(|_| fresh) {
                    let (name, delta) = (words.get(1 + at * 2), words.get(2 + at * 2));
                    account.add(spender.as_deref(), name, delta);
                }
            }
            "release_budget" => {
                let spender = call.argument("execution_id");
                self.account_of(call).give_back(spender);
            }
            "forget_ledger" => {
                if let Some(Key::Budget(partition, id, _)) = call.key("by_exec_index")
                    && let Some(account) =
                        self.accounts.get_mut(&Key::budget(partition, id).usage())
                {
                    account.by_execution.remove(call.argument("execution_id"));
                }
            }
            "reset_budget" => self.account_of(call).start_period(),
            "reset_budget_if_due" if answer.says("reset") => self.account_of(call).start_period(),
            "check_admission_and_record" if answer.says("ADMITTED") => {
                let id = call.argument("execution_id").to_owned();
                self.holders_of(call).insert(id);
            }
            "release_admission" => {
                let id = call.argument("execution_id");
                self.holders_of(call).remove(id);
            }
            _ => {}
        }
    }

    fn account_of(&mut self, call: &Call<'_>) -> &mut Account {
        self.accounts.entry(call.key("usage").unwrap_or(Key::Lanes)).or_default()
    }

    fn holders_of(&mut self, call: &Call<'_>) -> &mut BTreeSet<String> {
        self.holders.entry(call.key("admitted_set").unwrap_or(Key::Lanes)).or_default()
    }

    fn compare(&self, call: &Call<'_>, view: &View<'_>, findings: &mut Findings) {
        if let Some(key @ Key::Budget(partition, ..)) = call.key("usage")
            && let Some(account) = self.accounts.get(&key)
        {
            let stored = view.of(partition).hash(&key);
            let stored = stored.map(|usage| {
                let names = usage.iter().map(|(name, _)| name).filter(|n| *n != "breached_at");
                names.map(|name| (name.to_owned(), usage.number(name))).collect()
            });
            let stored = nonzero(stored.unwrap_or_default());
            let accepted = nonzero(account.usage.clone());
            if stored != accepted {
                let what = format!("{stored:?} is stored, {accepted:?} was accepted");
                findings.add(view, &key, what);
            }
        }
        if let Some(key @ Key::Quota(partition, ..)) = call.key("admitted_set")
            && let Some(holders) = self.holders.get(&key)
        {
            let stored = view.of(partition).set(&key);
            // A reconciler removes ended executions, but adds nothing.
            if let Some(id) = stored.iter().find(|id| !holders.contains(*id)) {
                findings.add(view, &key, format!("{id} holds a slot, but was not admitted"));
            }
        }
    }

    /// After a loss, takes the stored state of all accounts.
    fn reload(&mut self, view: &View<'_>) {
        (self.accounts, self.holders) = (BTreeMap::new(), BTreeMap::new());
        for (key, _) in view.shards.iter().flat_map(|shard| shard.iter()) {
            self.read(key, view);
        }
    }

    /// Takes the stored state of an account.
    #[expect(clippy::wildcard_enum_match_arm, reason = "no other key is an account")]
    fn read(&mut self, key: &Key, view: &View<'_>) {
        match key {
            Key::Budget(partition, id, BudgetPart::Usage) => {
                let snapshot = view.of(*partition);
                let mut account = Account::default();
                for (name, _) in snapshot.hash(key).iter().flat_map(|usage| usage.iter()) {
                    let used = snapshot.hash(key).map_or(0, |usage| usage.number(name));
                    account.usage.insert(name.to_owned(), used);
                }
                for spender in snapshot.set(&Key::budget(*partition, *id).ledger_index()) {
                    account.read_ledger(snapshot, *partition, *id, spender);
                }
                self.accounts.insert(key.clone(), account);
            }
            Key::Quota(partition, _, QuotaPart::AdmittedSet) => {
                let stored = view.of(*partition).set(key).clone();
                self.holders.insert(key.clone(), stored);
            }
            _ => {}
        }
    }
}

impl Account {
    /// Whether a report with this dedup key counts; records it.
    fn is_new(&mut self, dedup_key: Option<&String>, now_ms: u64) -> bool {
        let Some(dedup_key) = dedup_key.filter(|key| !key.is_empty()) else { return true };
        let known = self.reported.get(dedup_key).is_some_and(|until_ms| now_ms < *until_ms);
        if !known {
            self.reported.insert(dedup_key.clone(), now_ms + DEDUP_MS);
        }
        !known
    }

    /// Starts a new period. Dedup keys stay valid.
    fn start_period(&mut self) {
        (self.usage, self.by_execution) = (BTreeMap::new(), BTreeMap::new());
    }

    fn add(&mut self, spender: Option<&str>, name: Option<&String>, delta: Option<&String>) {
        let (Some(name), Some(delta)) = (name, delta.and_then(|delta| delta.parse::<i64>().ok()))
        else {
            return;
        };
        *self.usage.entry(name.clone()).or_default() += delta;
        if let Some(spender) = spender {
            let ledger = self.by_execution.entry(spender.to_owned()).or_default();
            *ledger.entry(name.clone()).or_default() += delta;
        }
    }

    fn give_back(&mut self, spender: &str) {
        for (name, spent) in self.by_execution.remove(spender).unwrap_or_default() {
            *self.usage.entry(name).or_default() -= spent;
        }
    }

    fn read_ledger(
        &mut self,
        snapshot: &selvedge_core::audit::Snapshot,
        partition: selvedge_core::partition::Partition,
        id: selvedge_core::id::BudgetId,
        spender: &str,
    ) {
        let Ok(execution) = spender.parse() else { return };
        let key = Key::budget(partition, id).ledger(&execution);
        let Some(ledger) = snapshot.hash(&key) else { return };
        let entries = ledger.iter().map(|(name, _)| (name.to_owned(), ledger.number(name)));
        self.by_execution.insert(spender.to_owned(), entries.collect());
    }
}

fn nonzero(amounts: BTreeMap<String, i64>) -> BTreeMap<String, i64> {
    amounts.into_iter().filter(|(_, amount)| *amount != 0).collect()
}

fn texts(call: &Call<'_>) -> Vec<String> {
    call.arguments().iter().map(|word| String::from_utf8_lossy(word).into_owned()).collect()
}

fn size(text: &str) -> usize {
    text.parse().unwrap_or(0)
}
