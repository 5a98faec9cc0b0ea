//! `rocmrpm add`.

use std::io::Read;
use std::path::{Component as Part, Path, PathBuf};

use toml_edit::{DocumentMut, Item, Table, value};

use super::{Done, args, context, schemas};
use crate::error::{Error, IoError, Kind};
use crate::events::Events;
use crate::files;
use crate::names::ComponentName;
use crate::report::{Progress, Shell, Style};
use crate::sources::{Cache, Fetched, Fetcher};
use crate::workspace::document::File;
use crate::workspace::pins::Overrides;
use crate::workspace::{Lock, Pin, PinSet, Source, Workspace};

/// The templates for a new component.
const PYTHON: &str = include_str!("new-python.spec.tera");
const CMAKE: &str = include_str!("new-cmake.spec.tera");

/// Upper bound on a metadata file in a source's archive, in bytes.
const MAX_METADATA: u64 = 1 << 20;

/// The project's metadata that a template needs, as far as the project states it.
#[derive(Debug, Default, PartialEq, Eq)]
struct About {
    summary: Option<String>,
    license: Option<String>,
    url: Option<String>,
    python: bool,
}

pub(super) fn run(args: &args::Add, dir: &Path, shell: &Shell) -> Done {
    let choice = args::Choice { chroot: None, pins: args.pins.clone() };
    let workspace = context::workspace(dir, &choice, &[])?;
    let name = ComponentName::parse(&args.name).ok_or_else(|| {
        Error::new(Kind::Usage, format!("`{}` is not a valid name for a component", args.name))
            .with_help("use lowercase letters, digits, and `-`, such as `hello-world`")
    })?;
    let folder = workspace.root.join("specs-templates").join(name.as_str());
    if folder.exists() {
        return Err(Error::new(Kind::Usage, format!("the component `{name}` already exists"))
            .with_help(format!("choose another name, or edit specs-templates/{name}")));
    }
    let progress = Progress::new(shell);
    let events: &dyn Events = &progress;
    let fetcher = Fetcher::new(Cache::from_env()?, &workspace.root, events);
    let mut pin = pin(args, name, &workspace, &fetcher)?;
    // Fails before anything is fetched if the pin is invalid.
    pins_with(&workspace, &pin, args)?;
    fetcher.resolve(&pin)?.settle(&mut pin);
    let about = about(&fetcher.obtain(&pin)?, &pin);
    drop(progress);
    write(&workspace, &pin, args, &about, &folder, shell)?;
    if about.summary.is_none() || about.license.is_none() || about.url.is_none() {
        shell
            .warning("the source lacks some metadata; fill in the lines with TODO in the template");
    }
    shell.talk(format!(
        "\n{} review specs-templates/{}, then run `rocmrpm plan` and `rocmrpm build {}`",
        Style::Note.paint("next:"),
        pin.component,
        pin.component
    ));
    Ok(0)
}

/// Returns the pin that the arguments describe, unresolved.
fn pin(
    args: &args::Add,
    component: ComponentName,
    workspace: &Workspace,
    fetcher: &Fetcher<'_>,
) -> Result<Pin, Error> {
    // clap requires a version for every origin except an sdist.
    let version = args.version.clone().unwrap_or_default();
    let (version, source) = if let Some(url) = &args.url {
        (version.clone(), Source::Url { url: url.replace("{version}", &version), sha256: None })
    } else if let Some(url) = &args.git {
        (
            version,
            Source::Git { url: url.clone(), commit: None, submodules: false, paths: Vec::new() },
        )
    } else if let Some(path) = &args.path {
        (version, Source::Folder { path: folder_in(workspace, path)?, paths: Vec::new() })
    } else {
        let project = args.sdist.clone().unwrap_or_else(|| args.name.clone());
        let sdist = fetcher.sdist(&project, args.version.as_deref())?;
        (sdist.version.to_string(), Source::Sdist { project, sha256: sdist.sha256 })
    };
    Ok(Pin::new(component, version, source))
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
fn pins_with(workspace: &Workspace, pin: &Pin, args: &args::Add) -> Result<String, Error> {
    let name = format!("pins/{}.toml", workspace.pins.name);
    let mut document: DocumentMut = workspace
        .pins
        .file
        .text
        .parse()
        .map_err(|error| Error::new(Kind::Config, format!("cannot edit `{name}`: {error}")))?;
    let mut table = table(pin, args);
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
    args: &args::Add,
    about: &About,
    folder: &Path,
    shell: &Shell,
) -> Result<(), Error> {
    let pins_name = format!("pins/{}.toml", workspace.pins.name);
    let pins = pins_with(workspace, pin, args)?;
    let name = pin.component.as_str();
    let (template, spec) = if about.python {
        (PYTHON, format!("python-{name}.spec.tera"))
    } else {
        (CMAKE, format!("{name}-rocm.spec.tera"))
    };
    let fill = |text: &Option<String>, what: &str| literal(text.as_deref().unwrap_or(what));
    let template = template
        .replace("@NAME@", name)
        .replace("@SUMMARY@", &fill(&about.summary, "TODO: one line, no period at its end"))
        .replace("@LICENSE@", &fill(&about.license, "TODO: an SPDX expression"))
        // The URL must be a single word, or rpm refuses the spec.
        .replace("@URL@", &fill(&about.url, "https://example.org/TODO"));
    let component = "# All keys: see docs/reference/files.md.\nmemory-per-job = \"2 GB\"\n";
    let action = || IoError::doing(format!("write the component `{name}`"));
    let parent = folder.parent().unwrap_or(folder);
    fs_err::create_dir_all(parent).map_err(action())?;
    let staging =
        tempfile::Builder::new().prefix(".rocmrpm-").tempdir_in(parent).map_err(action())?;
    let component =
        schemas::with_line(&format!("specs-templates/{name}/component.toml"), component);
    fs_err::write(staging.path().join("component.toml"), component).map_err(action())?;
    fs_err::write(staging.path().join(&spec), template).map_err(action())?;
    fs_err::rename(staging.path(), folder).map_err(action())?;
    let readable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs_err::set_permissions(folder, readable).map_err(action())?;
    let pins = files::write_durably(&workspace.root.join(&pins_name), pins);
    if pins.is_err() {
        files::remove_dir_if_there(folder).map_err(action())?;
    }
    pins.map_err(action())?;
    schemas::write(&workspace.root).map_err(action())?;
    shell.status(Style::Good, "Added", format!("specs-templates/{name}/component.toml"));
    shell.status(Style::Good, "Added", format!("specs-templates/{name}/{spec}"));
    shell.status(Style::Good, "Pinned", format!("{name} {} in {pins_name}", pin.version));
    Ok(())
}

/// Escapes external text for a template and for the spec rendered from it.
fn literal(text: &str) -> String {
    let text = text.replace('%', "%%");
    ["<{", "<@", "<#"]
        .iter()
        .fold(text, |text, start| text.replace(start, &start.replace('<', "< ")))
}

fn table(pin: &Pin, args: &args::Add) -> Table {
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
        // Only additional sources are crates, and `add` does not create any.
        Source::Crates { .. } => {}
    }
    table
}

