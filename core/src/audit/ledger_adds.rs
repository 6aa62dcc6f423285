//! `LedgerAdds`: admission counts equal their holders, ledgers are listed, and hard limits hold.

use alloc::format;
use alloc::string::{String, ToString};

use super::{Findings, Moment, Oracle, Reach, Snapshot, Subject};
use crate::key::{BudgetPart, Key, QuotaPart};

pub(super) const ORACLE: Oracle = Oracle {
    name: "LedgerAdds",
    statement: "admission counts equal their holders, ledgers are listed, and hard limits hold",
    moment: Moment::Always,
    reach: Reach::Partition,
    look,
};

fn look(snapshot: &Snapshot, subject: &Subject, findings: &mut Findings) {
    let Subject::Key(key) = subject else { return };
    match key {
        Key::Quota(partition, id, QuotaPart::Record) => {
            let quota = Key::quota(*partition, *id);
            let Some(policy) = snapshot.hash(key) else { return };
            let held = snapshot.set(&quota.admitted_set()).len();
            let counted = snapshot.text(&quota.concurrency()).unwrap_or(b"0");
            // Without a cap nobody counts.
            let capped = policy.number("active_concurrency_cap") > 0;
            findings.expect(!capped || counted == held.to_string().as_bytes(), key, || {
                format!("{held} hold a slot, {} are counted", counted.escape_ascii())
            });
        }
        Key::Budget(partition, id, BudgetPart::Record) => {
            let budget = Key::budget(*partition, *id);
            let limits = snapshot.hash(&budget.limits());
            let usage = snapshot.hash(&budget.usage());
            let (Some(limits), Some(usage)) = (limits, usage) else { return };
            for (dimension, _) in usage.iter() {
                let (limit, used) =
                    (limits.number(&format!("hard:{dimension}")), usage.number(dimension));
                findings.expect(limit <= 0 || used <= limit, key, || {
                    format!("{used} of {dimension} used, {limit} allowed")
                });
            }
        }
        Key::Budget(partition, id, BudgetPart::Ledger(spender)) if snapshot.holds(key) => {
            let index = Key::budget(*partition, *id).ledger_index();
            findings.expect(snapshot.set(&index).contains(spender.as_str()), key, || {
                String::from("is not in the index of ledgers")
            });
        }
        _ => {}
    }
}
