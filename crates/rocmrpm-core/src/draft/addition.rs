//! Adds a component to a workspace: its pin, its drafted files, and writing both.

use std::path::{Component as Part, Path, PathBuf};

use toml_edit::{DocumentMut, Item, Table, value};

use super::{Draft, draft, wheel};
use crate::error::{Error, IoError, Kind};
use crate::files;
use crate::machine;
use crate::names::ComponentName;
use crate::sources::Fetcher;
use crate::workspace::document::File;
use crate::workspace::pins::Overrides;
use crate::workspace::{Lock, Pin, PinSet, Source, Workspace};

/// A component to add.
#[derive(Debug, Clone)]
pub struct NewComponent {
    /// Its name.
    pub name: ComponentName,
    /// The project on the pip index.
    pub project: String,
    /// The version; `None` for the newest release, or for the one that a folder states.
    pub version: Option<String>,
    /// Where its source comes from.
    pub from: NewSource,
}

/// Where the source of a new component comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NewSource {
    /// The source distribution on the pip index.
    Sdist,
    /// A wheel on the pip index.
    Wheel,
    /// A URL, in which `{version}` stands for the version. Needs a version.
    Url(String),
    /// The URL of a git repository. Needs a version.
    Git(String),
    /// A folder of the workspace.
    Folder(String),
}

/// A component that is ready to be written.
#[derive(Debug)]
pub struct DraftedComponent {
    /// Its resolved pin.
    pub pin: Pin,
    /// Its files.
    pub draft: Draft,
    from: NewSource,
}

impl NewComponent {
    /// Resolves the pin, fetches the source, and drafts the files.
    pub fn draft(
        &self,
        workspace: &Workspace,
        fetcher: &Fetcher<'_>,
    ) -> Result<DraftedComponent, Error> {
        let mut pin = pin(self, workspace, fetcher)?;
        // Fails before anything is fetched if the pin is invalid.
        pins_with(workspace, &pin, &Draft::default(), &self.from)?;
        fetcher.resolve(&pin)?.settle(&mut pin);
        let draft = draft(&pin, &architecture(workspace), fetcher)?;
        Ok(DraftedComponent { pin, draft, from: self.from.clone() })
    }
}

/// Returns the architecture of the workspace's chroot, in rpm's spelling. The definition of the
/// host does not state it.
fn architecture(workspace: &Workspace) -> String {
    match workspace.chroot.is_host() {
        true => std::env::consts::ARCH.to_owned(),
        false => workspace.chroot.arch.clone(),
    }
}

/// Returns the pin of a component, unresolved.
fn pin(
    component: &NewComponent,
    workspace: &Workspace,
    fetcher: &Fetcher<'_>,
) -> Result<Pin, Error> {
    let NewComponent { project, version, from, .. } = component;
    let stated = version.clone().unwrap_or_default();
    let (version, source) = match from {
        NewSource::Url(url) => {
            (stated.clone(), Source::Url { url: url.replace("{version}", &stated), sha256: None })
        }
        NewSource::Git(url) => (
            stated,
            Source::Git { url: url.clone(), commit: None, submodules: false, paths: Vec::new() },
        ),
        NewSource::Folder(path) => {
            let path = folder_in(workspace, path)?;
            let version = match version {
                Some(version) => version.clone(),
                None => version_in(&workspace.root.join(&path))?,
            };
            (version, Source::Folder { path, paths: Vec::new() })
        }
        NewSource::Wheel => {
            let python = match workspace.chroot.is_host() {
                true => machine::python_version()?,
                false => workspace.chroot.python.clone(),
            };
            let platform = (python.as_str(), architecture(workspace));
            let (version, wheel) =
                wheel::pick(project, version.as_deref(), (platform.0, &platform.1), fetcher)?;
            (version, Source::Wheel { file: wheel.name, sha256: wheel.sha256 })
        }
        NewSource::Sdist => {
            let sdist = fetcher.sdist(project, version.as_deref())?;
            let project = project.clone();
            (sdist.version.to_string(), Source::Sdist { project, sha256: sdist.sha256 })
        }
    };
    Ok(Pin::new(component.name.clone(), version, source))
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
    from: &NewSource,
) -> Result<String, Error> {
    let name = format!("pins/{}.toml", workspace.pins.name);
    let mut document: DocumentMut = workspace
        .pins
        .file
        .text
        .parse()
        .map_err(|error| Error::new(Kind::Config, format!("cannot edit `{name}`: {error}")))?;
    let mut table = table(pin, draft, from);
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

impl DraftedComponent {
    /// Writes the component's folder and its pin, or neither. Returns the paths of the files in the
    /// folder, and of the pin set, relative to the workspace.
    pub fn write(&self, workspace: &Workspace) -> Result<([String; 2], String), Error> {
        let Self { pin, draft, from } = self;
        let pins_name = format!("pins/{}.toml", workspace.pins.name);
        let pins = pins_with(workspace, pin, draft, from)?;
        let (name, spec) = (pin.component.as_str(), &draft.file_name);
        let folder = workspace.root.join("specs-templates").join(name);
        let action = || IoError::doing(format!("write the component `{name}`"));
        let parent = folder.parent().unwrap_or(&folder);
        fs_err::create_dir_all(parent).map_err(action())?;
        let staging =
            tempfile::Builder::new().prefix(".rocmrpm-").tempdir_in(parent).map_err(action())?;
        let component = staging.path().join("component.toml");
        fs_err::write(component, &draft.component).map_err(action())?;
        fs_err::write(staging.path().join(spec), &draft.template).map_err(action())?;
        fs_err::rename(staging.path(), &folder).map_err(action())?;
        let readable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        fs_err::set_permissions(&folder, readable).map_err(action())?;
        let written = files::write_durably(
            &workspace.root.join(format!("pins/{}.toml", workspace.pins.name)),
            pins,
        );
        if written.is_err() {
            files::remove_dir_if_there(&folder).map_err(action())?;
        }
        written.map_err(action())?;
        let file = |file: &str| format!("specs-templates/{name}/{file}");
        Ok(([file("component.toml"), file(spec)], pins_name))
    }
}

fn table(pin: &Pin, draft: &Draft, from: &NewSource) -> Table {
    let mut table = Table::new();
    table.insert("version", value(&pin.version));
    match &pin.source {
        Source::Url { url, sha256 } => {
            // Keeps `{version}`, so that the next version needs no other edit.
            let url = if let NewSource::Url(stated) = from { stated } else { url };
            table.insert("url", value(url));
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
