//! What reaches the terminal, and how it looks. The only module that writes to
//! stdout and stderr: data to stdout, talk to stderr.

mod errors;
mod inspection;
mod progress;
mod shell;
mod table;

pub use errors::show_error;
pub use inspection::inspection_text;
pub use progress::Progress;
pub use shell::{Shell, Style, count, human_size, human_time};
pub use table::Table;
