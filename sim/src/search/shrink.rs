//! Makes an input that fails smaller, as long as it still fails.

/// How an attempt with a smaller input ended. A predicate may also answer `true` for
/// [`Fails`](Self::Fails) and `false` for [`Passes`](Self::Passes).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tried {
    /// It still fails, so the smaller input is kept.
    Fails,
    /// It does not fail any more.
    Passes,
    /// It is not a valid input and was not tried. This does not count as a try.
    Invalid,
}

impl From<bool> for Tried {
    fn from(fails: bool) -> Self {
        if fails { Self::Fails } else { Self::Passes }
    }
}

/// How many smaller inputs may be tried, and how many were. Several calls can share one.
#[derive(Clone, Copy, Debug)]
pub struct Tries {
    max: usize,
    used: usize,
}

impl Tries {
    /// At most this many tries.
    #[must_use]
    pub const fn at_most(max: usize) -> Self {
        Self { max, used: 0 }
    }

    /// How many were used so far.
    #[must_use]
    pub const fn used(&self) -> usize {
        self.used
    }

    /// Whether none is left.
    #[must_use]
    pub const fn are_used_up(&self) -> bool {
        self.used >= self.max
    }

    fn run<I: ?Sized, R: Into<Tried>>(
        &mut self,
        input: &I,
        fails: &mut impl FnMut(&I) -> R,
    ) -> bool {
        if self.are_used_up() {
            return false;
        }
        let tried = fails(input).into();
        self.used += usize::from(tried != Tried::Invalid);
        tried == Tried::Fails
    }
}

/// Removes items from a list as long as what is left still fails: first half of them at once, then
/// a quarter, and so on down to single items. Only items that `may_go` accepts are removed.
pub fn shrink_list<T: Clone, R: Into<Tried>>(
    list: &[T],
    may_go: impl Fn(&T) -> bool,
    tries: &mut Tries,
    mut fails: impl FnMut(&[T]) -> R,
) -> Vec<T> {
    let mut items = list.to_vec();
    let mut size = items.iter().filter(|item| may_go(item)).count().div_ceil(2);
    while size > 0 {
        let mut from = 0;
        while !tries.are_used_up() {
            let places: Vec<usize> = (0..items.len()).filter(|at| may_go(&items[*at])).collect();
            let chunk = places.get(from..places.len().min(from + size)).unwrap_or_default();
            let (Some(first), Some(last)) = (chunk.first(), chunk.last()) else { break };
            let goes = |at: usize| (*first..=*last).contains(&at) && may_go(&items[at]);
            let left: Vec<T> =
                (0..items.len()).filter(|at| !goes(*at)).map(|at| items[at].clone()).collect();
            if tries.run(&left[..], &mut fails) {
                items = left;
            } else {
                from += size;
            }
        }
        size /= 2;
    }
    items
}

/// Applies changes to a value as long as the changed value still fails, in rounds: `changes` lists
/// the changes worth trying on the value as it is at the start of a round, `apply` makes one of
/// them, and a round without success is the last. A change that an earlier one made impossible may
/// leave the value alone; it costs no try then.
pub fn shrink_value<T: Clone + PartialEq, C, R: Into<Tried>>(
    value: T,
    changes: impl Fn(&T) -> Vec<C>,
    apply: impl Fn(&C, &mut T),
    tries: &mut Tries,
    mut fails: impl FnMut(&T) -> R,
) -> T {
    let mut smallest = value;
    loop {
        let mut shrunk = false;
        for change in changes(&smallest) {
            let mut smaller = smallest.clone();
            apply(&change, &mut smaller);
            if smaller != smallest && tries.run(&smaller, &mut fails) {
                smallest = smaller;
                shrunk = true;
            }
        }
        if !shrunk {
            return smallest;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_that_the_failure_needs_stay_and_all_others_go() {
        let items: Vec<u32> = (0..40).collect();
        let mut tries = Tries::at_most(1_000);
        let left = shrink_list(
            &items,
            |_| true,
            &mut tries,
            |left: &[u32]| left.contains(&7) && left.contains(&31),
        );
        assert_eq!(left, [7, 31]);
        assert!(tries.used() < 60, "{} tries for two of forty", tries.used());
    }

    #[test]
    fn only_items_that_may_go_are_removed() {
        let items: Vec<u32> = (0..10).collect();
        let left = shrink_list(&items, |item| item % 2 == 0, &mut Tries::at_most(100), |_| true);
        assert_eq!(left, [1, 3, 5, 7, 9]);
    }

    #[test]
    fn shrinking_stops_when_its_tries_are_used_up() {
        let (long, mut tries) = (vec![0; 100_000], Tries::at_most(100));
        let mut runs = 0;
        let left = shrink_list(
            &long,
            |_| true,
            &mut tries,
            |_| {
                runs += 1;
                false
            },
        );
        assert_eq!((left.len(), runs, tries.used()), (long.len(), 100, 100));
    }

    #[test]
    fn invalid_inputs_cost_no_try() {
        let mut tries = Tries::at_most(3);
        let left = shrink_list(
            &[1, 2, 3, 4, 5, 6],
            |_| true,
            &mut tries,
            |left| {
                if left.contains(&1) { Tried::Fails } else { Tried::Invalid }
            },
        );
        assert_eq!((left.as_slice(), tries.used()), (&[1][..], 3));
    }

    #[test]
    fn a_value_is_changed_until_no_change_fails_any_more() {
        let halve_or_decrement = |_: &u32| vec![true, false];
        let apply = |halve: &bool, value: &mut u32| {
            *value = if *halve { *value / 2 } else { value.saturating_sub(1) };
        };
        let mut tries = Tries::at_most(100);
        let fails = |value: &u32| *value >= 13;
        assert_eq!(shrink_value(1_000, halve_or_decrement, apply, &mut tries, fails), 13);
        assert!(tries.used() < 40, "{}", tries.used());
    }
}
