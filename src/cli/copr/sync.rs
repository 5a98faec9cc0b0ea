//! `rocmrpm copr sync`.

use serde::Serialize;
use serde_json::Value;

use super::Target;
use crate::cli::{CommandResult, args};
use crate::copr::{Change, Client, MacrosPackage, Obstacle, ProjectChroot, Sync, unaccepted};
use crate::document::Document;
use crate::error::{Error, Kind};
use crate::publishing::check_closures;
use crate::report::{Progress, Shell, Style, count};
use crate::text::visible;

/// What `rocmrpm copr sync --json` prints: how the project on COPR differs from `copr/project.toml`.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(in crate::cli) struct SyncReport<'a> {
    schema: &'static str,
    /// `owner/project`.
    project: &'a str,
    /// The project's page.
    url: String,
    /// Whether the project exists now.
    exists: bool,
    /// Whether nothing was changed, because of `--dry-run`.
    dry_run: bool,
    /// The settings that differ.
    changes: &'a [Change],
    /// Additional notes.
    notes: &'a [String],
}

impl Document for SyncReport<'_> {
    const SCHEMA: &'static str = "rocmrpm/copr-sync/1";
}

pub(super) fn run(args: &args::CoprSync, target: &Target, shell: &Shell) -> CommandResult {
    check_closures(&target.workspaces, &[])?;
    let progress = Progress::new(shell);
    let client =
        Client::new(args.access.config.as_deref(), &target.project.full_name(), &progress)?;
    let places = places(target)?;
    let sync = Sync::find(&client, &target.project, &places)?;
    if !args.json {
        sync.changes.iter().try_for_each(|change| show(change, shell))?;
    }
    for note in &sync.notes {
        shell.talk(format!("note: {note}"));
    }
    let todo = sync.changes.iter().filter(|change| !change.by_hand).count();
    if sync.publishes_all() {
        refuse_unaccepted(&client, &places, shell)?;
    }
    if !args.dry_run {
        sync.apply(&client)?;
    }
    if args.json {
        shell.json(&SyncReport {
            schema: SyncReport::SCHEMA,
            project: client.project(),
            url: client.page(),
            exists: sync.exists || !args.dry_run,
            dry_run: args.dry_run,
            changes: &sync.changes,
            notes: &sync.notes,
        })?;
    }
    let settings = count(sync.changes.len(), "setting");
    if sync.changes.is_empty() {
        shell.status(
            Style::Good,
            "Unchanged",
            format!("{} matches copr/project.toml", client.page()),
        );
        return Ok(0);
    }
    if args.dry_run {
        let there = if sync.exists { "to change" } else { "to set in a new project" };
        shell.talk(format!("{settings} {there}; dry run: no changes made"));
        return Ok(1);
    }
    if todo > 0 {
        let word = if sync.exists { "Changed" } else { "Created" };
        shell.status(Style::Good, word, format!("{} ({})", client.page(), count(todo, "setting")));
    }
    let by_hand: Vec<&str> =
        sync.changes.iter().filter(|change| change.by_hand).map(|c| c.key).collect();
    if !by_hand.is_empty() {
        let list = by_hand.join(", ");
        shell.warning(format!(
            "copr-cli has no option for {list}; set it on {}edit/",
            client.page()
        ));
    }
    Ok(0)
}

/// Refuses to make COPR publish all builds while some of them have not passed inspection.
fn refuse_unaccepted(
    client: &Client<'_>,
    places: &[ProjectChroot<'_>],
    shell: &Shell,
) -> Result<(), Error> {
    let Some(place) = places.first() else { return Ok(()) };
    let root = place.workspace.root.join("build");
    let obstacles = unaccepted(client, &root, &MacrosPackage::name_of(place.workspace))?;
    if obstacles.is_empty() {
        return Ok(());
    }
    shell.warning("with `publish = \"at-once\"`, COPR would also publish:");
    show_obstacles(client, obstacles, shell);
    let message = "users would get packages that did not pass inspection";
    Err(Error::new(Kind::Findings, message)
        .with_help("delete these builds, then run `rocmrpm copr sync` again".to_owned()))
}

/// Shows the builds that would be published without inspection, and what to do about them.
pub(super) fn show_obstacles(client: &Client<'_>, obstacles: Vec<Obstacle>, shell: &Shell) {
    for Obstacle { package, build, over } in obstacles {
        let page = client.build_page(build);
        shell.line(match over {
            true => format!(
                "`{package}`: {page} was not accepted; to delete it: {}",
                client.command(&["delete-build", &build.to_string()])
            ),
            false => format!("`{package}`: {page} has not finished; try again when it has"),
        });
    }
}

/// Returns the chroots of the project, each with its macros package.
pub(super) fn places(target: &Target) -> Result<Vec<ProjectChroot<'_>>, Error> {
    target.chroots().map(|(chroot, workspace)| ProjectChroot::new(chroot, workspace)).collect()
}

/// Prints a difference, as a unified diff for a multi-line text.
fn show(change: &Change, shell: &Shell) -> Result<(), Error> {
    let place = change.chroot.as_deref().map(|chroot| format!("{chroot}: ")).unwrap_or_default();
    let name = format!("{place}{}", change.key);
    if let Value::String(new) = &change.new
        && new.contains('\n')
    {
        let old = change.old.as_str().unwrap_or_default();
        let diff = similar::TextDiff::from_lines(old, new);
        let (old, new) = (format!("COPR: {name}"), format!("copr/project.toml: {name}"));
        return shell.data(diff.unified_diff().header(&old, &new).to_string().trim_end());
    }
    let by_hand = if change.by_hand { " (by hand)" } else { "" };
    shell.data(format!("{name}: {} → {}{by_hand}", shown(&change.old), shown(&change.new)))
}

fn shown(value: &Value) -> String {
    match value {
        Value::Null => "not set".to_owned(),
        Value::Bool(on) => if *on { "on" } else { "off" }.to_owned(),
        Value::String(text) if text.is_empty() => "nothing".to_owned(),
        Value::String(text) => visible(text),
        Value::Array(list) if list.is_empty() => "none".to_owned(),
        Value::Array(list) => {
            list.iter().filter_map(Value::as_str).map(visible).collect::<Vec<_>>().join(" ")
        }
        other => other.to_string(),
    }
}
