//! The command line of Tidemark; everything it does is in [`tidemark::commands`].
use std::process::ExitCode;

fn main() -> ExitCode {
    tidemark::commands::main(std::env::args_os())
}
