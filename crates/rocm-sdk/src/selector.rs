//! Writes what is Python in the packages: the selector `rocm`, the metadata of all packages, and the
//! modules that run ROCm's programs.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;

use flate2::{Compression, GzBuilder};
use python_packaging::wheel::{Assembly, Member, sdk_library};
use rocmrpm_base::digest::Sha256;
use rocmrpm_base::error::IoError;
use rocmrpm_base::names::Soname;
use serde_json::json;

use super::layout::{Part, layout};
use super::packages::{Key, Packages};
use super::release::Release;
use super::{Request, Sdist, SdkError};

/// The oldest Python that the modules run on.
const PYTHON: &str = ">=3.9";
const TAG: &str = "py3-none-linux_x86_64";

/// The files of the sdist, below its folder.
const SOURCES: &[(&str, &str)] = &[
    ("backend.py", include_str!("../python/backend.py")),
    ("src/rocm_sdk/__init__.py", include_str!("../python/rocm_sdk/__init__.py")),
    ("src/rocm_sdk/__main__.py", include_str!("../python/rocm_sdk/__main__.py")),
    ("src/rocm_sdk/_devel.py", include_str!("../python/rocm_sdk/_devel.py")),
    ("src/rocm_sdk/_dist_info.py", include_str!("../python/rocm_sdk/_dist_info.py")),
    ("src/rocm_sdk/tests/__init__.py", include_str!("../python/rocm_sdk/tests/__init__.py")),
    ("src/rocm_sdk/tests/base_test.py", include_str!("../python/rocm_sdk/tests/base_test.py")),
    ("src/rocm_sdk/tests/core_test.py", include_str!("../python/rocm_sdk/tests/core_test.py")),
    ("src/rocm_sdk/tests/devel_test.py", include_str!("../python/rocm_sdk/tests/devel_test.py")),
];
const CLI: &str = include_str!("../python/rocm_sdk_core/_cli.py");
const PYPROJECT: &str = "[build-system]\nrequires = []\nbuild-backend = \"backend\"\nbackend-path = [\".\"]\n\
    [project]\nname = \"rocm\"\nversion = \"VERSION\"\n\
    dynamic = [\"dependencies\", \"optional-dependencies\"]\n";

/// Returns the distribution of a package.
fn distribution(release: &Release, key: &Key) -> String {
    match (key.part, key.target, release.families.first()) {
        (Part::Core, ..) => "rocm-sdk-core".to_owned(),
        (Part::Libraries, _, Some(family)) if !release.split => {
            format!("rocm-sdk-libraries-{}", family.name)
        }
        (Part::Libraries, ..) => "rocm-sdk-libraries".to_owned(),
        (Part::Device, target, _) => format!("rocm-sdk-device-{}", target.unwrap_or_default()),
        (Part::Devel, ..) => "rocm-sdk-devel".to_owned(),
        (Part::Profiler, ..) => "rocm-profiler".to_owned(),
    }
}

fn summary(part: Part) -> &'static str {
    match part {
        Part::Core => "The runtime, the compilers, and the tools of ROCm",
        Part::Libraries => "The math and communication libraries of ROCm",
        Part::Device => "GPU code of ROCm's libraries",
        Part::Devel => "The headers, CMake files, and static libraries of ROCm",
        Part::Profiler => "The profilers of ROCm",
    }
}

