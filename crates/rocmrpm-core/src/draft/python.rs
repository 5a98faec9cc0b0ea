//! Drafts the package of a Python project from its source, and from upstream's wheel of the same
//! version, which lists the files that the build will install.

use std::collections::BTreeSet;

use super::license::{self, License};
use super::native::{self, Native};
use super::{Draft, comment, component_toml, head, license_lines, license_texts, tag, with_linked};
use crate::closure::generate::facts::{Build, WheelFacts, has_extensions, license_files, names_in};
use crate::closure::generate::member::{
    RUST_ENV, UNPACK_CRATES, build_rust, files, installed_licenses, saved,
};
use crate::closure::generate::rust;
use crate::closure::generate::text::{literal, url, wrapped};
use crate::closure::package_name::{package, stem};
use crate::closure::{About, metadata};
use crate::error::Error;
use crate::names::normalized;
use crate::sources::{CargoProject, Fetcher, Tree};
use crate::wheel::{Contents, FileName, commands};
use crate::workspace::pin::{Pin, Source};

/// Upper bound on a wheel that is downloaded only to list its files, in bytes.
const LARGEST_WHEEL: u64 = 64 << 20;

/// What the source and upstream's wheels say about a project.
struct Facts {
    about: About,
    license: License,
    license_files: Vec<String>,
    /// Whether the packages have no compiled files.
    pure: bool,
    native: Native,
    backend: String,
    /// The option of `%pyproject_buildrequires` that says where the requirements are.
    requirements: &'static str,
    /// Whether the build runs cargo.
    has_rust: bool,
    /// Its Rust project, if it has a `Cargo.lock`.
    rust: Option<CargoProject>,
    /// The toolchain files that rustup would follow.
    toolchain_files: Vec<String>,
    contents: Option<Contents>,
}

pub(super) fn draft(
    pin: &Pin,
    tree: &Tree,
    arch: &str,
    fetcher: &Fetcher<'_>,
) -> Result<Draft, Error> {
    let mut warnings = Vec::new();
    let facts = facts(pin, tree, arch, fetcher, &mut warnings)?;
    let name = normalized(pin.component.as_str());
    let template = template(&name, &facts, &mut warnings);
    Ok(Draft {
        file_name: format!("python-{}.spec.tera", stem(&name)),
        template,
        component: component_toml(!facts.pure),
        cargo_lock: facts.rust.map(|project| project.lock_file),
        warnings,
        ..Draft::default()
    })
}

fn facts(
    pin: &Pin,
    tree: &Tree,
    arch: &str,
    fetcher: &Fetcher<'_>,
    warnings: &mut Vec<String>,
) -> Result<Facts, Error> {
    let about = match tree.text("PKG-INFO")? {
        Some(text) => metadata::about(&text),
        None => metadata::about_project(&tree.text("pyproject.toml")?.unwrap_or_default()),
    };
    let names = names_in(&tree.dir, std::fs::FileType::is_file)?;
    let license_files = license_files(&tree.dir, &names)?;
    let mut license =
        license::decide(about.license.as_deref(), &license_texts(&tree.dir, &license_files));
    let backend = Build::read(tree)?.map(|build| build.backend).unwrap_or_default();
    let rust = rust::project(&tree.dir, &names);
    if let Some(project) = &rust {
        with_linked(&mut license, project, pin, arch, fetcher);
    }
    let wheels = match &pin.source {
        Source::Sdist { project, .. } => Wheels::of(project, pin, arch, fetcher, warnings)?,
        _ => Wheels::default(),
    };
    let compiled = match (wheels.pure, wheels.compiled) {
        (true, false) => false,
        (false, true) => true,
        _ => has_extensions(&tree.dir) || !native::backend(&backend).programs.is_empty(),
    };
    let has_rust = rust.is_some() || uses_cargo(tree);
    let contents = match wheels.contents {
        Some(contents) => Some(contents),
        None => installed(tree, &names)?,
    };
    // Upstream may have wheels of both kinds.
    let contents = contents.map(|contents| Contents { compiled: compiled || has_rust, ..contents });
    if has_rust && rust.is_none() {
        warnings.push(
            "the source has no Cargo.lock, so that its crates cannot be vendored; ask upstream to \
             add it to the source distribution, or use `--git`"
                .to_owned(),
        );
    }
    let toolchain = ["rust-toolchain", "rust-toolchain.toml"].into_iter();
    let toolchain = toolchain.filter(|file| has_rust && tree.dir.join(file).is_file());
    Ok(Facts {
        about,
        license,
        license_files,
        pure: !compiled && !has_rust,
        native: Native::of(&tree.dir),
        requirements: where_requirements_are(tree, &backend)?,
        backend,
        toolchain_files: toolchain.map(str::to_owned).collect(),
        has_rust,
        rust,
        contents,
    })
}

