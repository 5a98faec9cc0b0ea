//! Writes what is Python in the packages: the selector `rocm`, the metadata of all packages, and the
//! modules that run ROCm's programs.

use std::collections::{BTreeMap, BTreeSet};

use flate2::{Compression, GzBuilder};
use python_packaging::wheel::{Assembly, Member, SourceRpm, sdk_library};
use rocmrpm_base::names::Soname;
use serde_json::json;

use super::layout::{SdkPackage, layout};
use super::packages::{Key, Packages};
use super::release::Release;
use super::{Request, SdkError};

/// What a package has because of the RPMs that its files come from.
pub(super) struct Parts {
    /// The fields of METADATA about licenses.
    pub license_fields: String,
    /// The texts of the licenses, by path below the dist-info folder.
    pub texts: BTreeMap<String, Member>,
    /// The RPMs, by file name.
    pub rpms: Vec<SourceRpm>,
}

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
const CORE_CLI: &str = include_str!("../python/rocm_sdk_core/_cli.py");
const PROFILER_CLI: &str = include_str!("../python/rocm_profiler/_cli.py");
const PYPROJECT: &str = "[build-system]\nrequires = []\nbuild-backend = \"backend\"\nbackend-path = [\".\"]\n\
    [project]\nname = \"rocm\"\nversion = \"VERSION\"\n\
    dynamic = [\"dependencies\", \"optional-dependencies\"]\n";

/// Returns the distribution of a package.
pub(super) fn distribution(release: &Release, key: &Key) -> String {
    match (key.part, key.target, release.families.first()) {
        (SdkPackage::Core, ..) => "rocm-sdk-core".to_owned(),
        (SdkPackage::Libraries, _, Some(family)) if !release.split => {
            format!("rocm-sdk-libraries-{}", family.name)
        }
        (SdkPackage::Libraries, ..) => "rocm-sdk-libraries".to_owned(),
        (SdkPackage::Device, target, _) => {
            format!("rocm-sdk-device-{}", target.unwrap_or_default())
        }
        (SdkPackage::Devel, ..) => "rocm-sdk-devel".to_owned(),
        (SdkPackage::Profiler, ..) => "rocm-profiler".to_owned(),
    }
}

fn summary(part: SdkPackage) -> &'static str {
    match part {
        SdkPackage::Core => "The runtime, the compilers, and the tools of ROCm",
        SdkPackage::Libraries => "The math and communication libraries of ROCm",
        SdkPackage::Device => "GPU code of ROCm's libraries",
        SdkPackage::Devel => "The headers, CMake files, and static libraries of ROCm",
        SdkPackage::Profiler => "The profilers of ROCm",
    }
}

/// Returns the wheel of a package with these files.
pub(super) fn assembly(
    request: Request<'_>,
    release: &Release,
    packages: &Packages,
    key: &Key,
    mut members: BTreeMap<String, Member>,
    parts: Parts,
) -> Assembly {
    let Parts { license_fields, texts: mut dist_info, rpms } = parts;
    let name = distribution(release, key);
    let module = name.replace('-', "_");
    // Several packages have the module's folder, but no device package has a module.
    if key.part != SdkPackage::Device {
        members.insert(format!("{module}/__init__.py"), Member::text(""));
    }
    if let Some((table, cli)) = match key.part {
        SdkPackage::Core => Some((core_programs(packages), CORE_CLI)),
        SdkPackage::Profiler => Some((profiler_programs(packages), PROFILER_CLI)),
        _ => None,
    } {
        let functions: Vec<String> = table
            .iter()
            .map(|(name, value)| format!("    {}: {value},\n", quoted(&function(name))))
            .collect();
        let functions = format!("PROGRAMS = {{\n{}}}\n", functions.concat());
        members.insert(format!("{module}/_programs.py"), Member::text(functions));
        members.insert(format!("{module}/_cli.py"), Member::text(cli));
        let scripts =
            table.keys().map(|name| format!("{name} = {module}._cli:{}\n", function(name)));
        let scripts: String = scripts.collect();
        if !scripts.is_empty() {
            let text = format!("[console_scripts]\n{scripts}");
            dist_info.insert("entry_points.txt".into(), Member::text(text));
        }
    }
    let mut metadata = format!(
        "Metadata-Version: 2.4\nName: {name}\nVersion: {}\nSummary: {}\n{license_fields}\
         Requires-Python: {PYTHON}\n",
        release.version,
        summary(key.part)
    );
    if let Some(needed) = requirement(key) {
        let needed = distribution(release, &needed);
        metadata += &format!("Requires-Dist: {needed}=={}\n", release.version);
    }
    Assembly {
        metadata,
        tag: TAG.to_owned(),
        members,
        dist_info,
        source_date_epoch: request.source_date_epoch,
        rpms,
        relinked: BTreeMap::new(),
    }
}

/// The package that this one does not work without. `rocm-profiler` has none: `rocm` requires both.
pub(super) fn requirement(key: &Key) -> Option<Key> {
    let part = match key.part {
        SdkPackage::Libraries => SdkPackage::Core,
        SdkPackage::Device => SdkPackage::Libraries,
        _ => return None,
    };
    Some(Key { part, target: None })
}

/// Returns the programs of `rocm-sdk-core` that pip installs, each with a tuple of Python: its path,
/// and whether it uses the development files.
fn core_programs(packages: &Packages) -> BTreeMap<&'static str, String> {
    let listed = [(&layout().programs.devel, "True"), (&layout().programs.core, "False")];
    let all = listed.into_iter().flat_map(|(paths, devel)| {
        programs(packages, SdkPackage::Core, paths)
            .map(move |(name, path)| (name, format!("({}, {devel})", quoted(path))))
    });
    all.collect()
}

/// Returns the programs of `rocm-profiler` that pip installs, each with its path.
fn profiler_programs(packages: &Packages) -> BTreeMap<&'static str, String> {
    let listed = programs(packages, SdkPackage::Profiler, &layout().programs.profiler);
    listed.map(|(name, path)| (name, quoted(path))).collect()
}

/// Returns name and path of those programs that a package has.
fn programs<'a>(
    packages: &'a Packages,
    part: SdkPackage,
    paths: &'static [String],
) -> impl Iterator<Item = (&'static str, &'static str)> + use<'a> {
    let entries = packages.contents.get(&Key { part, target: None });
    paths
        .iter()
        .filter(move |path| entries.is_some_and(|entries| entries.contains_key(*path)))
        .map(|path| (path.rsplit('/').next().unwrap_or(path), path.as_str()))
}

/// Returns the Python name of a program's function.
fn function(program: &str) -> String {
    program.replace("++", "pp").replace('-', "_")
}

/// Returns a text as a literal of Python, which JSON's are too.
fn quoted(text: &str) -> String {
    json!(text).to_string()
}

/// Returns the name of the sdist of `rocm`.
pub(super) fn sdist_name(release: &Release) -> String {
    format!("rocm-{}.tar.gz", release.version)
}

/// Returns the bytes of the sdist of `rocm`.
pub(super) fn sdist(
    request: Request<'_>,
    release: &Release,
    packages: &Packages,
) -> Result<Vec<u8>, SdkError> {
    let version = &release.version;
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
    Ok(tar.into_inner()?.finish()?)
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
    parts.insert(logical(SdkPackage::Devel));
    parts.remove(logical(SdkPackage::Device));
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
fn logical(part: SdkPackage) -> &'static str {
    match part {
        SdkPackage::Core => "core",
        SdkPackage::Libraries => "libraries",
        SdkPackage::Device => "device",
        SdkPackage::Devel => "devel",
        SdkPackage::Profiler => "profiler",
    }
}
