//! The cost of unwind tables: `cargo bench --bench tables -- FILE…`.
//!
//! For each file, the CPU time to recognize its content, and to build its rows as for a process that starts to run it.

use std::fs::File;
use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use perfprof_tui::symbols::bytes::Bytes;
use perfprof_tui::symbols::unwind::rows;
use rustix::time::{ClockId, clock_gettime};

const ROUNDS: u32 = 5;

fn main() {
    let files: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with("--")).collect();
    let hasher = RandomState::new();
    println!("{:>10} {:>12} {:>10}  file", "rows", "digest", "rows");
    for name in if files.is_empty() { vec!["/proc/self/exe".to_owned()] } else { files } {
        let bytes = Bytes::of(&File::open(&name).expect("a readable file")).expect("a regular file");
        let mut best = [Duration::MAX; 2];
        let mut count = 0;
        for _ in 0..ROUNDS {
            let began = cpu();
            let digest = rows::contents(&bytes).map(|parts| hasher.hash_one(parts));
            let recognized = cpu();
            let found = rows::of(&bytes);
            let built = cpu();
            count = found.map_or(0, |found| found.rows.len());
            std::hint::black_box(digest);
            best = [best[0].min(recognized - began), best[1].min(built - recognized)];
        }
        let [digest, rows] = best.map(|time| time.as_secs_f64() * 1000.0);
        println!("{count:>10} {digest:>9.1} ms {rows:>7.1} ms  {name}");
    }
}

fn cpu() -> Duration {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}
