//! Which wheels must not be in one view together. Not how they come there.

use super::IndexError;
use super::page::{File, Project};
use super::view::View;
use crate::wheel::FileName;

/// Finds a wheel that installers could take in the place of `new`: of the same version, for
/// the same tag. A build tag does not part them (binary distribution format, "File name
/// convention": it only breaks a tie).
fn twin<'a>(project: &'a Project, new: &File, name: &FileName) -> Option<(&'a File, String)> {
    let others = project.files.iter().filter(|other| other.name != new.name);
    others.filter_map(|other| Some((other, other.parsed().ok()?))).find_map(|(other, parsed)| {
        let tag = parsed.tags.intersection(&name.tags).next().filter(|_| parsed.version == name.version)?;
        Some((other, tag.clone()))
    })
}

/// Refuses two wheels of one version for one tag.
pub(super) fn check_twins(project: &Project) -> Result<(), IndexError> {
    for file in &project.files {
        check_twin(project, file)?;
    }
    Ok(())
}

fn check_twin(project: &Project, new: &File) -> Result<(), IndexError> {
    let Ok(name) = new.parsed() else { return Ok(()) };
    match twin(project, new, &name) {
        None => Ok(()),
        Some((other, tag)) => {
            Err(IndexError::SameTags { first: other.name.clone(), second: new.name.clone(), tag })
        }
    }
}

/// Tells whether a wheel may join those of a view: it is no twin of one, and does not sort
/// below one of the same public version, unless nobody chooses one of the two any more.
pub(super) fn check_joins(project: &Project, new: &File, view: View) -> Result<(), IndexError> {
    check_twin(project, new)?;
    let Ok(name) = new.parsed() else { return Ok(()) };
    if new.yanked.is_some() {
        return Ok(());
    }
    let public = name.version.clone().without_local();
    let above = project.files.iter().filter(|other| other.yanked.is_none()).find(|other| {
        other.parsed().is_ok_and(|other| {
            other.version > name.version && other.version.clone().without_local() == public
        })
    });
    match above {
        None => Ok(()),
        Some(old) => {
            Err(IndexError::Below { new: new.name.clone(), old: old.name.clone(), place: view.to_string() })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::digest::Sha256;
    use crate::error::Diagnose;

    fn file(name: &str) -> File {
        File {
            name: name.into(),
            sha256: Sha256::of_bytes(name),
            size: 1,
            upload_time: jiff::Timestamp::UNIX_EPOCH,
            requires_python: None,
            metadata: Sha256::of_bytes(""),
            plain_name: true,
            yanked: None,
        }
    }

    /// What the error says when `new` joins `old`; empty where there is none.
    fn joins(old: &str, new: &str) -> String {
        let project = Project { files: vec![file(old)], ..Project::new("a") };
        check_joins(&project, &file(new), View::Local).err().map_or(String::new(), |e| e.to_string())
    }

    #[test]
    fn two_wheels_of_one_version_for_one_tag_are_refused() {
        let plain = "a-1.0-py3-none-any.whl";
        for twin in ["a-1.0-py2.py3-none-any.whl", "a-1.0-1-py3-none-any.whl", "a-1.0.0-py3-none-any.whl"] {
            for error in [joins(plain, twin), joins(twin, plain)] {
                assert!(error.contains(plain) && error.contains(twin), "{error}");
                assert!(error.contains("both serve py3-none-any"), "{error}");
            }
        }
        assert_eq!(joins(plain, "a-1.0-py2-none-any.whl"), "");
        assert_eq!(joins(plain, "a-1.1-py3-none-any.whl"), "");
    }

    #[test]
    fn a_label_below_its_predecessor_is_refused() {
        let (old, new) = ("a-1.0+rocm7.14.2-py3-none-any.whl", "a-1.0+rocm7.14.1-py3-none-any.whl");
        let error = joins(old, new);
        assert!(error.contains(&format!("{new} sorts below {old}")), "{error}");
        assert_eq!(joins(new, old), "");
        assert!(joins(old, "a-1.0-py2-none-any.whl").contains("sorts below"), "one without a label");
        let labelled = |label: &str| format!("a-1.0+{label}-py3-none-any.whl");
        for (old, new, remedy) in [
            ("rocm7.14.gfx1151.3", "rocm7.14.gfx1151.2", "raise the component's Release"),
            ("rocm7.14.gfx1151.9", "rocm7.14.gfx1100.gfx1151.10", "other GPU targets"),
            ("rocm7.14.gfx1151.3", "rocm7.13.gfx1151.4", "another ROCm"),
            ("rocm7.14.gfx1151.1", "rocm7.14.gfx1151.dirty.2", "not committed"),
        ] {
            let project = Project { files: vec![file(&labelled(old))], ..Project::new("a") };
            let error = check_joins(&project, &file(&labelled(new)), View::Local).unwrap_err();
            assert!(error.hints().concat().contains(remedy), "{old} {new}: {:?}", error.hints());
        }
        // Another public version says what it is itself.
        assert_eq!(joins(old, "a-0.9+rocm7.14.1-py3-none-any.whl"), "");
        // What nobody chooses any more is in nobody's way.
        let yanked = File { yanked: Some(String::new()), ..file(old) };
        let project = Project { files: vec![yanked], ..Project::new("a") };
        check_joins(&project, &file(new), View::Local).unwrap();
    }
}
