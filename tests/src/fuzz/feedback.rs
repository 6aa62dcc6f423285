//! Coverage feedback about Lua: which answer of which function an input reached.
//!
//! A fuzzer keeps an input that runs code which no other input ran. The Lua virtual machine runs
//! the same code for every function and every answer, so all calls look alike to it. Here each hash
//! of an answer has a Rust function of its own, and the fuzzer sees which of them are called.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::hint::black_box;

/// Shows a fuzzer that this happened.
pub fn show(what: &[&[u8]]) {
    let mut hasher = DefaultHasher::new();
    what.hash(&mut hasher);
    let hash = hasher.finish();
    let place = |bits: u64| usize::try_from(bits % 32).unwrap_or(0);
    PLATES[place(hash)][place(hash >> 5)][place(hash >> 10) % PLATES[0][0].len()]();
}

/// Something to step on. No two of these are the same code, or the compiler would merge them.
#[inline(never)]
fn plate<const A: usize, const B: usize, const C: usize>() {
    black_box((A, B, C));
}

macro_rules! plates {
    ($($a:literal)+) => { [$( plates!(@row $a, 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20
        21 22 23 24 25 26 27 28 29 30 31) ),+] };
    (@row $a:literal, $($b:literal)+) => { [$( [
        plate::<$a, $b, 0>,
        plate::<$a, $b, 1>,
        plate::<$a, $b, 2>,
        plate::<$a, $b, 3>,
    ] ),+] };
}

/// One function per place that feedback can point to.
type Plates = [[[fn(); 4]; 32]; 32];

static PLATES: Plates = plates!(0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20
    21 22 23 24 25 26 27 28 29 30 31);
