//! Why packages of ROCm could not be made.

use std::path::PathBuf;

use python_packaging::wheel::WheelError;
use rocm_inspect::InspectError;
use rocmrpm_base::error::{Diagnose, Diagnosis, IoError, Kind};
use rocmrpm_base::process::{ProcessError, quote};
use rocmrpm_base::text::visible;
use rocmrpm_rpms::RpmError;

/// Why packages of ROCm could not be made. Nothing was written.
#[derive(Debug, thiserror::Error)]
pub enum SdkError {
    /// An RPM is unreadable, or contradicts another.
    #[error(transparent)]
    Wheel(#[from] WheelError),
    /// The header of an RPM is unreadable.
    #[error(transparent)]
    Rpm(#[from] RpmError),
    /// An I/O operation failed.
    #[error(transparent)]
    Io(IoError),
    /// The user interrupted rocmrpm.
    #[error(transparent)]
    Stopped(#[from] ProcessError),
    /// A package is for another machine, or a source package.
    #[error("{}: a package for {arch}; ROCm's Python packages are for x86_64", rpm.display())]
    Architecture {
        /// The RPM.
        rpm: PathBuf,
        /// Its architecture.
        arch: String,
    },
    /// The RPMs are of two releases of ROCm.
    #[error(
        "{} is of ROCm {version}, but {} is of ROCm {other_version}",
        rpm.display(),
        other.display()
    )]
    Releases {
        /// One RPM.
        rpm: PathBuf,
        /// Its release of ROCm.
        version: String,
        /// Another RPM.
        other: PathBuf,
        /// Its release of ROCm.
        other_version: String,
    },
    /// No RPM has the version of ROCm.
    #[error("the version of ROCm is unknown: none of the RPMs is named like a part of ROCm")]
    NoRelease,
    /// The version has none of TheRock's forms.
    #[error("`{version}` is not a version of ROCm's Python packages")]
    Version {
        /// The version.
        version: String,
    },
    /// The version is that of another release.
    #[error("version {version} is not one of ROCm {release}, which the RPMs contain")]
    OtherVersion {
        /// The version.
        version: String,
        /// The first two numbers of the version of the RPMs.
        release: String,
    },
    /// Several targets, but the GPU code is inside the libraries.
    #[error(
        "the libraries of these RPMs contain GPU code, so packages can be for one target or family, not for \
         {count}"
    )]
    SeveralFamilies {
        /// How many were given.
        count: usize,
    },
    /// There are no files for a target.
    #[error("no RPM has GPU code for {target}; found: {found}")]
    MissingDevice {
        /// The target.
        target: String,
        /// The targets for which there are files.
        found: String,
    },
    /// Two files have the same path in the packages.
    #[error("`{one}` and `{other}` differ, and both are `{path}` in the packages")]
    TwoFiles {
        /// One file of an RPM.
        one: String,
        /// Another one.
        other: String,
        /// The path that both have.
        path: String,
    },
    /// A link leads out of ROCm's folders.
    #[error("`{link}` links to `{target}`, which is outside of ROCm's folders")]
    LinkOutside {
        /// The link.
        link: String,
        /// Its target, verbatim.
        target: String,
    },
    /// A pattern of files to leave out matches none.
    #[error("no RPM has a file that `{pattern}` matches")]
    LeavesNothingOut {
        /// The pattern.
        pattern: String,
    },
    /// Files need libraries that no package has.
    #[error("no RPM has these libraries, which files of the packages need: {}", libraries(missing))]
    MissingLibraries {
        /// The SONAMEs with a file that needs each.
        missing: Vec<(String, String)>,
    },
    /// The search paths of programs cannot be set.
    #[error(
        "these programs have no room for a search path, without which they do not find their libraries: {}",
        files.join(", ")
    )]
    SearchPath {
        /// The programs, in their RPMs.
        files: Vec<String>,
    },
    /// The search path was set, but the inspection sees another change too.
    #[error("`{file}`: setting its search path would damage it")]
    Damaged {
        /// The file, in its RPM.
        file: String,
    },
    /// The search path of a damaged file cannot be set.
    #[error("{}: `{file}` is a damaged ELF file: {reason}", rpm.display())]
    Elf {
        /// The RPM.
        rpm: PathBuf,
        /// The file in it.
        file: String,
        /// What is wrong.
        reason: String,
    },
    /// A library is in a package that may be missing.
    #[error(
        "`{file}` needs {library}, but {package} may be installed without {holder}, which has it"
    )]
    Unreachable {
        /// The file, in its RPM.
        file: String,
        /// The folder of its package.
        package: String,
        /// The SONAME.
        library: String,
        /// The folder of the package with the library.
        holder: String,
    },
    /// A package cannot have a file of this path.
    #[error("`{file}` cannot be `{}` in the packages: {reason}", visible(path))]
    Path {
        /// The file, in its RPM.
        file: String,
        /// The path in site-packages.
        path: String,
        /// What is wrong.
        reason: &'static str,
    },
    /// A file has the path of a folder.
    #[error("`{path}` in the packages is the file `{file}` and a folder, for `{below}`")]
    FileAndFolder {
        /// The file, in its RPM.
        file: String,
        /// A file in the folder.
        below: String,
        /// The path of both.
        path: String,
    },
    /// The text of a license is missing.
    #[error("the license text `{link}` is a link to `{target}`, which no RPM has")]
    LicenseLink {
        /// The link.
        link: String,
        /// Its target, verbatim.
        target: String,
    },
    /// A package requires one without files.
    #[error("no RPM has a file for {package}, which {by} requires")]
    NoPackage {
        /// The required package.
        package: String,
        /// The package that requires it.
        by: String,
    },
    /// The finished packages cannot be inspected.
    #[error(transparent)]
    Inspect(#[from] InspectError),
    /// The finished packages do not run on what they promise.
    #[error("the packages do not run on the promised GPU targets")]
    Inspection {
        /// The findings.
        found: Vec<String>,
    },
    /// The folder for the packages is the current one, which cannot be replaced under its users.
    #[error("`--out` is the current folder, but it names a folder to replace")]
    CurrentFolder,
    /// The folder for the packages has other files.
    #[error("{}: not one of ROCm's Python packages, which `--out` replaces", path.display())]
    Occupied {
        /// A file in it.
        path: PathBuf,
    },
}