/// Returns the wheel of a package with these files.
pub(super) fn assembly(
    request: Request<'_>,
    release: &Release,
    packages: &Packages,
    key: &Key,
    mut members: BTreeMap<String, Member>,
    licenses: &BTreeMap<String, String>,
) -> Assembly {
    let name = distribution(release, key);
    let module = name.replace('-', "_");
    // Several packages have the module's folder, but no device package has a module.
    if key.part != Part::Device {
        members.insert(format!("{module}/__init__.py"), Member::text(""));
    }
    let mut dist_info = licenses.clone();
    if key.part == Part::Core {
        let programs = programs(packages);
        let table: Vec<String> = programs
            .iter()
            .map(|(name, (path, devel))| {
                let devel = if *devel { "True" } else { "False" };
                format!("    {}: ({}, {devel}),\n", quoted(&function(name)), quoted(path))
            })
            .collect();
        let table = format!("PROGRAMS = {{\n{}}}\n", table.concat());
        members.insert(format!("{module}/_programs.py"), Member::text(table));
        members.insert(format!("{module}/_cli.py"), Member::text(CLI));
        let scripts =
            programs.keys().map(|name| format!("{name} = {module}._cli:{}\n", function(name)));
        let scripts: String = scripts.collect();
        if !scripts.is_empty() {
            dist_info.insert("entry_points.txt".into(), format!("[console_scripts]\n{scripts}"));
        }
    }
    dist_info.insert("rocmrpm-sdk.json".into(), origin(release));
    let mut metadata = format!(
        "Metadata-Version: 2.1\nName: {name}\nVersion: {}\nSummary: {}\nRequires-Python: {PYTHON}\n",
        release.version,
        summary(key.part)
    );
    if let Some(needed) = requirement(release, key) {
        metadata += &format!("Requires-Dist: {needed}=={}\n", release.version);
    }
    let source_date_epoch = request.source_date_epoch;
    Assembly { metadata, tag: TAG.to_owned(), members, dist_info, source_date_epoch }
}

/// The package that this one does not work without. `rocm-profiler` has none: `rocm` requires both.
fn requirement(release: &Release, key: &Key) -> Option<String> {
    let part = match key.part {
        Part::Libraries => Part::Core,
        Part::Device => Part::Libraries,
        _ => return None,
    };
    Some(distribution(release, &Key { part, target: None }))
}

/// Returns the RPMs that the packages were made from, as JSON.
fn origin(release: &Release) -> String {
    let mut rpms: Vec<_> = release
        .rpms
        .iter()
        .map(|(_, header, sha256)| {
            json!({"nevra": header.nevra(), "sha256": sha256, "license": header.license})
        })
        .collect();
    rpms.sort_by_key(|rpm| rpm["nevra"].to_string());
    let generator = format!("rocmrpm {}", env!("CARGO_PKG_VERSION"));
    format!("{:#}\n", json!({"generator": generator, "rpms": rpms}))
}

/// Returns the programs that pip installs: name, path, and whether they use the development files.
fn programs(packages: &Packages) -> BTreeMap<String, (String, bool)> {
    let core = packages.contents.get(&Key { part: Part::Core, target: None });
    let listed = [(&layout().programs.devel, true), (&layout().programs.core, false)];
    let all = listed.into_iter().flat_map(|(paths, devel)| paths.iter().map(move |p| (p, devel)));
    all.filter(|(path, _)| core.is_some_and(|entries| entries.contains_key(*path)))
        .map(|(path, devel)| {
            let name = path.rsplit('/').next().unwrap_or(path);
            (name.to_owned(), (path.clone(), devel))
        })
        .collect()
}

/// Returns the Python name of a program's function.
fn function(program: &str) -> String {
    program.replace("++", "pp").replace('-', "_")
}

/// Returns a text as a literal of Python, which JSON's are too.
fn quoted(text: &str) -> String {
    json!(text).to_string()
}

/// The sdist without its name. Dropping it removes the file.
pub(super) struct Unnamed {
    file: tempfile::NamedTempFile,
    sdist: Sdist,
}

impl Unnamed {
    pub fn persist(self) -> Result<Sdist, SdkError> {
        let path = &self.sdist.path;
        let action = || IoError::doing(format!("write `{}`", path.display()));
        self.file.persist(path).map_err(|error| SdkError::Io(action()(error.error)))?;
        Ok(self.sdist)
    }
}

