//! Reads a package's provides and requirements from its header, and the files in which rpm found
//! each requirement. It does not resolve requirements.

use std::collections::BTreeMap;
use std::fmt;
use std::io::BufReader;
use std::path::Path;

use super::tags::Tags;
use super::{RpmError, checked};

// Source: rpm, include/rpm/rpmtag.h.
const NAME: u32 = 1000;
const PROVIDES: Numbers = Numbers { names: 1047, flags: 1112, versions: 1113 };
const REQUIRES: Numbers = Numbers { names: 1049, flags: 1048, versions: 1050 };
const FILE_MODES: u32 = 1030;
const FILE_DIGESTS: u32 = 1035;
const FILE_LINKS: u32 = 1036;
const DIR_INDEXES: u32 = 1116;
const BASE_NAMES: u32 = 1117;
const DIR_NAMES: u32 = 1118;
const FILE_DEPENDS_X: u32 = 1143;
const FILE_DEPENDS_N: u32 = 1144;
const DEPENDS_DICT: u32 = 1145;

/// The type bits of a folder in a file's mode (inode(7)).
const FOLDER: u64 = 0o040_000;

// Source: rpm, include/rpm/rpmds.h, rpmsenseFlags.
const LESS: u64 = 1 << 1;
const GREATER: u64 = 1 << 2;
const EQUAL: u64 = 1 << 3;

/// The tags of one kind of relation.
struct Numbers {
    names: u32,
    flags: u32,
    versions: u32,
}

/// A provided or required name with its versions.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Relation {
    /// The name, or a whole rich requirement in parentheses.
    pub name: String,
    /// An operator such as `=` or `>=`, and the version including the epoch; `None` for any
    /// version.
    pub version: Option<(&'static str, String)>,
}

impl fmt::Display for Relation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.version {
            Some((sign, version)) => write!(f, "{} {sign} {version}", self.name),
            None => f.write_str(&self.name),
        }
    }
}

/// A requirement of a package and where it comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Required {
    /// The requirement.
    pub relation: Relation,
    /// The sorted files in which rpm found it; empty if the spec states it.
    pub files: Vec<String>,
}

/// The relations of a package to others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Relations {
    /// The name of the package.
    pub package: String,
    /// Its provides, including its own name.
    pub provides: Vec<Relation>,
    /// Its requirements, without features of rpm itself (`rpmlib(...)`).
    pub requires: Vec<Required>,
    /// Its files and folders.
    pub files: Vec<PackagedFile>,
}

/// A file of a package.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PackagedFile {
    /// The absolute path.
    pub path: String,
    /// The digest of a regular file or the target of a link, with the type; `None` for a folder.
    /// rpm refuses to install two packages with different values (rpm, lib/rpmfi.c,
    /// rpmfilesCompare).
    pub content: Option<String>,
}

impl Relations {
    /// Reads the header of an RPM file. Only headers from rpmbuild state in which files rpm found a
    /// requirement; in others, no requirement has files.
    pub fn read(path: &Path) -> Result<Self, RpmError> {
        let tags = Tags::read(path)?;
        let paths = paths(&tags);
        let found_in = found_in(&tags, &paths);
        let required = |(at, relation): (usize, Relation)| {
            let found = found_in.get(&at).into_iter().flatten().map(|path| (*path).to_owned());
            Required { relation, files: found.collect() }
        };
        let requires = relations(&tags, &REQUIRES).into_iter().enumerate();
        let requires = requires.filter(|(_, relation)| !relation.name.starts_with("rpmlib("));
        Ok(Self {
            package: tags.texts(NAME).first().cloned().unwrap_or_default(),
            provides: relations(&tags, &PROVIDES),
            requires: requires.map(required).collect(),
            files: files(&tags, &paths),
        })
    }
}

/// Writes a copy of an RPM file without its payload, which dnf and createrepo_c do not read.
pub fn write_headers(from: &Path, to: &Path) -> Result<(), RpmError> {
    let refused = |error: std::io::Error| RpmError::Unreadable {
        path: from.to_owned(),
        reason: rocmrpm_base::text::visible(&error.to_string()),
    };
    let mut input = BufReader::new(std::fs::File::open(from).map_err(refused)?);
    let headers = checked::headers(&mut input).map_err(refused)?;
    rocmrpm_base::files::write_atomically(to, headers)?;
    Ok(())
}

fn relations(tags: &Tags, numbers: &Numbers) -> Vec<Relation> {
    let (flags, versions) = (tags.numbers(numbers.flags), tags.texts(numbers.versions));
    let relation = |(at, name): (usize, &String)| {
        let flags = flags.get(at).copied().unwrap_or_default();
        let sign = match flags & (LESS | GREATER | EQUAL) {
            LESS => "<",
            GREATER => ">",
            EQUAL => "=",
            sign if sign == LESS | EQUAL => "<=",
            sign if sign == GREATER | EQUAL => ">=",
            _ => "",
        };
        let version = versions.get(at).filter(|version| !version.is_empty() && !sign.is_empty());
        Relation { name: name.clone(), version: version.map(|version| (sign, version.clone())) }
    };
    tags.texts(numbers.names).iter().enumerate().map(relation).collect()
}