impl From<std::io::Error> for SdkError {
    fn from(error: std::io::Error) -> Self {
        Self::Io(IoError::doing("make packages of ROCm")(error))
    }
}

fn libraries(missing: &[(String, String)]) -> String {
    let one = |(library, by): &(String, String)| format!("{library} (for {by})");
    missing.iter().map(one).collect::<Vec<_>>().join(", ")
}

impl Diagnose for SdkError {
    fn diagnosis(&self) -> Diagnosis {
        match self {
            Self::Wheel(error) => error.diagnosis(),
            Self::Rpm(error) => error.diagnosis(),
            Self::Io(error) => error.diagnosis(),
            Self::Stopped(error) => error.diagnosis(),
            Self::Architecture { .. } => Kind::Usage.with_help("omit it"),
            Self::Releases { .. } => Kind::Usage.with_help("use the RPMs of one release"),
            Self::NoRelease => Kind::Usage.with_help("add the RPM of rocm-core or amdrocm-base"),
            Self::Version { .. } => Kind::Usage
                .with_help("use a form such as 7.14.0, 7.14.0rc1, 7.14.0a20260101, or 7.14.0.dev0"),
            Self::OtherVersion { release, .. } => {
                Kind::Usage.with_help(format!("use a version such as `--version {release}.0`"))
            }
            Self::SeveralFamilies { .. } => Kind::Usage.with_help(
                "run the command once per target, each with a folder of its own for `--out`",
            ),
            Self::MissingDevice { target, .. } => Kind::Usage.with_help(format!(
                "add the RPM with its GPU code, or omit `--gpu-target {target}`"
            )),
            Self::TwoFiles { other: file, .. } | Self::FileAndFolder { file, .. } => Kind::Usage
                .with_help(format!("omit one of the RPMs, or the file with `--leave-out {}`", quote(file))),
            Self::Path { file, .. } => Kind::Usage
                .with_help(format!("omit it with `--leave-out {}`", quote(file))),
            Self::LicenseLink { link, .. } => Kind::Usage.with_help(format!(
                "add the RPM with the text, or omit the link with `--leave-out {}`",
                quote(link)
            )),
            Self::NoPackage { .. } => {
                Kind::Usage.with_help("add the RPMs of ROCm's runtime, and those with the libraries")
            }
            Self::Inspect(error) => error.diagnosis(),
            Self::Inspection { found } => Kind::Usage
                .with_help(
                    "add the RPMs with the GPU code of these libraries; if a library has none for a target, omit \
                     it with `--leave-out PATH`",
                )
                .with_details(found.iter().cloned()),
            Self::CurrentFolder => Kind::Usage.with_help("use a folder below it, such as `--out dist`"),
            Self::Occupied { .. } => Kind::Usage
                .with_help("use a new folder for `--out`, or one with only the packages of an earlier run"),
            Self::Unreachable { file, .. } => Kind::Usage
                .with_help(format!("omit the file with `--leave-out {}`", quote(file))),
            Self::Elf { rpm, file, .. } => Kind::Usage.with_help(format!(
                "check the package with `rpm -K --nosignature {}`, or omit the file with `--leave-out {}`",
                quote(&rpm.to_string_lossy()),
                quote(file)
            )),
            Self::LinkOutside { .. } => Kind::Usage
                .with_help("fix the package: a link must lead to a file that ROCm's RPMs have"),
            Self::LeavesNothingOut { .. } => {
                Kind::Usage.with_help("correct it, or omit `--leave-out`")
            }
            Self::MissingLibraries { missing } => {
                let names: Vec<String> = missing
                    .iter()
                    .map(|(library, _)| format!("--system-library {library}"))
                    .collect();
                Kind::Usage.with_help(format!(
                    "add the RPMs that have them; if every machine has them, add `{}`",
                    names.join(" ")
                ))
            }
            Self::SearchPath { files } => {
                let options: Vec<String> =
                    files.iter().map(|file| format!("--leave-out {}", quote(file))).collect();
                Kind::Build.with_help(format!(
                    "link them with a longer RUNPATH, or omit them with `{}`",
                    options.join(" ")
                ))
            }
            Self::Damaged { .. } => Kind::Internal.into(),
        }
    }
}
