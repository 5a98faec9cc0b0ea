//! The `rocmrpm` program. All it does is in the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    rocmrpm::cli::main()
}
