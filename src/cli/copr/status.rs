//! `rocmrpm copr status`.

use serde::Serialize;

use super::Target;
use crate::build::{Stage, prepare};
use crate::cli::{CommandResult, args};
use crate::copr::{Client, CoprBuilder, StatusRow, rows};
use crate::document::Document;
use crate::events::Silent;
use crate::report::{Progress, Shell, Style, Table};
use crate::stack::Stack;

/// What `rocmrpm copr status --json` prints: the components beside their newest builds on COPR.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(in crate::cli) struct StatusReport<'a> {
    schema: &'static str,
    /// `owner/project`.
    project: &'a str,
    /// The project's page.
    url: String,
    /// How many components `copr push` would build.
    stale: usize,
    /// The components, for each chroot.
    components: Vec<StatusRow>,
}

impl Document for StatusReport<'_> {
    const SCHEMA: &'static str = "rocmrpm/copr-status/1";
}

pub(super) fn run(args: &args::CoprStatus, target: &Target, shell: &Shell) -> CommandResult {
    let progress = Progress::new(shell);
    let client =
        Client::new(args.access.config.as_deref(), &target.project.full_name(), &progress)?;
    let (nameless, builds) = (client.nameless()?, client.builds()?);
    let mut all: Vec<StatusRow> = Vec::new();
    for (chroot, workspace) in target.chroots() {
        let stack = Stack::new(workspace)?;
        let builder = CoprBuilder::new(&client, &target.project, workspace, &Silent)?;
        let prepared = prepare(&stack, stack.named_with_requirements(&[])?, &builder, Stage::Rpm)?;
        prepared.warnings.iter().for_each(|warning| shell.warning(warning));
        all.extend(rows(
            &client,
            &builds,
            &nameless,
            &chroot.name.value,
            &workspace.chroot.dist,
            &prepared,
        ));
    }
    if args.json {
        shell.json(&StatusReport {
            schema: StatusReport::SCHEMA,
            project: client.project(),
            url: client.page(),
            stale: all.iter().filter(|row| row.stale).count(),
            components: all,
        })?;
        return Ok(0);
    }
    let mut table =
        Table::new(&["component", "chroot", "wanted", "on COPR", "state", "build", "plan"]);
    for row in all {
        let dash = || "-".to_owned();
        let style = match row.state {
            Some(state) if state.is_good() => Style::Good,
            Some(state) if state.is_over() => Style::Bad,
            _ => Style::Dim,
        };
        table.styled_row(vec![
            (None, row.component),
            (None, row.chroot),
            (None, row.wanted),
            (None, row.remote.unwrap_or_else(dash)),
            (Some(style), row.state.map_or_else(dash, |state| state.word().to_owned())),
            (None, row.url.unwrap_or_else(dash)),
            (
                None,
                if row.stale {
                    format!("push: {}", row.reasons.join(", "))
                } else {
                    "fresh".to_owned()
                },
            ),
        ]);
    }
    shell.data(table.text())?;
    Ok(0)
}
