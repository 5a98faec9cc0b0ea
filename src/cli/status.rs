//! `rocmrpm status`.

use std::path::Path;
use std::time::Duration;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde::Serialize;

use super::{CommandResult, args, context};
use crate::build::{BuildLock, BuildRecord, FailureRecord, LastBuild, build_logs, main_log};
use crate::build::{find_elsewhere, find_other_pins};
use crate::document::Document;
use crate::duration;
use crate::names::ComponentName;
use crate::report::{Shell, Style, Table, count, human_size};
use crate::workspace::Workspace;

/// What `rocmrpm status --json` prints: the last build of each component.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct LastBuilds<'a> {
    schema: &'static str,
    /// The chroot.
    chroot: &'a str,
    /// The components, sorted by name.
    components: Vec<LastBuildReport>,
}

impl Document for LastBuilds<'_> {
    const SCHEMA: &'static str = "rocmrpm/status/1";
}

/// The last build of a component.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(tag = "state", rename_all = "kebab-case")]
enum LastBuildReport {
    /// It was never built for this chroot, or its results were removed.
    NotBuilt {
        /// The component.
        component: String,
    },
    /// It passed.
    Built {
        /// The component.
        component: String,
        /// Its version and Release.
        version: String,
        /// When the build finished, in RFC 3339; null if unknown.
        finished: Option<String>,
        /// The seconds that the build and its inspection took; null if unknown.
        seconds: Option<f64>,
        /// The size of its packages in bytes.
        size: u64,
    },
    /// It failed, or its packages did not pass inspection.
    Failed {
        /// The component.
        component: String,
        /// When it failed, in RFC 3339.
        finished: String,
        /// The error message.
        error: String,
        /// How to fix it, best first.
        help: Vec<String>,
        /// The log to read first; null if there is none.
        log: Option<String>,
    },
    /// It is running.
    Running {
        /// The component.
        component: String,
        /// The log to read first; null if there is none.
        log: Option<String>,
    },
    /// It was stopped.
    Stopped {
        /// The component.
        component: String,
        /// The log to read first; null if there is none.
        log: Option<String>,
    },
}

pub(super) fn run(args: &args::Status, dir: &Path, shell: &Shell) -> CommandResult {
    let workspace = context::workspace(dir, &args.choice, &args.pin.overrides)?;
    let named = args.components.iter().map(|name| Ok(workspace.component(name)?));
    let named = named.collect::<Result<Vec<_>, crate::error::Error>>()?;
    let all = workspace
        .components
        .values()
        .filter(|c| named.is_empty() || named.iter().any(|wanted| wanted.name == c.name));
    let components = all
        .map(|component| report(&workspace, &component.name))
        .collect::<Result<Vec<_>, crate::error::Error>>()?;
    if args.json {
        let chroot = &workspace.chroot.name;
        shell.json(&LastBuilds { schema: LastBuilds::SCHEMA, chroot, components })?;
        return Ok(0);
    }
    // A closure has hundreds of components.
    let shown = |report: &&LastBuildReport| {
        !named.is_empty() || !matches!(report, LastBuildReport::NotBuilt { .. })
    };
    let shown: Vec<&LastBuildReport> = components.iter().filter(shown).collect();
    if !shown.is_empty() {
        shell.data(table(&shown).text())?;
    }
    if shown.len() < components.len() {
        let hidden = count(components.len() - shown.len(), "component");
        shell.talk(format!("{hidden} never built for `{}`", workspace.chroot.name));
    }
    if shown.is_empty()
        && let Some(help) = find_elsewhere(&workspace, "results")
    {
        shell.help(help);
    }
    if let Some(help) = find_other_pins(&workspace) {
        shell.talk(format!("results for other pins: {help}"));
    }
    for component in &components {
        if let LastBuildReport::Failed { error, help, log, .. } = component {
            let first =
                help.first().map(|help| format!("\n  {} {help}", Style::Note.paint("help:")));
            let log = log.as_ref().map(|log| format!("\n  log: {log}"));
            shell.talk(format!(
                "\n{} {error}{}{}",
                Style::Bad.paint("error:"),
                first.unwrap_or_default(),
                log.unwrap_or_default()
            ));
        }
    }
    Ok(0)
}

