//! The lock of the files that a provider's ROCm consists of, `mock-configs/rocm/<name>.lock`: its
//! format. Does not determine the files.

use super::delivery::Delivery;
use super::document::{File, Table};
use super::lock::{quoted, sha256};
use super::pin::{Pin, Source};
use crate::canonical::canonical;
use crate::digest::Sha256;
use crate::error::Problem;
use crate::names::ComponentName;
use crate::text::visible;

/// The locked files of ROCm.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RocmLock {
    /// What the files were chosen for; see [`RocmLock::inputs`].
    pub inputs: Option<Sha256>,
    /// The files, in the order in which they are unpacked.
    pub files: Vec<RocmFile>,
}

/// A locked file of ROCm.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RocmFile {
    /// Its name.
    pub name: String,
    /// The distribution and its version, for a Python package.
    pub distribution: Option<(String, String)>,
    /// Its digest.
    pub sha256: Sha256,
    /// Its size in bytes, if known.
    pub size: Option<u64>,
}

impl RocmLock {
    /// Returns the digest of what determines the files of a provider besides the index or bucket:
    /// `target` is the target or family for which `rocm` chooses packages.
    pub fn inputs(delivery: &Delivery, arch: &str, target: &str) -> Sha256 {
        Sha256::of_bytes(format!("{} {arch} {target}", canonical(delivery)))
    }

    /// Reads a lock file.
    pub fn read(file: &File, problems: &mut Vec<Problem>) -> Self {
        file.parse(problems, |root| Self {
            inputs: root
                .required_string("inputs", "the digest of what the files were chosen for")
                .and_then(|at| Sha256::parse(&at.value)),
            files: root.tables("file", RocmFile::read).into_iter().flatten().collect(),
        })
    }

    /// Returns the file's text.
    pub fn text(&self) -> String {
        let mut text =
            String::from("# Written by `rocmrpm lock`. Review its changes; do not edit it.\n");
        text += &self.inputs.map(|inputs| format!("inputs = \"{inputs}\"\n")).unwrap_or_default();
        for RocmFile { name, distribution, sha256, size } in &self.files {
            text += &format!("\n[[file]]\nname = {}\n", quoted(name));
            if let Some((distribution, version)) = distribution {
                text += &format!("distribution = {}\n", quoted(distribution));
                text += &format!("version = {}\n", quoted(version));
            }
            text += &format!("sha256 = \"{sha256}\"\n");
            text += &size.map(|size| format!("size = {size}\n")).unwrap_or_default();
        }
        text
    }
}

impl RocmFile {
    fn read(table: &mut Table<'_>) -> Option<Self> {
        let name = table.required_string("name", "the name of the file");
        let is_plain =
            |name: &str| name.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.+!".contains(&b));
        if let Some(at) = name.as_ref().filter(|at| !is_plain(&at.value)) {
            let message = format!("`{}` is not a file name", visible(&at.value));
            table.problem(at.span.clone(), message, "expected a plain file name", None);
        }
        let distribution = table.string("distribution").map(|at| at.value);
        let version = table.string("version").map(|at| at.value);
        if !table.has("sha256") {
            table.required_string("sha256", "the digest of the file");
        }
        let size = table.integer("size").and_then(|size| u64::try_from(size).ok());
        let sha256 = sha256(table)?;
        let name = name.map(|at| at.value).filter(|name| is_plain(name))?;
        Some(Self { name, distribution: distribution.zip(version), size, sha256 })
    }

    /// Returns the file as the pin of a source.
    pub fn pin(&self, delivery: &Delivery) -> Option<Pin> {
        let sha256 = Some(self.sha256);
        let (component, version, source) = match (delivery, &self.distribution) {
            (Delivery::PythonPackages { .. }, Some((distribution, version))) => {
                let source = match self.name.ends_with(".whl") {
                    true => Source::Wheel { file: self.name.clone(), sha256 },
                    false => Source::Sdist { project: distribution.clone(), sha256 },
                };
                (distribution.as_str(), version.clone(), source)
            }
            (Delivery::PythonPackages { .. }, None) => return None,
            (Delivery::Artifacts(artifacts), _) => {
                let source = Source::Url { url: artifacts.url_of(&self.name), sha256 };
                (self.name.split('_').next()?, artifacts.run.clone(), source)
            }
        };
        Some(Pin::new(ComponentName::parse(component)?, version, source))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::delivery::Artifacts;

    #[test]
    fn inputs_have_fixed_bytes() {
        let packages = Delivery::PythonPackages {
            requirements: vec!["rocm[libraries]==7.14.0".into()],
            index: None,
            target: Some("gfx1151".into()),
        };
        let artifacts = Delivery::Artifacts(Artifacts {
            url: "https://example.org".into(),
            run: "1-linux".into(),
            groups: Vec::new(),
            targets: vec!["gfx115X-all".into()],
        });
        for (delivery, bytes) in [
            (
                packages,
                r#"PythonPackages(["rocm[libraries]==7.14.0"], None, Some("gfx1151")) x86_64 gfx1151"#,
            ),
            (
                artifacts,
                r#"Artifacts("https://example.org", "1-linux", [], ["gfx115X-all"]) x86_64 gfx1151"#,
            ),
        ] {
            let inputs = RocmLock::inputs(&delivery, "x86_64", "gfx1151");
            assert_eq!(inputs, Sha256::of_bytes(bytes), "{}", canonical(&delivery));
        }
    }

    #[test]
    fn round_trips() {
        let file = |name: &str, distribution: Option<(&str, &str)>| RocmFile {
            name: name.into(),
            distribution: distribution.map(|(name, version)| (name.into(), version.into())),
            sha256: Sha256::of_bytes(name),
            size: Some(3),
        };
        let lock = RocmLock {
            inputs: Some(Sha256::of_bytes("x")),
            files: vec![
                file("rocm-7.2.4.tar.gz", Some(("rocm", "7.2.4"))),
                file("blas_lib_gfx115X-all.tar.xz", None),
            ],
        };
        let mut problems = Vec::new();
        let read = |text: String, problems: &mut Vec<Problem>| {
            RocmLock::read(&File { name: "x.lock".into(), text }, problems)
        };
        assert_eq!(read(lock.text(), &mut problems), lock, "{}", lock.text());
        assert_eq!(problems, []);
        let bad = lock.text().replace("rocm-7.2.4.tar.gz", "../x");
        read(bad, &mut problems);
        assert_eq!(problems.len(), 1, "{problems:?}");
    }
}
