//! `rocmrpm add`.

use std::path::{Component as Part, Path, PathBuf};

use toml_edit::{DocumentMut, Item, Table, value};

use super::{Done, args, context, schemas};
use crate::draft::{self, Draft};
use crate::error::{Error, IoError, Kind};
use crate::events::Events;
use crate::files;
use crate::machine;
use crate::names::{ComponentName, is_version};
use crate::report::{Progress, Shell, Style};
use crate::sources::{Cache, Fetcher, normalized};
use crate::workspace::document::File;
use crate::workspace::pins::Overrides;
use crate::workspace::{Lock, Pin, PinSet, Source, Workspace};

/// A component to add.
struct Wanted {
    name: ComponentName,
    /// The project on the pip index.
    project: String,
    version: Option<String>,
}

/// A component that is ready to be written.
struct Ready {
    pin: Pin,
    draft: Draft,
}

pub(super) fn run(args: &args::Add, dir: &Path, shell: &Shell) -> Done {
    let choice = args::Choice { chroot: None, pins: args.pins.clone() };
    let mut workspace = context::workspace(dir, &choice, &[])?;
    let all = wanted(args, &workspace)?;
    let progress = Progress::new(shell);
    let events: &dyn Events = &progress;
    let root = workspace.root.clone();
    let fetcher = Fetcher::new(Cache::from_env()?, &root, events);
    let mut ready = Vec::new();
    for one in &all {
        let mut pin = pin(args, one, &workspace, &fetcher)?;
        // Fails before anything is fetched if the pin is invalid.
        pins_with(&workspace, &pin, &Draft::default(), args)?;
        fetcher.resolve(&pin)?.settle(&mut pin);
        let draft = draft::draft(&pin, &architecture(&workspace), &fetcher)?;
        ready.push(Ready { pin, draft });
    }
    drop(progress);
    for Ready { pin, draft } in &ready {
        write(&workspace, pin, draft, args, shell)?;
        for warning in &draft.warnings {
            shell.warning(format!("{}: {warning}", pin.component));
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
fn wanted(args: &args::Add, workspace: &Workspace) -> Result<Vec<Wanted>, Error> {
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
    let mut all: Vec<Wanted> = Vec::new();
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
        let of_index = args.url.is_none() && args.git.is_none() && args.path.is_none();
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
        all.push(Wanted { name, project, version: version.or_else(|| args.version.clone()) });
    }
    Ok(all)
}

/// Returns the architecture of the workspace's chroot, in rpm's spelling. The definition of the
/// host does not state it.
fn architecture(workspace: &Workspace) -> String {
    match workspace.chroot.is_host() {
        true => std::env::consts::ARCH.to_owned(),
        false => workspace.chroot.arch.clone(),
    }
}

/// Returns the pin that the arguments describe, unresolved.
fn pin(
    args: &args::Add,
    wanted: &Wanted,
    workspace: &Workspace,
    fetcher: &Fetcher<'_>,
) -> Result<Pin, Error> {
    let Wanted { project, version, .. } = wanted;
    // clap requires a version for URLs and git.
    let stated = version.clone().unwrap_or_default();
    let (version, source) = if let Some(url) = &args.url {
        (stated.clone(), Source::Url { url: url.replace("{version}", &stated), sha256: None })
    } else if let Some(url) = &args.git {
        (
            stated,
            Source::Git { url: url.clone(), commit: None, submodules: false, paths: Vec::new() },
        )
    } else if let Some(path) = &args.path {
        let path = folder_in(workspace, path)?;
        let version = match version {
            Some(version) => version.clone(),
            None => version_in(&workspace.root.join(&path))?,
        };
        (version, Source::Folder { path, paths: Vec::new() })
    } else if args.wheel {
        let python = match workspace.chroot.is_host() {
            true => machine::python_version()?,
            false => workspace.chroot.python.clone(),
        };
        let platform = (python.as_str(), architecture(workspace));
        let (version, wheel) =
            draft::pick_wheel(project, version.as_deref(), (platform.0, &platform.1), fetcher)?;
        (version, Source::Wheel { file: wheel.name, sha256: wheel.sha256 })
    } else {
        let sdist = fetcher.sdist(project, version.as_deref())?;
        let project = project.clone();
        (sdist.version.to_string(), Source::Sdist { project, sha256: sdist.sha256 })
    };
    Ok(Pin::new(wanted.name.clone(), version, source))
}

/// Returns the version in a folder's pyproject.toml.
fn version_in(folder: &Path) -> Result<String, Error> {
    let text = fs_err::read_to_string(folder.join("pyproject.toml")).unwrap_or_default();
    let table = text.parse::<toml::Table>().unwrap_or_default();
    let version = table.get("project").and_then(|project| project.get("version")?.as_str());
    version.map(str::to_owned).ok_or_else(|| {
        let message = format!("`{}` does not state its version", folder.display());
        Error::new(Kind::Usage, message).with_help("name it with `--version VERSION`")
    })
}

/// Returns the path of a folder as in a pin: relative to the root of the workspace. Users write it
/// as the shell completes it: `./src/x/`, or absolute.
fn folder_in(workspace: &Workspace, text: &str) -> Result<PathBuf, Error> {
    let path = Path::new(text);
    let path = path.strip_prefix(&workspace.root).unwrap_or(path);
    let path: PathBuf = path.components().filter(|part| *part != Part::CurDir).collect();
    let inside = path.components().all(|part| matches!(part, Part::Normal(_)));
    if inside && path.components().next().is_some() {
        return Ok(path);
    }
    Err(Error::new(Kind::Usage, format!("`{text}` is not a folder inside the workspace"))
        .with_help(format!(
            "copy the source into the workspace {}, for example to `src/NAME`",
            workspace.root.display()
        )))
}

/// Returns the text of the pin set with the new pin. Refuses a pin that would make the pin set
/// invalid.
fn pins_with(
    workspace: &Workspace,
    pin: &Pin,
    draft: &Draft,
    args: &args::Add,
) -> Result<String, Error> {
    let name = format!("pins/{}.toml", workspace.pins.name);
    let mut document: DocumentMut = workspace
        .pins
        .file
        .text
        .parse()
        .map_err(|error| Error::new(Kind::Config, format!("cannot edit `{name}`: {error}")))?;
    let mut table = table(pin, draft, args);
    // A comment at the end of the file, such as the first line of a new one, stays above the pin.
    let above = format!("{}\n", document.trailing().as_str().unwrap_or_default());
    document.set_trailing("");
    table.decor_mut().set_prefix(above);
    document.insert(pin.component.as_str(), Item::Table(table));
    let text = document.to_string();
    let mut problems = Vec::new();
    let file = File { name, text: text.clone() };
    PinSet::read(&workspace.pins.name, file, &Lock::default(), &Overrides::new(), &mut problems);
    match problems.into_iter().next() {
        Some(problem) => Err(Error::new(Kind::Usage, problem.message).with_help(problem.label)),
        None => Ok(text),
    }
}

/// Writes the component's folder and its pin, or neither.
fn write(
    workspace: &Workspace,
    pin: &Pin,
    draft: &Draft,
    args: &args::Add,
    shell: &Shell,
) -> Result<(), Error> {
    let pins_name = format!("pins/{}.toml", workspace.pins.name);
    let pins = pins_with(workspace, pin, draft, args)?;
    let (name, spec) = (pin.component.as_str(), &draft.file_name);
    let folder = workspace.root.join("specs-templates").join(name);
    let action = || IoError::doing(format!("write the component `{name}`"));
    let parent = folder.parent().unwrap_or(&folder);
    fs_err::create_dir_all(parent).map_err(action())?;
    let staging =
        tempfile::Builder::new().prefix(".rocmrpm-").tempdir_in(parent).map_err(action())?;
    let component =
        schemas::with_line(&format!("specs-templates/{name}/component.toml"), &draft.component);
    fs_err::write(staging.path().join("component.toml"), component).map_err(action())?;
    fs_err::write(staging.path().join(spec), &draft.template).map_err(action())?;
    fs_err::rename(staging.path(), &folder).map_err(action())?;
    let readable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs_err::set_permissions(&folder, readable).map_err(action())?;
    let pins = files::write_durably(&workspace.root.join(&pins_name), pins);
    if pins.is_err() {
        files::remove_dir_if_there(&folder).map_err(action())?;
    }
    pins.map_err(action())?;
    schemas::write(&workspace.root).map_err(action())?;
    shell.status(Style::Good, "Added", format!("specs-templates/{name}/component.toml"));
    shell.status(Style::Good, "Added", format!("specs-templates/{name}/{spec}"));
    shell.status(Style::Good, "Pinned", format!("{name} {} in {pins_name}", pin.version));
    Ok(())
}

fn table(pin: &Pin, draft: &Draft, args: &args::Add) -> Table {
    let mut table = Table::new();
    table.insert("version", value(&pin.version));
    match &pin.source {
        Source::Url { sha256, .. } => {
            // Keeps `{version}`, so that the next version needs no other edit.
            table.insert("url", value(args.url.clone().unwrap_or_default()));
            sha256.map(|digest| table.insert("sha256", value(digest.to_string())));
        }
        Source::Sdist { project, sha256 } => {
            table.insert("sdist", value(project));
            sha256.map(|digest| table.insert("sha256", value(digest.to_string())));
        }
        Source::Wheel { file, sha256 } => {
            table.insert("wheel", value(file));
            sha256.map(|digest| table.insert("sha256", value(digest.to_string())));
        }
        Source::Git { url, commit, .. } => {
            table.insert("git", value(url));
            commit.as_ref().map(|commit| table.insert("commit", value(commit)));
        }
        Source::Folder { path, .. } => {
            table.insert("path", value(path.to_string_lossy().into_owned()));
        }
        // Only additional sources are crates.
        Source::Crates { .. } => {}
    }
    if let Some(folder) = &draft.top_folder {
        table.insert("top-folder", value(folder));
    }
    if let Some(lock_file) = &draft.cargo_lock {
        let mut crates = Table::new();
        crates.insert("cargo-vendor", value(lock_file));
        let mut sources = Table::new();
        sources.set_implicit(true);
        sources.insert("crates", Item::Table(crates));
        table.insert("sources", Item::Table(sources));
    }
    table
}
