//! Generic calls, closures and a thread's work, without frame pointers; runs for the seconds in the second argument.
use std::hint::black_box;
use std::time::{Duration, Instant};
#[inline(never)]
fn leaf(n: u64) -> u64 {
    (0..black_box(20_000 + n)).fold(n, |a, b| black_box(a ^ (b * b)))
}
#[inline(never)]
fn middle<F: Fn(u64) -> u64>(f: &F, n: u64) -> u64 {
    black_box(f(n)) + 1
}
#[inline(never)]
fn outer(n: u64) -> u64 {
    let mut words: Vec<u64> = (0..64).map(|i| i ^ n).collect();
    words.sort_by_key(|w| black_box(w.wrapping_mul(middle(&|n| leaf(n) + 1, *w % 7))));
    black_box(words.iter().sum::<u64>()) + 1
}
fn main() {
    let seconds = std::env::args().nth(2).and_then(|s| s.parse().ok()).unwrap_or(1);
    let end = Instant::now() + Duration::from_secs(seconds);
    while Instant::now() < end {
        black_box(outer(black_box(3)));
    }
}
