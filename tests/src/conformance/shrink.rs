//! Cutting a sequence down to the steps that matter.

use super::{Sequence, Step};

/// Removes steps, in ever smaller runs, as long as what is left still fails.
pub fn shrink(sequence: &Sequence, mut fails: impl FnMut(&Sequence) -> bool) -> Sequence {
    let with = |steps: &[Step]| Sequence { steps: steps.to_vec(), ..sequence.clone() };
    with(&shrink_list(&sequence.steps, |steps| fails(&with(steps))))
}

/// How often a list is tried with some items less: a very long one is not cut for ever.
const TRIES_MAX: usize = 1_000;

/// Removes items of a list, in ever smaller runs, as long as what is left still fails.
pub fn shrink_list<T: Clone>(list: &[T], mut fails: impl FnMut(&[T]) -> bool) -> Vec<T> {
    let mut best = list.to_vec();
    let mut run = best.len().div_ceil(2);
    let mut tries = 0;
    while run > 0 {
        let mut start = 0;
        while start < best.len() && tries < TRIES_MAX {
            tries += 1;
            let end = (start + run).min(best.len());
            let rest = [&best[..start], &best[end..]].concat();
            if fails(&rest) {
                best = rest;
            } else {
                start = end;
            }
        }
        run /= 2;
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_steps_that_matter_are_left() {
        let numbers = ["1", "2", "3", "4", "5", "6", "7", "8", "9"];
        let steps = numbers.iter().map(|number| Step::exact(&[number])).collect();
        let sequence = Sequence { steps, on_redis: false };
        let has = |sequence: &Sequence, number: &[u8]| {
            sequence.steps.iter().any(|step| step.command[0] == number)
        };
        let shrunk = shrink(&sequence, |sequence| has(sequence, b"3") && has(sequence, b"8"));
        let left: Vec<_> = shrunk.steps.iter().map(|step| step.command[0].as_slice()).collect();
        assert_eq!(left, [b"3", b"8"]);
    }

    #[test]
    fn a_very_long_list_is_not_cut_for_ever() {
        let (long, mut tries) = (vec![0; 100_000], 0);
        let left = shrink_list(&long, |_| {
            tries += 1;
            false
        });
        assert_eq!((left.len(), tries), (long.len(), TRIES_MAX));
    }
}