fn report(
    workspace: &Workspace,
    name: &ComponentName,
) -> Result<LastBuildReport, crate::error::Error> {
    let build_dir = workspace.build_dir_of(name);
    let component = name.to_string();
    let log = || -> Result<Option<String>, crate::error::Error> {
        let logs = build_logs(&build_dir, name)?;
        Ok(main_log(&logs).map(|log| log.path.display().to_string()))
    };
    Ok(match LastBuild::of(&build_dir, name)? {
        LastBuild::None => LastBuildReport::NotBuilt { component },
        LastBuild::Unfinished if BuildLock::is_held(workspace)? => {
            LastBuildReport::Running { component, log: log()? }
        }
        LastBuild::Unfinished => LastBuildReport::Stopped { component, log: log()? },
        LastBuild::Failed(FailureRecord { finished, error, help, .. }) => {
            LastBuildReport::Failed { component, finished, error, help, log: log()? }
        }
        LastBuild::Passed { record, finished, seconds } => {
            let BuildRecord { version, release, outputs, .. } = *record;
            let rpms = outputs.iter().filter(|output| output.file.ends_with(".rpm"));
            LastBuildReport::Built {
                component,
                version: format!("{version}-{release}"),
                finished,
                seconds,
                size: rpms.map(|output| output.size).sum(),
            }
        }
    })
}

fn table(components: &[&LastBuildReport]) -> Table {
    let mut table = Table::new(&["component", "last build", "finished", "took", "size", "version"]);
    let row = |name: &String, style, state: &str, finished: Option<&String>, rest: [String; 3]| {
        let finished = finished.map(|time| local(time)).unwrap_or_default();
        let [took, size, version] = rest;
        let plain = [finished, took, size, version].map(|cell| (None, cell));
        [(None, name.clone()), (Some(style), state.to_owned())].into_iter().chain(plain).collect()
    };
    let none = || [String::new(), String::new(), String::new()];
    for &report in components {
        table.styled_row(match report {
            LastBuildReport::NotBuilt { component } => {
                row(component, Style::Dim, "none", None, none())
            }
            LastBuildReport::Running { component, .. } => {
                row(component, Style::Note, "running", None, none())
            }
            LastBuildReport::Stopped { component, .. } => {
                row(component, Style::Warning, "stopped", None, none())
            }
            LastBuildReport::Failed { component, finished, .. } => {
                row(component, Style::Bad, "failed", Some(finished), none())
            }
            LastBuildReport::Built { component, version, finished, seconds, size } => {
                let took = seconds.map(|s| duration::shown(Duration::from_secs_f64(s.round())));
                let rest = [took.unwrap_or_default(), human_size(*size), version.clone()];
                row(component, Style::Good, "passed", finished.as_ref(), rest)
            }
        });
    }
    table
}

/// Returns a time in RFC 3339 as the reader's clock shows it.
fn local(time: &str) -> String {
    time.parse::<Timestamp>().map_or_else(
        |_| time.to_owned(),
        |time| time.to_zoned(TimeZone::system()).strftime("%Y-%m-%d %H:%M").to_string(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shows_one_row_per_component() {
        let reports = [
            LastBuildReport::NotBuilt { component: "a".into() },
            LastBuildReport::Built {
                component: "b".into(),
                version: "1.0-2.fc43".into(),
                finished: None,
                seconds: Some(0.6),
                size: 1500,
            },
        ];
        assert_eq!(
            crate::style::uncolored(&table(&reports.iter().collect::<Vec<_>>()).text()),
            "COMPONENT  LAST BUILD  FINISHED  TOOK  SIZE    VERSION\n\
             a          none\n\
             b          passed                1 s   1.5 kB  1.0-2.fc43\n"
        );
        assert_eq!(local("soon"), "soon");
    }
}
