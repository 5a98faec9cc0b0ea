//! Checks which wheels must not be together in a view. It does not add them.

use std::collections::HashMap;

use pep440_rs::Version;

use super::IndexError;
use super::page::{File, Project};
use super::view::View;
use python_packaging::wheel::FileName;

/// Refuses two wheels with the same version and tag.
pub(super) fn check_twins(project: &Project) -> Result<(), IndexError> {
    let mut twins = Twins::default();
    project.files.iter().try_for_each(|file| match file.parsed() {
        Ok(name) => twins.join(file, &name),
        Err(_) => Ok(()),
    })
}

/// The wheels of a distribution by the version and tag that distinguish them to installers. A build
/// tag does not count (binary distribution format, "File name convention": it only breaks a tie).
#[derive(Default)]
struct Twins(HashMap<Version, HashMap<String, String>>);

impl Twins {
    fn join(&mut self, file: &File, name: &FileName) -> Result<(), IndexError> {
        let serving = self.0.entry(name.version.clone()).or_default();
        for tag in &name.tags {
            if let Some(first) = serving.insert(tag.clone(), file.name.clone()) {
                let (second, tag) = (file.name.clone(), tag.clone());
                return Err(IndexError::SameTags { first, second, tag });
            }
        }
        Ok(())
    }
}

/// The wheels of a distribution in a view, for checking wheels to be added.
pub(super) struct Joined {
    view: View,
    twins: Twins,
    /// The highest wheel of each public version, without yanked ones.
    last: HashMap<Version, (Version, String)>,
}

impl Joined {
    /// Takes the existing wheels.
    pub fn of(project: &Project, view: View) -> Self {
        let mut joined = Self { view, twins: Twins::default(), last: HashMap::new() };
        for file in &project.files {
            if let Ok(name) = file.parsed() {
                // Conflicts between existing wheels are not the fault of a new one.
                let _ = joined.twins.join(file, &name);
                joined.rank(file, name.version);
            }
        }
        joined
    }

    /// Adds a wheel. Fails if it has the version and tag of another wheel, or sorts below one of
    /// the same public version and neither is yanked.
    pub fn join(&mut self, new: &File) -> Result<(), IndexError> {
        let Ok(name) = new.parsed() else { return Ok(()) };
        self.twins.join(new, &name)?;
        let last = self.last.get(&name.version.clone().without_local());
        if let Some((above, old)) = last
            && new.yanked.is_none()
            && *above > name.version
        {
            let (new, old) = (new.name.clone(), old.clone());
            return Err(IndexError::Below { new, old, place: self.view.to_string() });
        }
        self.rank(new, name.version);
        Ok(())
    }

    fn rank(&mut self, file: &File, version: Version) {
        let public = version.clone().without_local();
        let below = self.last.get(&public).is_none_or(|(last, _)| *last <= version);
        if file.yanked.is_none() && below {
            self.last.insert(public, (version, file.name.clone()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rocmrpm_base::digest::Sha256;
    use rocmrpm_base::error::Diagnose;

    fn file(name: &str) -> File {
        File {
            name: name.into(),
            sha256: Sha256::of_bytes(name),
            size: 1,
            upload_time: jiff::Timestamp::UNIX_EPOCH,
            requires_python: None,
            metadata: Some(Sha256::of_bytes("")),
            plain_name: true,
            yanked: None,
            foreign: false,
        }
    }

    /// Returns the error of adding `new` to `old`; empty if there is none.
    fn joins(old: &str, new: &str) -> String {
        let project = Project { files: vec![file(old)], ..Project::new("a") };
        let joined = Joined::of(&project, View::Local).join(&file(new));
        joined.err().map_or(String::new(), |error| error.to_string())
    }

    #[test]
    fn rejects_same_version_and_tag() {
        let plain = "a-1.0-py3-none-any.whl";
        for twin in
            ["a-1.0-py2.py3-none-any.whl", "a-1.0-1-py3-none-any.whl", "a-1.0.0-py3-none-any.whl"]
        {
            for error in [joins(plain, twin), joins(twin, plain)] {
                assert!(error.contains(plain) && error.contains(twin), "{error}");
                assert!(error.contains("both match py3-none-any"), "{error}");
            }
        }
        assert_eq!(joins(plain, "a-1.0-py2-none-any.whl"), "");
        assert_eq!(joins(plain, "a-1.1-py3-none-any.whl"), "");
    }

    #[test]
    fn rejects_lower_label() {
        let (old, new) = ("a-1.0+rocm7.14.2-py3-none-any.whl", "a-1.0+rocm7.14.1-py3-none-any.whl");
        let error = joins(old, new);
        assert!(error.contains(&format!("{new} sorts below {old}")), "{error}");
        assert_eq!(joins(new, old), "");
        assert!(
            joins(old, "a-1.0-py2-none-any.whl").contains("sorts below"),
            "one without a label"
        );
        let labelled = |label: &str| format!("a-1.0+{label}-py3-none-any.whl");
        for (old, new, help) in [
            ("rocm7.14.gfx1151.3", "rocm7.14.gfx1151.2", "raise the component's Release"),
            ("rocm7.14.gfx1151.9", "rocm7.14.gfx1100.gfx1151.10", "other GPU targets"),
            ("rocm7.14.gfx1151.3", "rocm7.13.gfx1151.4", "another ROCm"),
            ("rocm7.14.gfx1151.1", "rocm7.14.gfx1151.dirty.2", "commit the changes"),
        ] {
            let project = Project { files: vec![file(&labelled(old))], ..Project::new("a") };
            let error = Joined::of(&project, View::Local).join(&file(&labelled(new))).unwrap_err();
            assert!(error.help().concat().contains(help), "{old} {new}: {:?}", error.help());
        }
        // Another public version is unrelated.
        assert_eq!(joins(old, "a-0.9+rocm7.14.1-py3-none-any.whl"), "");
        // A yanked wheel does not conflict.
        let yanked = File { yanked: Some(String::new()), ..file(old) };
        let project = Project { files: vec![yanked], ..Project::new("a") };
        Joined::of(&project, View::Local).join(&file(new)).unwrap();
    }
}
