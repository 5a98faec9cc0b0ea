//! Makes small wheels with the METADATA of real distributions.

use std::io::Write;
use std::path::{Path, PathBuf};

use base64::prelude::{BASE64_URL_SAFE_NO_PAD, Engine};
use rocmrpm::digest::Sha256;
use zip::write::SimpleFileOptions;

/// Makes `count` wheels of `distributions` in one folder and one more in another.
pub fn make(
    dir: &Path,
    metadata: &[String],
    count: usize,
    distributions: usize,
) -> (PathBuf, PathBuf) {
    let (all, one) = (dir.join("all"), dir.join("one"));
    [&all, &one].iter().for_each(|folder| std::fs::create_dir_all(folder).unwrap());
    let versions = count / distributions;
    for at in 0..distributions {
        let text = &metadata[at % metadata.len()];
        for version in 0..versions {
            wheel(&all, text, at, version);
        }
    }
    wheel(&one, &metadata[0], 0, versions);
    (all, one)
}

/// Makes a wheel of the first distribution with a version that ends with this number.
pub fn another(dir: &Path, metadata: &str, version: usize) -> PathBuf {
    std::fs::create_dir_all(dir).unwrap();
    wheel(dir, metadata, 0, version)
}

/// Returns the wheels of a folder, sorted.
pub fn in_folder(folder: &Path) -> Vec<PathBuf> {
    let mut wheels: Vec<PathBuf> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    wheels.sort();
    wheels
}

/// Returns the two forms of a wheel's page in a local index.
pub fn page_of(index: &Path, wheel: &Path) -> [PathBuf; 2] {
    ["html", "json"].map(|form| index.join(format!("simple/{}/index.{form}", distribution(wheel))))
}

/// Returns a wheel and its metadata in an index.
pub fn package_of(index: &Path, wheel: &Path) -> [PathBuf; 2] {
    let name = wheel.file_name().unwrap().to_str().unwrap();
    ["", ".metadata"].map(|end| index.join(format!("packages/{}/{name}{end}", distribution(wheel))))
}

fn distribution(wheel: &Path) -> String {
    wheel.file_name().unwrap().to_str().unwrap().split('-').next().unwrap().replace('_', "-")
}

fn wheel(folder: &Path, metadata: &str, distribution: usize, version: usize) -> PathBuf {
    let (name, version) =
        (format!("bench_{distribution}"), format!("1.{version}+rocm7.14.gfx1151"));
    let info = format!("{name}-{version}.dist-info");
    let own = metadata.lines().map(|line| match line.split_once(": ") {
        Some(("Name", _)) => format!("Name: {}\n", name.replace('_', "-")),
        Some(("Version", _)) => format!("Version: {version}\n"),
        _ => format!("{line}\n"),
    });
    let members = [
        (format!("{name}/__init__.py"), format!("version = '{version}'\n")),
        (format!("{info}/METADATA"), own.collect()),
        (
            format!("{info}/WHEEL"),
            "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n".to_owned(),
        ),
    ];
    let path = folder.join(format!("{name}-{version}-py3-none-any.whl"));
    let file = std::fs::File::create(&path).unwrap();
    let mut archive = zip::ZipWriter::new(std::io::BufWriter::new(file));
    let mut record = String::new();
    for (path, text) in &members {
        archive.start_file(path, SimpleFileOptions::default()).unwrap();
        archive.write_all(text.as_bytes()).unwrap();
        record += &format!(
            "{path},sha256={},{}\n",
            BASE64_URL_SAFE_NO_PAD.encode(Sha256::of_bytes(text).as_bytes()),
            text.len()
        );
    }
    record += &format!("{info}/RECORD,,\n");
    archive.start_file(format!("{info}/RECORD"), SimpleFileOptions::default()).unwrap();
    archive.write_all(record.as_bytes()).unwrap();
    archive.finish().unwrap();
    path
}
