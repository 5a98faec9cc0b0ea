//! Reads the metadata of a source distribution: PKG-INFO and, if that lacks requirements, the
//! `requires.txt` written by setuptools. It does not run any code from the sdist.

use std::io::Read;

use flate2::read::MultiGzDecoder;

use super::limits::Bounded;

/// Maximum size of a text, in bytes.
const LIMIT: u64 = 16 << 20;
/// Maximum number of bytes to read from an archive.
const STREAM: u64 = 8 << 30;
/// Maximum number of archive members to read.
const MEMBERS: usize = 200_000;

/// Reads the METADATA of the sdist in `file`; `name` determines the archive format. The error
/// describes the problem.
pub(super) fn read(file: impl Read, name: &str) -> Result<String, String> {
    if !name.ends_with(".tar.gz") {
        return Err("only `.tar.gz` source distributions are supported".into());
    }
    let broken = |error: std::io::Error| format!("the archive is damaged: {error}");
    let mut archive = tar::Archive::new(Bounded::new(MultiGzDecoder::new(file), STREAM));
    let (mut info, mut requires) = (None, None);
    for entry in archive.entries().map_err(broken)?.take(MEMBERS) {
        let entry = entry.map_err(broken)?;
        let path = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
        let parts: Vec<&str> = path.split('/').filter(|part| *part != ".").collect();
        let slot = match parts.as_slice() {
            [_, "PKG-INFO"] => &mut info,
            [.., folder, "requires.txt"] if folder.ends_with(".egg-info") => &mut requires,
            _ => continue,
        };
        let mut bytes = Vec::new();
        entry.take(LIMIT).read_to_end(&mut bytes).map_err(broken)?;
        *slot = Some(String::from_utf8_lossy(&bytes).into_owned());
    }
    let info = info.ok_or("it has no PKG-INFO")?;
    Ok(match requires {
        Some(requires) => with_requires(&info, &requires),
        None => info,
    })
}

/// Returns PKG-INFO, with the requirements in `requires.txt` if it lacks its own, which metadata
/// versions before 2.2 permit.
pub(crate) fn with_requires(info: &str, requires: &str) -> String {
    if crate::wheel::header_fields(info).any(|field| field.is("Requires-Dist")) {
        return info.to_owned();
    }
    // Insert before upstream's fields, which may end with a description.
    format!("{}{info}", requires_txt(requires))
}

/// Converts `requires.txt` to METADATA: sections such as `[extra]`, `[:marker]` and
/// `[extra:marker]`, followed by requirements without markers (setuptools, `command/egg_info.py`,
/// `write_requirements`).
pub(crate) fn requires_txt(text: &str) -> String {
    let (mut written, mut condition) = (String::new(), String::new());
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        if let Some(section) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            let (extra, marker) = section.split_once(':').unwrap_or((section, ""));
            let parts = [
                (!marker.is_empty()).then(|| format!("({marker})")),
                (!extra.is_empty()).then(|| format!("extra == '{extra}'")),
            ];
            condition = parts.into_iter().flatten().collect::<Vec<_>>().join(" and ");
            if !extra.is_empty() {
                written.push_str(&format!("Provides-Extra: {extra}\n"));
            }
        } else if condition.is_empty() {
            written.push_str(&format!("Requires-Dist: {line}\n"));
        } else {
            written.push_str(&format!("Requires-Dist: {line} ; {condition}\n"));
        }
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sdist(files: &[(&str, &str)]) -> Vec<u8> {
        let gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        let mut archive = tar::Builder::new(gzip);
        for (path, text) in files {
            let mut header = tar::Header::new_gnu();
            header.set_size(text.len() as u64);
            header.set_mode(0o644);
            archive.append_data(&mut header, path, text.as_bytes()).unwrap();
        }
        archive.into_inner().unwrap().finish().unwrap()
    }

    #[test]
    fn reads_requirements_from_either_file() {
        let info = "Metadata-Version: 2.1\nName: a\nVersion: 1\n";
        let requires =
            "b>=1\n\n[x]\nc\n\n[:python_version < \"3\"]\nd\n\n[x:os_name == \"nt\"]\ne\n";
        let text = read(
            &sdist(&[("a-1/PKG-INFO", info), ("a-1/a.egg-info/requires.txt", requires)])[..],
            "a-1.tar.gz",
        );
        let text = text.unwrap();
        for line in [
            "Requires-Dist: b>=1\n",
            "Provides-Extra: x\nRequires-Dist: c ; extra == 'x'\n",
            "Requires-Dist: d ; (python_version < \"3\")\n",
            "Requires-Dist: e ; (os_name == \"nt\") and extra == 'x'\n",
            "Name: a\n",
        ] {
            assert!(text.contains(line), "{line}: {text}");
        }
        let own = format!("{info}Requires-Dist: z\n");
        let files = [("a-1/PKG-INFO", own.as_str()), ("a-1/src/a.egg-info/requires.txt", requires)];
        assert_eq!(read(&sdist(&files)[..], "a-1.tar.gz").unwrap(), own);
    }

    #[test]
    fn rejects_files_that_are_not_sdists() {
        for (bytes, name, wrong) in [
            (sdist(&[("a-1/setup.py", "")]), "a-1.tar.gz", "no PKG-INFO"),
            (b"no archive".to_vec(), "a-1.tar.gz", "damaged"),
            (sdist(&[]), "a-1.zip", ".tar.gz"),
        ] {
            let error = read(&bytes[..], name).unwrap_err();
            assert!(error.contains(wrong), "{error}");
        }
        let whole = sdist(&[("a-1/PKG-INFO", "Name: a\n")]);
        for end in 0..whole.len() - 30 {
            assert!(read(&whole[..end], "a-1.tar.gz").is_err(), "{end}");
        }
    }
}
