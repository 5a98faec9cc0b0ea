//! Serves a package index on 127.0.0.1 with tiny synthetic distributions: wheels with or without
//! separate METADATA, source distributions, and false data.

use std::collections::BTreeMap;
use std::io::Write;

use base64::prelude::{BASE64_URL_SAFE_NO_PAD, Engine};
use rocmrpm::digest::Sha256;

use crate::support::archive::tar_gz;
use crate::support::server::{Reply, SeenRequest, TestServer};

/// A distribution to put on the index.
pub struct Dist<'a> {
    pub name: &'a str,
    pub version: &'a str,
    /// METADATA lines after name and version.
    pub lines: &'a [&'a str],
}

impl Dist<'_> {
    fn stem(&self) -> String {
        format!("{}-{}", self.name.replace('-', "_"), self.version)
    }

    fn metadata(&self) -> String {
        let mut text =
            format!("Metadata-Version: 2.2\nName: {}\nVersion: {}\n", self.name, self.version);
        self.lines.iter().for_each(|line| text += &format!("{line}\n"));
        text
    }
}

/// False data about a file.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Lie {
    /// No false data.
    None,
    /// The page has a wrong digest for the file.
    Digest,
    /// The page has a wrong digest for its METADATA.
    MetadataDigest,
    /// The METADATA contains another version.
    Version,
}

/// The files and pages of an index.
#[derive(Default)]
pub struct Index {
    files: BTreeMap<String, Vec<u8>>,
    pages: BTreeMap<String, String>,
    /// The upload time of files added later; their projects' pages are JSON (PEP 700).
    uploaded: Option<String>,
    dated: BTreeMap<String, Vec<serde_json::Value>>,
}

impl Index {
    /// Sets the upload time of files added later to noon of a day.
    pub fn on(mut self, day: &str) -> Self {
        self.uploaded = Some(format!("{day}T12:00:00.000000Z"));
        self
    }

    /// Adds a wheel for any Python with separate METADATA.
    pub fn wheel(self, name: &str, version: &str, lines: &[&str]) -> Self {
        self.add(&Dist { name, version, lines }, "py3-none-any", true, Lie::None)
    }

    /// Adds a wheel for any Python that contains these files.
    pub fn wheel_of(mut self, name: &str, files: &[(&str, &[u8])]) -> Self {
        let dist = Dist { name, version: "1.0", lines: &["License-Expression: MIT"] };
        let tag = "py3-none-any";
        let bytes = wheel(&dist, tag, &dist.metadata(), files, &[]);
        self.put(name, &format!("{}-{tag}.whl", dist.stem()), bytes, "", Lie::None);
        self
    }

    /// Adds a wheel whose METADATA is only inside the wheel.
    pub fn bare_wheel(self, name: &str, version: &str, lines: &[&str]) -> Self {
        self.add(&Dist { name, version, lines }, "py3-none-any", false, Lie::None)
    }

    /// Adds a wheel with an SBOM.
    pub fn sbom_wheel(mut self, name: &str, version: &str, lines: &[&str], sbom: &str) -> Self {
        let dist = Dist { name, version, lines };
        let bytes = wheel(
            &dist,
            "py3-none-any",
            &dist.metadata(),
            &[],
            &[("sboms/made.cyclonedx.json", sbom)],
        );
        self.put(name, &format!("{}-py3-none-any.whl", dist.stem()), bytes, "", Lie::None);
        self
    }

    /// Yanks the files of a project (PEP 592).
    pub fn yank(mut self, name: &str) -> Self {
        let page = self.pages.get_mut(name).unwrap();
        *page = page.replace("<a ", "<a data-yanked=\"broken\" ");
        self
    }

    /// Adds a wheel with this tag.
    pub fn add(mut self, dist: &Dist<'_>, tag: &str, beside: bool, lie: Lie) -> Self {
        let file = format!("{}-{tag}.whl", dist.stem());
        let mut metadata = dist.metadata();
        if lie == Lie::Version {
            metadata = metadata.replace(&format!("Version: {}\n", dist.version), "Version: 99\n");
        }
        let bytes = wheel(dist, tag, &metadata, &[], &[]);
        let announced = match lie {
            Lie::MetadataDigest => {
                format!(" data-core-metadata=\"sha256={}\"", Sha256::of_bytes("lie"))
            }
            _ => {
                let python =
                    dist.lines.iter().find_map(|line| line.strip_prefix("Requires-Python: "));
                let escaped = |text: &str| text.replace('<', "&lt;").replace('>', "&gt;");
                python.map_or(String::new(), |text| {
                    format!(" data-requires-python=\"{}\"", escaped(text))
                })
            }
        };
        if beside {
            self.files.insert(format!("{file}.metadata"), metadata.into_bytes());
        }
        self.put(dist.name, &file, bytes, &announced, lie);
        self
    }