/// Writes the sdist of `rocm`.
pub(super) fn write(
    request: Request<'_>,
    release: &Release,
    packages: &Packages,
) -> Result<Unnamed, SdkError> {
    let version = &release.version;
    let file = tempfile::Builder::new()
        .prefix(".rocmrpm-")
        .permissions(std::os::unix::fs::PermissionsExt::from_mode(0o644))
        .tempfile_in(request.out_dir)?;
    let gzip = GzBuilder::new().mtime(0).write(Vec::new(), Compression::new(6));
    let mut tar = tar::Builder::new(gzip);
    let info = format!(
        "Metadata-Version: 2.2\nName: rocm\nVersion: {version}\nRequires-Python: {PYTHON}\n\
         Dynamic: Requires-Dist\nDynamic: Provides-Extra\n"
    );
    let constants = constants(release, packages);
    let pyproject = PYPROJECT.replace("VERSION", version);
    let made = [
        ("PKG-INFO", info.as_str()),
        ("pyproject.toml", &pyproject),
        ("src/rocm_sdk/_release.py", &constants),
    ];
    let files: BTreeMap<&str, &str> = SOURCES.iter().copied().chain(made).collect();
    for (path, text) in files {
        let mut header = tar::Header::new_ustar();
        header.set_size(text.len() as u64);
        header.set_mode(0o644);
        header.set_mtime(u64::try_from(request.source_date_epoch).unwrap_or(0));
        tar.append_data(&mut header, format!("rocm-{version}/{path}"), text.as_bytes())?;
    }
    let bytes = tar.into_inner()?.finish()?;
    file.as_file().write_all(&bytes)?;
    let sdist = Sdist {
        path: request.out_dir.join(format!("rocm-{version}.tar.gz")),
        sha256: Sha256::of_bytes(&bytes),
        size: bytes.len() as u64,
    };
    Ok(Unnamed { file, sdist })
}

/// Returns the module with what differs between releases.
fn constants(release: &Release, packages: &Packages) -> String {
    let names: Vec<&str> = release.families.iter().map(|family| family.name.as_str()).collect();
    let gpus: BTreeMap<&str, Vec<&str>> = release
        .families
        .iter()
        .map(|family| {
            (family.name.as_str(), family.targets.iter().map(|t| t.processor()).collect())
        })
        .collect();
    let mut sonames = BTreeMap::new();
    let mut libraries = BTreeMap::new();
    for (soname, library) in &packages.libraries {
        let package = logical(library.part);
        sonames.insert(soname, json!([package, library.path, library.needed]));
        let known = sdk_library(Soname::new(soname.as_str()).stem()).and_then(|known| known.name);
        if let Some(name) = known {
            libraries.insert(name, json!([package, library.path]));
        }
    }
    let optional: Vec<&String> =
        layout().optional.iter().filter(|name| !libraries.contains_key(name.as_str())).collect();
    let mut parts: BTreeSet<&str> = packages.contents.keys().map(|key| logical(key.part)).collect();
    parts.insert(logical(Part::Devel));
    parts.remove(logical(Part::Device));
    let split = if release.split { "True" } else { "False" };
    format!(
        "\"\"\"What differs between releases of ROCm. rocmrpm writes this file.\"\"\"\n\n\
         VERSION = {}\nREQUIRES_PYTHON = {}\n\
         # Whether the GPU code is in packages of its own.\nSPLIT = {split}\n\
         PACKAGES = {:#}\n# The targets or families with packages, and the GPUs of each.\nTARGETS = {:#}\nGPUS = {:#}\n\
         # Short names: package and path.\nLIBRARIES = {:#}\n\
         # Short names of libraries that this release does without.\nOPTIONAL = {:#}\n\
         # Package, path, and needed libraries of the packages.\nSONAMES = {:#}\n",
        quoted(&release.version),
        quoted(PYTHON),
        json!(parts),
        json!(names),
        json!(gpus),
        json!(libraries),
        json!(optional),
        json!(sonames),
    )
}

/// Returns the name of a part in `rocm_sdk`.
fn logical(part: Part) -> &'static str {
    match part {
        Part::Core => "core",
        Part::Libraries => "libraries",
        Part::Device => "device",
        Part::Devel => "devel",
        Part::Profiler => "profiler",
    }
}
