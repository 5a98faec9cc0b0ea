//! `rocmrpm man`: writes the man pages, which `make install` and packages install.

use std::io;
use std::path::Path;

use clap::{Command, CommandFactory};
use clap_mangen::Man;

use super::CommandResult;
use super::args::{self, Arguments};
use crate::error::IoError;
use crate::files;
use crate::report::{Shell, Style};

pub(super) fn run(args: &args::Man, shell: &Shell) -> CommandResult {
    let action = || IoError::doing("write the man pages");
    fs_err::create_dir_all(&args.folder).map_err(action())?;
    let mut root = Arguments::command().disable_help_subcommand(true);
    root.build();
    write(&root, &args.folder).map_err(action())?;
    shell.status(Style::Good, "Wrote", format!("man pages to {}", args.folder.display()));
    Ok(0)
}

/// Writes the pages of a command and of those below it.
fn write(command: &Command, folder: &Path) -> io::Result<()> {
    let man = Man::new(command.clone())
        .source(concat!("rocmrpm ", env!("CARGO_PKG_VERSION")))
        .manual("rocmrpm commands");
    let mut page = Vec::new();
    man.render(&mut page)?;
    let page = String::from_utf8(page).map_err(io::Error::other)?;
    files::write_if_changed(&folder.join(man.get_filename()), with_usage(&page, command))?;
    command
        .get_subcommands()
        .filter(|below| !below.is_hide_set())
        .try_for_each(|below| write(below, folder))
}

/// Replaces clap_mangen's synopsis, which omits the values of options, by the usage of `--help`.
fn with_usage(page: &str, command: &Command) -> String {
    const START: &str = ".SH SYNOPSIS\n";
    let Some((before, rest)) = page.split_once(START) else { return page.to_owned() };
    let Some(end) = rest.find("\n.SH ") else { return page.to_owned() };
    let usage = command.clone().render_usage().to_string();
    let lines = usage.trim_start_matches("Usage:").lines();
    let lines: Vec<String> =
        lines.map(|line| line.trim().replace('\\', "\\e").replace('-', "\\-")).collect();
    format!("{before}{START}{}{}", lines.join("\n.br\n"), &rest[end..])
}