    /// Adds a source distribution.
    pub fn sdist(mut self, name: &str, version: &str, lines: &[&str]) -> Self {
        let dist = Dist { name, version, lines };
        let pyproject = "[build-system]\nrequires = []\n";
        let bytes = tar_gz(
            &dist.stem(),
            &[("PKG-INFO", dist.metadata().as_str()), ("pyproject.toml", pyproject)],
        );
        self.put(name, &format!("{}.tar.gz", dist.stem()), bytes, "", Lie::None);
        self
    }

    /// Adds a file of a project.
    pub fn put(&mut self, project: &str, file: &str, bytes: Vec<u8>, attributes: &str, lie: Lie) {
        let digest = match lie {
            Lie::Digest => Sha256::of_bytes("lie"),
            _ => Sha256::of_bytes(&bytes),
        };
        let link =
            format!("<a href=\"../../files/{file}#sha256={digest}\"{attributes}>{file}</a>\n");
        *self.pages.entry(project.to_owned()).or_default() += &link;
        if let Some(time) = &self.uploaded {
            self.dated.entry(project.to_owned()).or_default().push(serde_json::json!({
                "filename": file,
                "url": format!("../../files/{file}"),
                "hashes": { "sha256": digest.to_string() },
                "upload-time": time,
            }));
        }
        self.files.insert(file.to_owned(), bytes);
    }

    pub fn digest(&self, file: &str) -> Sha256 {
        Sha256::of_bytes(&self.files[file])
    }

    pub fn bytes(&self, file: &str) -> &[u8] {
        &self.files[file]
    }

    /// Serves the index until the returned value is dropped.
    pub fn serve(self) -> TestServer {
        self.serve_after(|_| ())
    }

    /// Serves the index and calls `before` before each response.
    pub fn serve_after(self, before: impl Fn(&SeenRequest) + Send + Sync + 'static) -> TestServer {
        let answer = self.answer();
        TestServer::start(move |request| {
            before(request);
            answer(request)
        })
    }

    /// Returns what the index answers.
    pub fn answer(self) -> impl Fn(&SeenRequest) -> Reply + Send + Sync + 'static {
        move |request| {
            let path = request.path.trim_end_matches('/');
            let page = path.strip_prefix("/simple/").and_then(|project| self.pages.get(project));
            let file = path.strip_prefix("/files/").and_then(|file| self.files.get(file));
            if let Some(files) =
                path.strip_prefix("/simple/").and_then(|project| self.dated.get(project))
            {
                let page = serde_json::json!({ "meta": { "api-version": "1.1" }, "files": files });
                let json = "application/vnd.pypi.simple.v1+json";
                return Reply::file(page.to_string()).without_ranges().header("Content-Type", json);
            }
            match (page, file) {
                (Some(page), _) => Reply::file(format!("<!DOCTYPE html>\n{page}"))
                    .without_ranges()
                    .header("Content-Type", "text/html"),
                (None, Some(bytes)) => Reply::file(bytes.clone()),
                (None, None) => Reply::status(404),
            }
        }
    }
}

fn wheel(
    dist: &Dist<'_>,
    tag: &str,
    metadata: &str,
    files: &[(&str, &[u8])],
    of_info: &[(&str, &str)],
) -> Vec<u8> {
    let mut archive = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    let options = zip::write::SimpleFileOptions::default();
    let info = format!("{}.dist-info", dist.stem());
    let about = format!("Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: {tag}\n");
    let mut record = String::new();
    let metadata = [("METADATA", metadata), ("WHEEL", about.as_str())];
    let metadata = metadata.iter().chain(of_info);
    let metadata = metadata.map(|(file, text)| (format!("{info}/{file}"), text.as_bytes()));
    let files = files.iter().map(|(file, bytes)| ((*file).to_owned(), *bytes));
    for (file, bytes) in files.chain(metadata) {
        let digest = BASE64_URL_SAFE_NO_PAD.encode(Sha256::of_bytes(bytes).as_bytes());
        record += &format!("{file},sha256={digest},{}\n", bytes.len());
        archive.start_file(file, options).unwrap();
        archive.write_all(bytes).unwrap();
    }
    record += &format!("{info}/RECORD,,\n");
    archive.start_file(format!("{info}/RECORD"), options).unwrap();
    archive.write_all(record.as_bytes()).unwrap();
    archive.finish().unwrap().into_inner()
}
