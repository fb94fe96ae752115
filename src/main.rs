//! Runs the command line and hands its exit code on.

/// Profiles come and go by the megabyte on one thread, and names on others: glibc's allocator keeps what was freed in
/// between, and spends a seventh of a busy profile's time on joining it.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> std::process::ExitCode {
    perfprof_tui::cli::main()
}
