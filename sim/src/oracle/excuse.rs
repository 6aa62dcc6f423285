//! Excuses: why something may be wrong all the same. Each names what proves it.

use crate::world::ledger::Ledger;

/// A key that was damaged on purpose and belongs to somebody whom the finding names.
pub(super) fn damage(ledger: &Ledger, texts: &[&str]) -> Option<String> {
    let about = |text: &str| {
        let key = ledger.damaged_about(text)?;
        Some(format!("{} was damaged on purpose", String::from_utf8_lossy(key)))
    };
    names(texts).find_map(about).or_else(|| texts.iter().copied().find_map(about))
}

/// A commit that was lost and touched somebody whom the finding names.
pub(super) fn loss(ledger: &Ledger, texts: &[&str]) -> Option<String> {
    names(texts).find_map(|text| {
        let commit = ledger.lost_about(text)?;
        Some(format!("commit {} of shard {} was lost", commit.number, commit.shard))
    })
}

/// The ids in some texts: their last parts, which tell one thing from another.
fn names<'a>(texts: &'a [&'a str]) -> impl Iterator<Item = &'a str> {
    texts.iter().flat_map(|text| {
        text.split(|sign: char| !sign.is_ascii_hexdigit() && sign != '-')
            .filter(|word| word.len() == UUID_CHARS && word.matches('-').count() == 4)
    })
}

const UUID_CHARS: usize = 36;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_found_in_what_a_finding_says() {
        let id = "550e8400-e29b-41d4-a716-446655440000";
        let text = format!("ff:exec:{{fp:7}}:{{fp:7}}:{id}:core");
        assert_eq!(names(&[&text, "nobody-at-all"]).collect::<Vec<_>>(), [id]);
    }

    #[test]
    fn only_damage_to_the_one_named_is_an_excuse() {
        let (id, other) =
            ("550e8400-e29b-41d4-a716-446655440000", "550e8400-e29b-41d4-a716-446655440001");
        let mut ledger = Ledger::default();
        ledger.damage(format!("ff:exec:{{fp:7}}:{{fp:7}}:{id}:core").as_bytes());
        assert!(damage(&ledger, &[id]).is_some());
        assert!(damage(&ledger, &[other]).is_none());
        assert!(loss(&ledger, &[id]).is_none());
    }
}
