//! `commands.md`, from clap's tree of commands.

use clap::{Arg, ArgAction, Command, CommandFactory};

use super::assert_page;
use super::markdown::{anchor, check, sentence, table, text};
use crate::cli::args::{Arguments, GROUPS};

const INTRO: &str = "# Commands

Results go to stdout, and messages to stderr. [Exit codes](exit-codes.md) state the kind of a
failure. With `--json`, commands print [documents](documents.md) for programs. `rocmrpm COMMAND
--help` prints the same descriptions as this page.
";

const GLOBAL: &str = "Options of every command";

/// Returns the commands below a command in the order of the help, each with its full name.
fn below<'c>(command: &'c Command, name: &str) -> Vec<(String, &'c Command)> {
    let visible = command.get_subcommands().filter(|c| !c.is_hide_set() && c.get_name() != "help");
    visible.map(|c| (format!("{name} {}", c.get_name()), c)).collect()
}

fn about(command: &Command) -> String {
    sentence(&text(&command.get_about().expect("every command has help").to_string()))
}

/// Returns a table of commands with links to their sections.
fn list(commands: &[(String, &Command)]) -> String {
    let row = |(name, command): &(String, &Command)| {
        let heading = format!("`{name}`");
        [format!("[{heading}](#{})", anchor(&heading)), about(command).replace('|', "\\|")]
    };
    table(["command", "description"], commands.iter().map(row))
}

/// Returns the commands below a command, and those below them.
fn all<'c>(command: &'c Command, name: &str) -> Vec<(String, &'c Command)> {
    let direct = below(command, name);
    direct
        .into_iter()
        .flat_map(|(name, command)| {
            std::iter::once((name.clone(), command)).chain(all(command, &name)).collect::<Vec<_>>()
        })
        .collect()
}

fn section(name: &str, command: &Command) -> String {
    let usage = command.clone().render_usage().to_string();
    let usage: Vec<&str> = usage.trim_start_matches("Usage:").lines().map(str::trim).collect();
    let long = command.get_long_about().map(|long| long.to_string());
    let details =
        long.as_deref().and_then(|long| long.split_once("\n\n")).map(|(_, details)| details);
    let about = about(command)
        + &details.map_or_else(String::new, |details| format!("\n\n{}", text(details)));
    let mut section = format!("\n## `{name}`\n\n{about}\n\n```text\n{}\n```\n", usage.join("\n"));
    let arguments: String = command.get_arguments().filter(|arg| is_own(arg)).map(item).collect();
    if !arguments.is_empty() {
        section += &format!("\n{arguments}");
    }
    let commands = below(command, name);
    if !commands.is_empty() {
        section += &format!("\n{}", list(&commands));
    }
    section
}

fn is_own(arg: &Arg) -> bool {
    !arg.is_global_set()
        && !arg.is_hide_set()
        && !matches!(
            arg.get_action(),
            ArgAction::Help | ArgAction::HelpShort | ArgAction::HelpLong | ArgAction::Version
        )
}

/// Returns the entry of an argument in a list.
fn item(arg: &Arg) -> String {
    let help = arg
        .get_long_help()
        .or(arg.get_help())
        .unwrap_or_else(|| panic!("`{}` has no help", arg.get_id()));
    let mut item = format!(
        "- `{}`: {}",
        signature(arg),
        sentence(&text(&help.to_string().replace('\n', " ")))
    );
    let defaults: Vec<String> = arg
        .get_default_values()
        .iter()
        .map(|value| format!("`{}`", value.to_str().expect("defaults are text")))
        .collect();
    if !defaults.is_empty() && arg.get_action().takes_values() {
        item += &format!(" [default: {}]", defaults.join(", "));
    }
    item += "\n";
    if arg.get_action().takes_values() {
        for value in arg.get_possible_values().iter().filter(|value| !value.is_hide_set()) {
            let help =
                value.get_help().map(|help| format!(": {}", sentence(&text(&help.to_string()))));
            item += &format!("  - `{}`{}\n", value.get_name(), help.unwrap_or_default());
        }
    }
    item
}

/// Returns how an argument is typed, such as `-o, --output <FILE>`.
fn signature(arg: &Arg) -> String {
    if arg.is_positional() {
        return arg.to_string();
    }
    let names = [
        arg.get_short().map(|short| format!("-{short}")),
        arg.get_long().map(|long| format!("--{long}")),
    ];
    let names: Vec<String> = names.into_iter().flatten().collect();
    // clap shows an option by its long name, or else by its short one.
    let shown = arg.to_string();
    let value = shown.split_once(' ').map(|(_, value)| format!(" {value}"));
    format!("{}{}", names.join(", "), value.unwrap_or_default())
}

/// Returns the headings of the help, each with its commands.
fn groups<'g, 'c>(
    commands: &'g [(String, &'c Command)],
) -> Vec<(&'static str, &'g [(String, &'c Command)])> {
    let start = |first: &str| {
        commands
            .iter()
            .position(|(_, command)| command.get_name() == first)
            .unwrap_or_else(|| panic!("no command `{first}`"))
    };
    let starts: Vec<usize> = GROUPS.iter().map(|(_, first)| start(first)).collect();
    assert_eq!(starts[0], 0, "commands before the first group");
    assert!(starts.is_sorted(), "the groups are not in the order of the commands");
    let ends = starts.iter().skip(1).copied().chain([commands.len()]);
    let groups = GROUPS.iter().zip(starts.iter().zip(ends));
    groups.map(|((heading, _), (&start, end))| (*heading, &commands[start..end])).collect()
}

fn page() -> String {
    let mut root = Arguments::command();
    root.build();
    let commands = below(&root, "rocmrpm");
    let mut page = INTRO.to_owned();
    for group in groups(&commands) {
        page += &format!("\n**{}**\n\n{}", group.0, list(group.1));
    }
    let global: String = root.get_arguments().filter(|arg| arg.is_global_set()).map(item).collect();
    page += &format!("\n## {GLOBAL}\n\n{global}- `-h, --help`: Print help.\n");
    for (name, command) in all(&root, "rocmrpm") {
        page += &section(&name, command);
    }
    page
}

#[test]
fn the_page_has_every_command_argument_and_option() {
    let page = page();
    check(&page);
    assert_page("commands.md", &page);
}
