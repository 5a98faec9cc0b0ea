//! The groups of commands in `rocmrpm --help`. clap groups options, but no commands.

use anstream::adapter::strip_str;
use clap::{Command, CommandFactory, FromArgMatches};

use super::Arguments;

/// The headings, each with the first command below it. [`super::Command`] has the order.
pub const GROUPS: [(&str, &str); 8] = [
    ("Workspace", "init"),
    ("Sources and specs", "prep"),
    ("Build", "plan"),
    ("Check what was built", "inspect"),
    ("Python", "closure"),
    ("Publish", "publish"),
    ("Keep current", "pipeline"),
    ("This machine", "doctor"),
];

/// Returns the arguments of this process, or prints help or an error and exits.
pub fn parse() -> Arguments {
    let mut matches = with_groups(Arguments::command()).get_matches();
    Arguments::from_arg_matches_mut(&mut matches)
        .map_err(|error| error.format(&mut Arguments::command()))
        .unwrap_or_else(|error| error.exit())
}

/// Adds the headings to the help of a command with these subcommands.
fn with_groups(command: Command) -> Command {
    let style = *command.get_styles().get_header();
    let heading = |text| format!("{style}{text}:{style:#}");
    let list = command.clone().help_template("{subcommands}").render_help().ansi().to_string();
    let mut help = String::from("{about-with-newline}\n{usage-heading} {usage}\n");
    for line in list.lines() {
        let shown = strip_str(line).to_string();
        let name = shown.strip_prefix("  ").and_then(|rest| rest.split(' ').next());
        if let Some((group, _)) = GROUPS.iter().find(|(_, first)| name == Some(*first)) {
            help += &format!("\n{}\n", heading(*group));
        }
        help += &format!("{line}\n");
    }
    help += &format!("\n{}\n{{options}}{{after-help}}", heading("Options"));
    command.help_template(help)
}