fn paths(tags: &Tags) -> Vec<String> {
    let (folders, indexes) = (tags.texts(DIR_NAMES), tags.numbers(DIR_INDEXES));
    let path = |(base, index): (&String, &u64)| {
        let folder = usize::try_from(*index).ok().and_then(|index| folders.get(index));
        format!("{}{base}", folder.map(String::as_str).unwrap_or_default())
    };
    tags.texts(BASE_NAMES).iter().zip(indexes).map(path).collect()
}

fn files(tags: &Tags, paths: &[String]) -> Vec<PackagedFile> {
    let (modes, digests, links) =
        (tags.numbers(FILE_MODES), tags.texts(FILE_DIGESTS), tags.texts(FILE_LINKS));
    let file = |(at, path): (usize, &String)| {
        let kind = modes.get(at).map_or(0, |mode| mode & 0o170_000);
        let text = |list: &[String]| list.get(at).cloned().unwrap_or_default();
        let content =
            (kind != FOLDER).then(|| format!("{kind:o} {}{}", text(digests), text(links)));
        PackagedFile { path: path.clone(), content }
    };
    paths.iter().enumerate().map(file).collect()
}

/// Returns the files of each requirement by its number. Each file has a slice of the dictionary,
/// whose entries have the kind of relation in the highest byte and its number in the others (rpm,
/// build/rpmfc.c, rpmfcGenerateDepends).
fn found_in<'p>(tags: &Tags, paths: &'p [String]) -> BTreeMap<usize, Vec<&'p str>> {
    let dict = tags.numbers(DEPENDS_DICT);
    let slices = tags.numbers(FILE_DEPENDS_X).iter().zip(tags.numbers(FILE_DEPENDS_N));
    let mut found: BTreeMap<usize, Vec<&str>> = BTreeMap::new();
    for (path, (start, count)) in paths.iter().zip(slices) {
        let range = usize::try_from(*start).ok().zip(usize::try_from(*count).ok());
        let slice = range.and_then(|(start, count)| dict.get(start..start.checked_add(count)?));
        for entry in slice.unwrap_or_default() {
            if entry >> 24 == u64::from(b'R') {
                found.entry((entry & 0x00ff_ffff) as usize).or_default().push(path);
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn demo(dir: &Path) -> std::path::PathBuf {
        let mut builder = rpm::PackageBuilder::new("demo", "1.0", "MIT", "x86_64", "a demo");
        builder
            .requires(rpm::Dependency::greater_eq("a", "2"))
            .requires(rpm::Dependency::any("(b or c)"))
            .provides(rpm::Dependency::eq("d", "3"));
        builder.with_file_contents("x", rpm::FileOptions::new("/usr/share/demo/a")).unwrap();
        let path = dir.join("demo.rpm");
        builder.build().unwrap().write_file(&path).unwrap();
        path
    }

    #[test]
    fn reads_relations_also_without_the_payload() {
        let dir = tempfile::tempdir().unwrap();
        let path = demo(dir.path());
        let relations = Relations::read(&path).unwrap();
        assert_eq!(relations.package, "demo");
        assert_eq!(
            relations.files.iter().map(|file| file.path.as_str()).collect::<Vec<_>>(),
            ["/usr/share/demo/a"]
        );
        let requires: Vec<String> =
            relations.requires.iter().map(|r| r.relation.to_string()).collect();
        assert!(
            requires.contains(&"a >= 2".to_owned()) && requires.contains(&"(b or c)".to_owned())
        );
        assert!(
            !requires.iter().any(|requirement| requirement.starts_with("rpmlib")),
            "{requires:?}"
        );
        assert!(relations.provides.iter().any(|provided| provided.to_string() == "d = 3"));
        let copy = dir.path().join("copy.rpm");
        write_headers(&path, &copy).unwrap();
        assert_eq!(Relations::read(&copy).unwrap(), relations);
        assert!(copy.metadata().unwrap().len() < path.metadata().unwrap().len());
    }

    #[test]
    fn ignores_a_dictionary_out_of_bounds() {
        use super::super::tags::Value;
        let numbers = |numbers: &[u64]| Value::Numbers(numbers.to_vec());
        let tags = |dict: &[u64], start: u64, count: u64| {
            Tags(BTreeMap::from([
                (DEPENDS_DICT, numbers(dict)),
                (FILE_DEPENDS_X, numbers(&[start])),
                (FILE_DEPENDS_N, numbers(&[count])),
            ]))
        };
        let paths = ["/a".to_owned()];
        let (requires, provides) = (u64::from(b'R') << 24, u64::from(b'P') << 24);
        let found = |start, count| found_in(&tags(&[provides, requires | 7], start, count), &paths);
        assert_eq!(found(0, 2), BTreeMap::from([(7, vec!["/a"])]));
        assert_eq!(found(0, 1), BTreeMap::new());
        for (start, count) in [(0, 3), (3, 1), (u64::MAX, 2), (1, u64::MAX)] {
            assert_eq!(found(start, count), BTreeMap::new(), "{start} {count}");
        }
    }
}
