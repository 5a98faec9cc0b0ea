//! What a component is uploaded to COPR as. COPR keeps any number of builds with the same version
//! and release, and dnf takes the oldest of them, so every uploaded build gets its own release. The
//! name of the uploaded file shows later runs what the build was made from. Uploading is up to
//! `sending`.

use std::path::Path;
use std::time::Duration;

use crate::build::BuildError;
use crate::digest::Sha256;
use crate::names::ComponentName;
use crate::rpms;

/// The number of digits of the key in the name of the uploaded file.
const DIGITS: usize = 16;
const SUFFIX: &str = ".src.rpm";

/// A source package to upload.
pub(super) struct Parcel<'p> {
    /// The component; `None` for the macros package.
    pub component: Option<&'p ComponentName>,
    /// The source package's name.
    pub name: &'p str,
    pub version_release: String,
    /// The digest of everything that determines the build: sources and settings.
    pub key: Sha256,
    pub srpm: &'p Path,
    /// The timeout of its build.
    pub timeout: Option<Duration>,
    /// The newest build that cannot be this one: an earlier build of the package, or a build of a
    /// package that it requires.
    pub after: u64,
}

impl Parcel<'_> {
    /// Returns the name to upload it with. COPR shows this name immediately, but the package's name
    /// and version only after it has read the SRPM. Source: COPR, builds_logic.py,
    /// `create_new_from_upload`.
    pub fn file_name(&self) -> String {
        let text = format!("{}-{}", self.name, self.version_release);
        format!("{}{}", plain(&text), suffix(&self.key))
    }
}

/// Returns whether a file was uploaded with this key.
pub(super) fn has_key(file: &str, key: &Sha256) -> bool {
    file.ends_with(&suffix(key))
}

fn suffix(key: &Sha256) -> String {
    format!(".{}{SUFFIX}", &key.to_string()[..DIGITS])
}

/// Replaces the characters that COPR drops from the name of an uploaded file (werkzeug's
/// `secure_filename`).
fn plain(text: &str) -> String {
    let keep = |c: char| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '_' };
    text.chars().map(keep).collect()
}

/// The version and release of a spec, the base for releases that the project does not have yet.
pub(super) struct Base<'b> {
    name: &'b str,
    /// Version and release, without the dist tag.
    text: String,
    /// The dist tag; empty if the release has none.
    dist: &'b str,
}

impl<'b> Base<'b> {
    pub fn new(name: &'b str, version: &str, release: &str, dist: &'b str) -> Self {
        let (release, dist) =
            release.strip_suffix(dist).map_or((release, ""), |release| (release, dist));
        Self { name, text: format!("{version}-{release}"), dist }
    }

    /// Returns the number of a build among those of this version and release: 1 has the spec's own
    /// release, 2 has `.2` at the end, before the dist tag. `None` if it is a different release.
    pub fn number(&self, version_release: &str) -> Option<u32> {
        let version = version_release.split_once(':').map_or(version_release, |(_, rest)| rest);
        number(&self.text, version.strip_suffix(self.dist).unwrap_or(version))
    }

    /// Returns the version and release of the build with this number.
    pub fn numbered(&self, number: u32) -> String {
        match number {
            1 => format!("{}{}", self.text, self.dist),
            number => format!("{}.{number}{}", self.text, self.dist),
        }
    }

    /// Returns the number of an uploaded file. COPR may not have read its package yet.
    pub fn number_of_file(&self, file: &str) -> Option<u32> {
        let stem = file.strip_suffix(SUFFIX)?.rsplit_once('.')?.0;
        let stem = stem.strip_suffix(self.dist).unwrap_or(stem);
        number(&plain(&format!("{}-{}", self.name, self.text)), stem)
    }
}

fn number(base: &str, text: &str) -> Option<u32> {
    match text.strip_prefix(base)? {
        "" => Some(1),
        rest => rest.strip_prefix('.')?.parse().ok(),
    }
}

/// Gives a spec the release of a later build of the same version and release: rpm treats `5.2.fc43`
/// as newer than `5.fc43` and older than `6.fc43`. `None` if the spec has no `Release:`.
pub(super) fn numbered(spec: &str, number: u32) -> Option<String> {
    let is_release =
        |line: &str| line.get(..8).is_some_and(|tag| tag.eq_ignore_ascii_case("release:"));
    let (mut text, mut found) = (String::new(), false);
    for line in spec.split_inclusive('\n') {
        if found || !is_release(line) {
            text.push_str(line);
            continue;
        }
        found = true;
        let at = line.rfind("%{?dist}").unwrap_or(line.trim_end().len());
        text.push_str(&format!("{}.{number}{}", &line[..at], &line[at..]));
    }
    found.then_some(text)
}

/// Reads the header of a source package.
pub(super) fn header(srpm: &Path) -> Result<rpms::Header, BuildError> {
    rpms::header(srpm).map_err(|error| BuildError::Environment {
        message: format!("cannot read the SRPM `{}`: {error}", srpm.display()),
        help: "run the command again".to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uploaded_files_show_key_and_number() {
        let key = Sha256::of_bytes("x");
        let sent = |version_release: &str| {
            let (srpm, version_release) = (Path::new("x"), version_release.to_owned());
            let (component, name, timeout, after) = (None, "lib", None, 0);
            Parcel { component, name, version_release, key, srpm, timeout, after }.file_name()
        };
        let file = sent("1.0-3~dirty.2.fc43");
        assert!(file.starts_with("lib-1.0-3_dirty.2.fc43.") && has_key(&file, &key), "{file}");
        assert!(!has_key(&file, &Sha256::of_bytes("y")));
        let base = Base::new("lib", "1.0", "3~dirty.fc43", ".fc43");
        assert_eq!(base.number_of_file(&file), Some(2));
        assert_eq!(base.number_of_file(&sent("1.0-3~dirty.fc43")), Some(1));
        assert_eq!(base.number_of_file(&sent("1.0-3.fc43")), None);
        assert_eq!(base.number_of_file("lib-1.0-3.src.rpm"), None);
    }

    #[test]
    fn builds_of_one_version_and_release_are_numbered() {
        let base = Base::new("lib", "1.0", "5.fc43", ".fc43");
        for (version_release, number) in [
            ("1.0-5", Some(1)),
            ("2:1.0-5.fc43", Some(1)),
            ("1.0-5.3", Some(3)),
            ("1.0-5.3.fc43", Some(3)),
            ("1.0-51", None),
            ("1.0-5~dirty", None),
        ] {
            assert_eq!(base.number(version_release), number, "{version_release}");
        }
        assert_eq!([1, 2].map(|number| base.numbered(number)), ["1.0-5.fc43", "1.0-5.2.fc43"]);
        let spec = "Name: lib\nRelease:  5~dirty%{?dist}\n%prep\n";
        assert_eq!(numbered(spec, 2).unwrap(), "Name: lib\nRelease:  5~dirty.2%{?dist}\n%prep\n");
        assert_eq!(numbered("release: 7\n", 3).unwrap(), "release: 7.3\n");
        assert_eq!(numbered("Name: x\n", 2), None);
        // A subpackage can have its own release.
        let spec = "Release: 5\n%package devel\nRelease: 9\n";
        assert_eq!(numbered(spec, 2).unwrap(), "Release: 5.2\n%package devel\nRelease: 9\n");
    }
}
