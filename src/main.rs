//! Runs the command line and hands its exit code on.

fn main() -> std::process::ExitCode {
    perfprof_tui::cli::main()
}
