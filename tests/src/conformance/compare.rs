//! [`Comparison`]: in which respect two replies must be equal.

use selvedge_core::value::Value;

/// What about two replies has to be equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// Every byte.
    Exact,
    /// The elements at every depth, in any order: the order is the store's own business.
    Unordered,
    /// The pairs of neighbouring elements, in any order.
    UnorderedPairs,
    /// Times, which may be a minute apart: each store has its own clock.
    Roughly,
    /// Errors to the last byte, else only the type and the number of elements: the store draws
    /// lots, or tells the time.
    Shape,
}

impl Comparison {
    /// Whether two replies are equal in what matters.
    #[must_use]
    pub fn agrees(self, one: &Value, other: &Value) -> bool {
        match self {
            Self::Exact => one == other,
            Self::Unordered => sorted(one) == sorted(other),
            Self::UnorderedPairs => pairs(one) == pairs(other),
            Self::Roughly => match (one, other) {
                (Value::Int(one), Value::Int(other)) if *one >= 0 && *other >= 0 => {
                    one.abs_diff(*other) < CLOCKS_APART_MS_MAX
                }
                _ => one == other,
            },
            Self::Shape => match (one, other) {
                (Value::Error(one), Value::Error(other)) => one == other,
                (Value::Array(one), Value::Array(other)) => one.len() == other.len(),
                _ => std::mem::discriminant(one) == std::mem::discriminant(other),
            },
        }
    }
}

const CLOCKS_APART_MS_MAX: u64 = 60_000;

fn sorted(value: &Value) -> Value {
    let Value::Array(items) = value else { return value.clone() };
    let mut items: Vec<Value> = items.iter().map(sorted).collect();
    items.sort();
    Value::Array(items)
}

fn pairs(value: &Value) -> Result<Vec<&[Value]>, &Value> {
    let Value::Array(items) = value else { return Err(value) };
    let mut pairs: Vec<_> = items.chunks(2).collect();
    pairs.sort();
    Ok(pairs)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Value {
        Value::Array(text.split(' ').map(|word| Value::Bulk(word.as_bytes().to_vec())).collect())
    }

    #[test]
    fn each_comparison_finds_its_differences() {
        assert!(!Comparison::Exact.agrees(&words("a b"), &words("b a")));
        assert!(Comparison::Unordered.agrees(&words("a b"), &words("b a")));
        assert!(!Comparison::Unordered.agrees(&words("a b"), &words("a a")));
        assert!(Comparison::UnorderedPairs.agrees(&words("a 1 b 2"), &words("b 2 a 1")));
        assert!(!Comparison::UnorderedPairs.agrees(&words("a 1 b 2"), &words("a 2 b 1")));
        assert!(Comparison::Roughly.agrees(&Value::Int(1000), &Value::Int(1500)));
        assert!(!Comparison::Roughly.agrees(&Value::Int(-1), &Value::Int(-2)));
        assert!(!Comparison::Roughly.agrees(&Value::Int(1000), &Value::Int(100_000)));
        assert!(Comparison::Shape.agrees(&words("a b"), &words("c d")));
        assert!(!Comparison::Shape.agrees(&words("a b"), &words("c")));
        assert!(!Comparison::Shape.agrees(&Value::Nil, &words("c")));
        let error = |text: &str| Value::Error(text.to_owned());
        assert!(!Comparison::Shape.agrees(&error("ERR a"), &error("ERR b")));
    }
}
