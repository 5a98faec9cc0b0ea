//! `rocmrpm add`.

use std::path::Path;

use super::{CommandResult, args, context, schemas};
use crate::draft::{DraftedComponent, NewComponent, NewSource};
use crate::error::{Error, IoError, Kind};
use crate::events::Events;
use crate::names::{ComponentName, is_version};
use crate::report::{Progress, Shell, Style};
use crate::sources::{Cache, Fetcher, normalized};
use crate::workspace::Workspace;

pub(super) fn run(args: &args::Add, dir: &Path, shell: &Shell) -> CommandResult {
    let choice = args::Choice { chroot: None, pins: args.pins.clone() };
    let mut workspace = context::workspace(dir, &choice, &[])?;
    let all = wanted(args, &workspace)?;
    let progress = Progress::new(shell);
    let events: &dyn Events = &progress;
    let root = workspace.root.clone();
    let fetcher = Fetcher::new(Cache::from_env()?, &root, events);
    let drafted: Vec<DraftedComponent> =
        all.iter().map(|new| new.draft(&workspace, &fetcher)).collect::<Result<_, _>>()?;
    drop(progress);
    for mut component in drafted {
        let name = component.pin.component.clone();
        let path = format!("specs-templates/{name}/component.toml");
        component.draft.component = schemas::with_line(&path, &component.draft.component);
        let (files, pins) = component.write(&workspace)?;
        schemas::write(&root).map_err(IoError::doing("write the schemas for editors"))?;
        files.iter().for_each(|file| shell.status(Style::Good, "Added", file));
        let pinned = format!("{name} {} in {pins}", component.pin.version);
        shell.status(Style::Good, "Pinned", pinned);
        for warning in &component.draft.warnings {
            shell.warning(format!("{name}: {warning}"));
        }
        workspace = context::workspace(dir, &choice, &[])?;
    }
    let names: Vec<&str> = all.iter().map(|one| one.name.as_str()).collect();
    shell.talk(format!(
        "\n{} review {}, then run `rocmrpm lint` and `rocmrpm build {}`",
        Style::Note.paint("next:"),
        match names[..] {
            [name] => format!("specs-templates/{name}"),
            _ => "the new folders in specs-templates".to_owned(),
        },
        names.join(" ")
    ));
    Ok(0)
}

/// Returns the components that the arguments name. Refuses existing ones.
fn wanted(args: &args::Add, workspace: &Workspace) -> Result<Vec<NewComponent>, Error> {
    let one_only = args.version.is_some()
        || args.sdist.is_some()
        || args.url.is_some()
        || args.git.is_some()
        || args.path.is_some();
    if let ([_, second, ..], true) = (&args.names[..], one_only) {
        let message = format!("cannot add `{second}` with the options of another component");
        return Err(Error::new(Kind::Usage, message)
            .with_help("run `rocmrpm add` for each, or name versions as `NAME==VERSION`"));
    }
    let mut all: Vec<NewComponent> = Vec::new();
    for text in &args.names {
        let (project, version) = match text.split_once("==") {
            Some((project, version)) if is_version(version) => (project, Some(version.to_owned())),
            _ => (text.as_str(), None),
        };
        if version.is_some() && args.version.is_some() {
            return Err(Error::new(Kind::Usage, format!("`{text}` has two versions"))
                .with_help("remove `--version`"));
        }
        // The names of other sources are the packager's choice.
        let of_index = matches!(source(args), NewSource::Sdist | NewSource::Wheel);
        let exact = ComponentName::parse(project).filter(|_| !of_index);
        let name =
            exact.or_else(|| ComponentName::parse(&normalized(project))).ok_or_else(|| {
                Error::new(Kind::Usage, format!("`{project}` is not a valid name for a component"))
                    .with_help("use lowercase letters, digits, and `-`, such as `hello-world`")
            })?;
        let exists = workspace.root.join("specs-templates").join(name.as_str()).exists();
        if exists || all.iter().any(|other| other.name == name) {
            let message = format!("the component `{name}` already exists");
            return Err(Error::new(Kind::Usage, message)
                .with_help(format!("choose another name, or edit specs-templates/{name}")));
        }
        let project = args.sdist.clone().unwrap_or_else(|| project.to_owned());
        let version = version.or_else(|| args.version.clone());
        all.push(NewComponent { name, project, version, from: source(args) });
    }
    Ok(all)
}

fn source(args: &args::Add) -> NewSource {
    match (&args.url, &args.git, &args.path) {
        (Some(url), ..) => NewSource::Url(url.clone()),
        (_, Some(url), _) => NewSource::Git(url.clone()),
        (.., Some(path)) => NewSource::Folder(path.clone()),
        _ if args.wheel => NewSource::Wheel,
        _ => NewSource::Sdist,
    }
}
