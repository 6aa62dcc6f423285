//! `LedgerAdds`: admission counts equal their holders, and ledgers are listed. Usage may be above a
//! hard limit: what has happened is counted.

use alloc::format;
use alloc::string::{String, ToString};

use super::{Findings, Moment, Oracle, Reach, Snapshot, Subject};
use crate::key::{BudgetPart, Key, QuotaPart};

pub(super) const ORACLE: Oracle = Oracle {
    name: "LedgerAdds",
    statement: "admission counts equal their holders, and ledgers are listed",
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
        Key::Budget(partition, id, BudgetPart::Ledger(spender)) if snapshot.holds(key) => {
            let index = Key::budget(*partition, *id).ledger_index();
            findings.expect(snapshot.set(&index).contains(spender.as_str()), key, || {
                String::from("is not in the index of ledgers")
            });
        }
        _ => {}
    }
}
