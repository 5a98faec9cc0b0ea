//! A package index in a folder, and its small project.

use super::archive::tar_gz;

/// A package index in a folder, with pages of the Simple API as a server would send them.
pub struct Index(tempfile::TempDir);

impl Index {
    /// Returns an index without projects.
    pub fn empty() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    /// Returns an index with one sdist of the project [`hello`].
    pub fn with_hello(version: &str) -> Self {
        let index = Self::empty();
        index.add("hello", version, &sdist("hello", version));
        index
    }

    /// Adds a project with one sdist and its digest on the page.
    pub fn add(&self, project: &str, version: &str, bytes: &[u8]) {
        self.add_file(project, &format!("{project}-{version}.tar.gz"), bytes);
    }

    /// Adds a file to a project, with its digest on the page.
    pub fn add_file(&self, project: &str, file: &str, bytes: &[u8]) {
        let dir = self.0.path().join("simple").join(project);
        std::fs::create_dir_all(&dir).unwrap();
        std::fs::write(dir.join(file), bytes).unwrap();
        let digest = rocmrpm::digest::Sha256::of_bytes(bytes);
        let page = dir.join("index.html");
        let old = std::fs::read_to_string(&page).unwrap_or_else(|_| "<!DOCTYPE html>\n".into());
        std::fs::write(&page, format!("{old}<a href=\"{file}#sha256={digest}\">{file}</a>\n"))
            .unwrap();
    }

    /// Returns the index's URL.
    pub fn url(&self) -> String {
        format!("file://{}/simple", self.0.path().display())
    }
}

/// The files of a small project in pure Python, by path.
pub fn project(name: &str, version: &str) -> Vec<(String, String)> {
    let pyproject = format!(
        "[build-system]\nrequires = [\"setuptools\"]\nbuild-backend = \"setuptools.build_meta\"\n\n\
         [project]\nname = \"{name}\"\nversion = \"{version}\"\ndescription = \"Says hello\"\n\n\
         [tool.setuptools]\npackages = [\"{name}\"]\n"
    );
    vec![
        ("LICENSE".into(), "MIT\n".into()),
        ("pyproject.toml".into(), pyproject),
        (format!("{name}/__init__.py"), "def greet():\n    return \"hello\"\n".into()),
    ]
}

/// Returns the project's sdist: `.tar.gz` with a PKG-INFO, the same bytes every time.
pub fn sdist(name: &str, version: &str) -> Vec<u8> {
    let info = format!(
        "Metadata-Version: 2.1\nName: {name}\nVersion: {version}\nSummary: Says 100% hello.\n\
         License: MIT\nHome-page: https://example.org/{name}\n\nLonger text.\n"
    );
    let mut files = project(name, version);
    files.push(("PKG-INFO".into(), info));
    tar_gz(&format!("{name}-{version}"), &files)
}