/// Returns the option of `%pyproject_buildrequires` for a build backend: without one, it asks the
/// backend; `-p` reads pyproject.toml, and `-w` builds the wheel.
fn where_requirements_are(tree: &Tree, backend: &str) -> Result<&'static str, Error> {
    if !native::backend(backend).metadata_in_wheel {
        return Ok("");
    }
    let text = tree.text("pyproject.toml")?.unwrap_or_default();
    let table = text.parse::<toml::Table>().unwrap_or_default();
    let project = table.get("project").and_then(toml::Value::as_table);
    let is_static = project.is_some_and(|project| {
        let dynamic = project.get("dynamic").and_then(toml::Value::as_array);
        !dynamic.into_iter().flatten().any(|name| name.as_str() == Some("dependencies"))
    });
    Ok(if is_static { " -p" } else { " -w" })
}

/// Returns whether the build of a project runs cargo.
fn uses_cargo(tree: &Tree) -> bool {
    ["Cargo.toml", "rust/Cargo.toml"].iter().any(|file| tree.dir.join(file).is_file())
}

/// Upstream's wheels of a version.
#[derive(Default)]
struct Wheels {
    /// Whether there is one for any platform.
    pure: bool,
    /// Whether there is one for a single platform.
    compiled: bool,
    /// What one of them installs.
    contents: Option<Contents>,
}

impl Wheels {
    fn of(
        project: &str,
        pin: &Pin,
        arch: &str,
        fetcher: &Fetcher<'_>,
        warnings: &mut Vec<String>,
    ) -> Result<Self, Error> {
        let files = fetcher.projects(&[project])?.concat();
        let version = pin.version.parse().ok();
        let tags = |name: &str| {
            FileName::parse(name).ok().filter(|name| Some(&name.version) == version.as_ref())
        };
        let of_version = files.iter().filter_map(|file| Some((file, tags(&file.name)?)));
        let of_version: Vec<_> = of_version.collect();
        let any = |name: &FileName| name.tags.iter().any(|tag| tag.ends_with("-none-any"));
        let mut wheels = Self::default();
        for (_, name) in &of_version {
            wheels.pure |= any(name);
            wheels.compiled |= !any(name);
        }
        let linux = format!("_{arch}");
        let small = of_version
            .iter()
            .filter(|(file, _)| file.size.is_none_or(|size| size <= LARGEST_WHEEL));
        // Wheels for this platform have its files; those for others mostly the same modules.
        let best = small.max_by_key(|(file, name)| {
            let fits = name.tags.iter().any(|tag| tag.contains("linux") && tag.ends_with(&linux));
            let cpython = name.tags.iter().any(|tag| tag.starts_with("cp"));
            (any(name), fits, cpython, file.name.as_str())
        });
        let Some((file, Some(sha256))) = best.map(|(file, _)| (file, file.sha256)) else {
            return Ok(wheels);
        };
        let locked = crate::closure::LockedFile {
            name: file.name.clone(),
            sha256,
            size: file.size,
            metadata: None,
        };
        let version = version.unwrap_or_else(|| unreachable!("a wheel has this version"));
        match WheelFacts::of(&normalized(project), &version, &locked, fetcher) {
            Ok((facts, _)) => wheels.contents = Some(facts.contents),
            Err(error) => {
                warnings.push(format!("{error}; list the files of the package yourself"));
            }
        }
        Ok(wheels)
    }
}

/// Returns what the source says that it installs; `None` if it does not.
fn installed(tree: &Tree, names: &[String]) -> Result<Option<Contents>, Error> {
    let mut contents = Contents::default();
    let folders = names_in(&tree.dir, std::fs::FileType::is_dir)?;
    let in_src = names_in(&tree.dir.join("src"), std::fs::FileType::is_dir).unwrap_or_default();
    let in_src = in_src.into_iter().map(|name| format!("src/{name}"));
    let infos: Vec<String> = folders.iter().cloned().chain(in_src).collect();
    for info in infos.iter().filter(|name| name.ends_with(".egg-info")) {
        let top = tree.text(&format!("{info}/top_level.txt"))?.unwrap_or_default();
        for name in top.lines().map(str::trim) {
            if is_module(name) {
                contents.modules.insert(name.to_owned());
            } else if name.strip_suffix("-stubs").is_some_and(is_module) {
                contents.stubs.insert(name.to_owned());
            }
        }
        let entries = tree.text(&format!("{info}/entry_points.txt"))?.unwrap_or_default();
        contents.programs.extend(commands(&entries));
    }
    if contents.modules.is_empty() {
        contents.modules = modules(tree, names, &folders)?;
    }
    let pyproject = tree.text("pyproject.toml")?.unwrap_or_default();
    let table = pyproject.parse::<toml::Table>().unwrap_or_default();
    for key in ["scripts", "gui-scripts"] {
        let scripts = table.get("project").and_then(|project| project.get(key)?.as_table());
        let plain = |name: &&String| crate::names::is_plain(name);
        contents
            .programs
            .extend(scripts.into_iter().flatten().map(|(n, _)| n).filter(plain).cloned());
    }
    Ok((!contents.modules.is_empty()).then_some(contents))
}

