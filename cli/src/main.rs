//! The binary. What it does stands in the library of this package, so that its tests get all features without being asked.

fn main() -> std::process::ExitCode {
    zoolet_cli::main()
}
