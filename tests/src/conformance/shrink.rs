//! Cutting a sequence down to the steps that matter.

use super::{Sequence, Step};

/// Removes steps, in ever smaller runs, as long as what is left still fails.
pub fn shrink(sequence: &Sequence, mut fails: impl FnMut(&Sequence) -> bool) -> Sequence {
    let mut best = sequence.clone();
    let mut run = best.steps.len().div_ceil(2);
    while run > 0 {
        let mut start = 0;
        while start < best.steps.len() {
            let end = (start + run).min(best.steps.len());
            let rest: Vec<Step> =
                best.steps[..start].iter().chain(&best.steps[end..]).cloned().collect();
            let shorter = Sequence { steps: rest, ..best.clone() };
            if fails(&shorter) {
                best = shorter;
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
}
