//! Runs the command line and hands its exit code on.

#[global_allocator]
static ALLOCATOR: perfprof_tui::kernel::own_memory::Allocator = perfprof_tui::kernel::own_memory::Allocator;

fn main() -> std::process::ExitCode {
    perfprof_tui::cli::main()
}