/// Returns the packages and modules in `src` or, without that folder, in the top folder.
fn modules(tree: &Tree, names: &[String], folders: &[String]) -> Result<BTreeSet<String>, Error> {
    let in_src = tree.dir.join("src");
    let (dir, names, folders) = match in_src.is_dir() {
        true => (
            in_src.clone(),
            names_in(&in_src, std::fs::FileType::is_file)?,
            names_in(&in_src, std::fs::FileType::is_dir)?,
        ),
        false => (tree.dir.clone(), names.to_vec(), folders.to_vec()),
    };
    const NOT_INSTALLED: &[&str] = &["conftest", "docs", "examples", "setup", "test", "tests"];
    let packages = folders.iter().filter(|name| dir.join(name).join("__init__.py").is_file());
    let modules = names.iter().filter_map(|name| name.strip_suffix(".py"));
    let all = packages.map(String::as_str).chain(modules);
    let all = all.filter(|name| is_module(name) && !NOT_INSTALLED.contains(name));
    Ok(all.map(str::to_owned).collect())
}

fn is_module(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

fn template(name: &str, facts: &Facts, warnings: &mut Vec<String>) -> String {
    let package = package(name);
    let license = license_lines(&facts.license, warnings);
    let home = url(facts.about.home.as_deref());
    let stated = facts.about.summary.as_str();
    let missing = format!("Python module {name}");
    let mut out =
        head(&format!("python-{}", stem(name)), stated, &license, home.as_deref(), &missing);
    if facts.pure {
        out += &tag("BuildArch", "noarch");
    }
    out += &build_requires(facts);
    let described = if stated.is_empty() { missing } else { literal(stated) };
    let described = format!("{}.", described.trim_end_matches('.'));
    out += &format!("\n%global _description %{{expand:\n{}}}\n", wrapped(&described));
    out += "\n%description %_description\n";
    out += &format!("\n%package -n {package}\nSummary:        %{{summary}}\n");
    out += &format!("\n%description -n {package} %_description\n");
    out += &scripts(facts);
    let installed = installed_licenses(&facts.license_files, facts.rust.as_ref());
    out += &format!("\n%files -n {package} -f %{{pyproject_files}}\n{installed}");
    out += &facts.contents.as_ref().map(files).unwrap_or_default();
    out + "\n%changelog\n<{ changelog }>\n"
}

fn build_requires(facts: &Facts) -> String {
    let mut all: BTreeSet<&str> = ["python3-devel"].into();
    let mut optional = String::new();
    if !facts.pure {
        let Native { compilers, required, optional: more, .. } = &facts.native;
        all.extend(compilers.iter().chain(required).map(String::as_str));
        all.extend(native::backend(&facts.backend).programs.iter().map(String::as_str));
        if compilers.is_empty() {
            all.insert("gcc");
        }
        if !more.is_empty() {
            let more: Vec<&str> = more.iter().map(String::as_str).collect();
            optional = comment(&format!("The build also uses, if installed: {}", more.join(", ")));
        }
    }
    if facts.has_rust {
        all.insert("cargo-rpm-macros >= 26");
    }
    all.into_iter().map(|name| tag("BuildRequires", name)).collect::<String>() + &optional
}

fn scripts(facts: &Facts) -> String {
    let mut out = "\n%prep\n%autosetup -p1 -n <{ source_dir }>".to_owned();
    if facts.rust.is_some() {
        out += UNPACK_CRATES;
    }
    out += "\n";
    for file in &facts.toolchain_files {
        out += &format!(
            "# Only rustup reads this file, and would download that release.\nrm {file}\n"
        );
    }
    out += &format!(
        "<@ include \"_shared/edits.tera\" @>\n%generate_buildrequires\n%pyproject_buildrequires{}\n\
         \n%build\n<@ include \"_shared/build-env.tera\" @>\n",
        facts.requirements
    );
    if facts.rust.is_some() {
        out += RUST_ENV;
    }
    out += &format!("%pyproject_wheel{}\n", native::backend(&facts.backend).options);
    out += &facts.rust.as_ref().map(build_rust).unwrap_or_default();
    for path in facts.license_files.iter().filter(|path| path.contains('/')) {
        out += &format!("cp -p {path} {}\n", path.replace('/', "-"));
    }
    out += &format!(
        "\n%install\n%pyproject_install\n%pyproject_save_files {}\n\
         \n%check\n%pyproject_check_import -t\n",
        saved(facts.contents.as_ref())
    );
    out
}