/// Reads the source's metadata. An sdist has a PKG-INFO (PEP 314 and its successors) beside its
/// pyproject.toml; other sources are Python projects if they have one of Python's build files.
fn about(fetched: &Fetched, pin: &Pin) -> About {
    let mut about =
        About { python: matches!(pin.source, Source::Sdist { .. }), ..About::default() };
    let Ok(file) = fs_err::File::open(&fetched.path) else { return about };
    let mut archive = tar::Archive::new(flate2::read::GzDecoder::new(file));
    let Ok(entries) = archive.entries() else { return about };
    for entry in entries {
        // An archive in another format has no readable metadata.
        let Ok(entry) = entry else { return about };
        let Ok(path) = entry.path().map(|p| p.into_owned()) else { continue };
        if path.components().count() != 2 {
            continue;
        }
        match path.file_name().and_then(|name| name.to_str()) {
            Some("setup.py") => about.python = true,
            Some(name @ ("pyproject.toml" | "PKG-INFO")) => {
                let read = if name == "PKG-INFO" { read_metadata } else { read_pyproject };
                about.python = true;
                let mut text = String::new();
                if entry.take(MAX_METADATA).read_to_string(&mut text).is_ok() {
                    read(&text, &mut about);
                }
            }
            _ => {}
        }
    }
    about
}

/// Reads the table `[project]` (PEP 621, PEP 639); values that are already known stay.
fn read_pyproject(text: &str, about: &mut About) {
    let Ok(root) = text.parse::<toml::Table>() else { return };
    let Some(project) = root.get("project").and_then(toml::Value::as_table) else { return };
    let string =
        |value: Option<&toml::Value>| value.and_then(toml::Value::as_str).map(str::to_owned);
    let summary =
        string(project.get("description")).map(|text| text.trim_end_matches('.').to_owned());
    about.summary = about.summary.take().or(summary.filter(|text| !text.contains('\n')));
    about.license = about.license.take().or(string(project.get("license")));
    let urls = project.get("urls").and_then(toml::Value::as_table);
    let homepage = urls.and_then(|urls| {
        let home = urls.iter().find(|(name, _)| name.eq_ignore_ascii_case("homepage"));
        string(home.or(urls.iter().next()).map(|(_, url)| url))
    });
    about.url = about.url.take().or(homepage.filter(|url| !url.contains(char::is_whitespace)));
}

fn read_metadata(text: &str, about: &mut About) {
    for line in text.lines().take_while(|line| !line.is_empty()) {
        let Some((key, value)) = line.split_once(": ") else { continue };
        let value = value.trim().to_owned();
        match key {
            "Summary" => about.summary = Some(value.trim_end_matches('.').to_owned()),
            "License-Expression" => about.license = Some(value),
            // Free text, and rarely an SPDX expression, but better than nothing.
            "License" if about.license.is_none() && value.len() < 60 => about.license = Some(value),
            "Home-page" => about.url = Some(value),
            "Project-URL" if about.url.is_none() => {
                about.url = value.split_once(", ").map(|(_, url)| url.to_owned());
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pyproject_fills_in_missing_metadata() {
        let text = "[project]\nname = \"x\"\ndescription = \"Does <{ it }>.\"\nlicense = \"MIT\"\n\
                    [project.urls]\nDocs = \"https://d\"\nhomepage = \"https://h\"\n";
        let mut about = About { license: Some("BSD".into()), ..About::default() };
        read_pyproject(text, &mut about);
        assert_eq!(about.license.as_deref(), Some("BSD"));
        assert_eq!(about.url.as_deref(), Some("https://h"));
        assert_eq!(literal(&about.summary.unwrap()), "Does < { it }>");
        read_pyproject("[project", &mut About::default());
    }

    #[test]
    fn reads_metadata_up_to_the_description() {
        let text = "Metadata-Version: 2.4\nSummary: Does a thing.\nLicense-Expression: MIT\n\
                    Project-URL: Source, https://example.org/x\n\nLicense: not this\n";
        let mut about = About::default();
        read_metadata(text, &mut about);
        assert_eq!(about.summary.as_deref(), Some("Does a thing"));
        assert_eq!(about.license.as_deref(), Some("MIT"));
        assert_eq!(about.url.as_deref(), Some("https://example.org/x"));
    }
}
