//! Runs the command line and returns its exit code.

#[global_allocator]
static ALLOCATOR: perfprof_tui::kernel::own_memory::Allocator = perfprof_tui::kernel::own_memory::Allocator;

fn main() -> std::process::ExitCode {
    perfprof_tui::cli::main()
}
