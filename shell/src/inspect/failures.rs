//! Groups failed executions by the reason of their failure.

use std::collections::BTreeMap;

use selvedge_core::id::ExecutionId;
use selvedge_core::state::PublicState;
use selvedge_core::time::ServerTime;

use super::listing::{ExecutionFilter, FoundExecution};
use crate::client::{Client, ClientError};

/// Failed executions, grouped.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Failures {
    /// The groups, the largest first.
    pub groups: Vec<FailureGroup>,
    /// How many failed executions were grouped.
    pub grouped: u64,
    /// How many records were read to find them.
    pub examined: u64,
    /// How many ended executions there are to look at.
    pub entries: u64,
    /// Whether only the newest were looked at, because there are more than are read.
    pub is_sample: bool,
}

/// Executions that failed for the same reason.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FailureGroup {
    /// `failed` or `expired`.
    pub state: PublicState,
    /// The category that the handler gave; empty if it gave none.
    pub category: String,
    /// The text of the reason, with `#` for what differs between like reasons: numbers and ids.
    pub reason: String,
    /// How many.
    pub count: u64,
    /// Their kinds, at most five.
    pub kinds: Vec<String>,
    /// The one that failed last.
    pub newest: ExecutionId,
    /// When it failed.
    pub newest_at: Option<ServerTime>,
    /// When the first of them failed.
    pub oldest_at: Option<ServerTime>,
}

impl Client {
    /// Groups executions that failed or expired by state, category and the shape of the reason.
    /// Looks at ended executions, newest first, and reads about 20,000 keys to find them.
    ///
    /// # Errors
    /// When the store does not answer.
    pub async fn failures(&self, filter: &ExecutionFilter) -> Result<Failures, ClientError> {
        let mut filter = filter.clone();
        let failed = |state: &PublicState| FAILED.contains(state);
        filter.states.retain(failed);
        if filter.states.is_empty() {
            filter.states = FAILED.to_vec();
        }
        let now = self.server_time().await?;
        let entries = self.count_entries(&filter, now).await?;
        let mut page = self.find_at(&filter, None, usize::MAX, now).await?;
        if filter.categories.is_empty() {
            self.read_categories(page.executions.iter_mut().collect(), &mut 0).await?;
        }
        let mut groups: BTreeMap<(PublicState, String, String), FailureGroup> = BTreeMap::new();
        let grouped = u64::try_from(page.executions.len()).unwrap_or(u64::MAX);
        for one in page.executions {
            let Some(state) = one.state else { continue };
            let key = (state, one.category.clone(), shape(&one.reason));
            match groups.get_mut(&key) {
                Some(group) => group.add(one),
                None => {
                    let group = FailureGroup::of(state, key.2.clone(), one);
                    groups.insert(key, group);
                }
            }
        }
        let mut groups: Vec<FailureGroup> = groups.into_values().collect();
        groups.sort_by_key(|group| (std::cmp::Reverse(group.count), group.newest_at));
        let (examined, is_sample) = (page.examined, page.next.is_some());
        Ok(Failures { groups, grouped, examined, entries, is_sample })
    }
}

impl FailureGroup {
    fn of(state: PublicState, reason: String, one: FoundExecution) -> Self {
        Self {
            state,
            category: one.category,
            reason,
            count: 1,
            kinds: vec![one.kind],
            newest: one.id,
            newest_at: one.moved_at,
            oldest_at: one.moved_at,
        }
    }

    fn add(&mut self, one: FoundExecution) {
        self.count += 1;
        if one.moved_at > self.newest_at {
            (self.newest, self.newest_at) = (one.id, one.moved_at);
        }
        if one.moved_at.is_some() && (self.oldest_at.is_none() || one.moved_at < self.oldest_at) {
            self.oldest_at = one.moved_at;
        }
        if self.kinds.len() < KINDS_MAX && !self.kinds.contains(&one.kind) {
            self.kinds.push(one.kind);
        }
    }
}

/// The text with `#` for numbers and for words of hexadecimal digits and dashes, such as ids.
fn shape(reason: &str) -> String {
    let mut shape = String::new();
    let mut rest: &str = reason;
    while let Some(first) = rest.chars().next() {
        if shape.chars().count() >= SHAPE_MAX {
            shape.push('…');
            break;
        }
        let is_word = |letter: char| letter.is_alphanumeric() || letter == '-' || letter == '_';
        let end = rest.find(|letter| !is_word(letter)).unwrap_or(rest.len());
        if end == 0 {
            shape.push(first);
            rest = &rest[first.len_utf8()..];
            continue;
        }
        let (word, after) = rest.split_at(end);
        let is_id = word.len() >= HEX_MIN
            && word.contains(|letter: char| letter.is_ascii_digit())
            && word.chars().all(|letter| letter.is_ascii_hexdigit() || letter == '-');
        if is_id {
            shape.push('#');
        } else {
            push_without_numbers(&mut shape, word);
        }
        rest = after;
    }
    shape
}

fn push_without_numbers(shape: &mut String, word: &str) {
    let mut in_number = false;
    for letter in word.chars() {
        let is_digit = letter.is_ascii_digit();
        if !is_digit {
            shape.push(letter);
        } else if !in_number {
            shape.push('#');
        }
        in_number = is_digit;
    }
}

/// The states of what has failed.
const FAILED: [PublicState; 2] = [PublicState::Failed, PublicState::Expired];
/// Most kinds that a group names.
const KINDS_MAX: usize = 5;
/// The shortest word of hexadecimal digits that counts as an id.
const HEX_MIN: usize = 8;
/// Letters of a reason that are compared.
const SHAPE_MAX: usize = 160;

#[cfg(test)]
mod tests {
    use super::shape;

    #[test]
    fn like_reasons_have_one_shape_and_unlike_ones_do_not() {
        for (one, other) in [
            ("timeout after 30s", "timeout after 5s"),
            (
                "order 3f2504e0-4f89-41d3-9a0c-0305e82c3301 is gone",
                "order 00000000-0000-4000-8000-000000000007 is gone",
            ),
            ("no route to 10.0.0.1:80", "no route to 10.20.0.1:8080"),
            ("commit deadbeef1 refused", "commit 0123456789abcdef refused"),
        ] {
            assert_eq!(shape(one), shape(other));
        }
        assert_ne!(shape("facade missing"), shape("decade missing"));
        assert_ne!(shape("timeout after 30s"), shape("timeout after 30m"));
        assert_eq!(shape("HTTP 503 from api-2"), "HTTP # from api-#");
    }

    #[test]
    fn a_long_reason_is_cut() {
        let long = "word ".repeat(100);
        assert!(shape(&long).chars().count() < 170);
    }
}
