//! Runs the command line and hands its exit code on.

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> std::process::ExitCode {
    perfprof_tui::cli::main()
}
