//! Reads the tags of an RPM's header by number, as plain values, for example to compare two
//! packages. It does not interpret them.
//!
//! Source of numbers and names: rpm, `include/rpm/rpmtag.h`; of the format:
//! `docs/manual/format_v4.md`.

use std::collections::BTreeMap;
use std::io::BufReader;
use std::path::Path;

use super::{RpmError, checked};

/// The length of the lead at the start of every RPM file.
const LEAD: usize = 96;
/// The length of a header's magic and its two counts, of tags and of bytes of data.
const INTRO: usize = 16;
const ENTRY: usize = 16;

/// The value of a tag.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// One or more texts.
    Texts(Vec<String>),
    /// Numbers of any width.
    Numbers(Vec<u64>),
    /// Opaque bytes.
    Bytes(Vec<u8>),
}

impl std::fmt::Display for Value {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Texts(texts) => f.write_str(&texts.join(", ")),
            Self::Numbers(numbers) => {
                let numbers: Vec<String> = numbers.iter().map(u64::to_string).collect();
                f.write_str(&numbers.join(", "))
            }
            Self::Bytes(bytes) => bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}")),
        }
    }
}

/// All tags of a header.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tags(pub BTreeMap<u32, Value>);

impl Tags {
    /// Reads the tags of a package's main header, without the signatures.
    pub fn read(path: &Path) -> Result<Self, RpmError> {
        Self::read_with(path, |bytes| {
            let (index, data) = lengths(bytes)?;
            Self::parse(bytes.get(INTRO + index + data.next_multiple_of(8)..)?)
        })
    }

    /// Reads the tags of a package's signature header: signatures and digests.
    pub fn read_signatures(path: &Path) -> Result<Self, RpmError> {
        Self::read_with(path, Self::parse)
    }

    /// Passes the headers to `read`, the signature header first.
    fn read_with(path: &Path, read: impl Fn(&[u8]) -> Option<Self>) -> Result<Self, RpmError> {
        let refused = |reason: &str| RpmError::Unreadable {
            path: path.to_owned(),
            reason: reason.to_owned(),
        };
        let unreadable =
            |error: std::io::Error| refused(&rocmrpm_base::text::visible(&error.to_string()));
        let file = std::fs::File::open(path).map_err(unreadable)?;
        let bytes = checked::headers(&mut BufReader::new(file)).map_err(unreadable)?;
        bytes.get(LEAD..).and_then(read).ok_or_else(|| refused("its header is damaged"))
    }

    fn parse(header: &[u8]) -> Option<Self> {
        let (index, data) = lengths(header)?;
        let (index, data) = header.get(INTRO..INTRO + index + data)?.split_at(index);
        let mut tags = BTreeMap::new();
        for entry in index.chunks_exact(ENTRY) {
            let [tag, kind, offset, count] =
                [0, 4, 8, 12].map(|at| number(entry, at).unwrap_or_default());
            tags.insert(tag, value(kind, data.get(offset as usize..)?, count as usize)?);
        }
        Some(Self(tags))
    }

    /// Returns the texts of a tag; empty if it has none.
    pub fn texts(&self, tag: u32) -> &[String] {
        match self.0.get(&tag) {
            Some(Value::Texts(texts)) => texts,
            _ => &[],
        }
    }

    /// Returns the numbers of a tag; empty if it has none.
    pub fn numbers(&self, tag: u32) -> &[u64] {
        match self.0.get(&tag) {
            Some(Value::Numbers(numbers)) => numbers,
            _ => &[],
        }
    }
}

/// Returns the lengths in bytes of a header's index and of its data.
fn lengths(header: &[u8]) -> Option<(usize, usize)> {
    Some((number(header, 8)? as usize * ENTRY, number(header, 12)? as usize))
}

fn value(kind: u32, data: &[u8], count: usize) -> Option<Value> {
    let numbers = |width: usize| {
        let bytes = data.get(..count.checked_mul(width)?)?;
        let number = |bytes: &[u8]| bytes.iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte));
        Some(Value::Numbers(bytes.chunks_exact(width).map(number).collect()))
    };
    match kind {
        0 => Some(Value::Bytes(Vec::new())),
        1 | 2 => numbers(1),
        3 => numbers(2),
        4 => numbers(4),
        5 => numbers(8),
        6 | 8 | 9 => {
            let texts = data.split(|byte| *byte == 0).take(count);
            Some(Value::Texts(
                texts.map(|text| String::from_utf8_lossy(text).into_owned()).collect(),
            ))
        }
        7 => Some(Value::Bytes(data.get(..count)?.to_vec())),
        _ => None,
    }
}

fn number(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

/// Returns the name of a tag, or its number if it is not a common one.
pub fn tag_name(tag: u32) -> String {
    match NAMES.iter().find(|(number, _)| *number == tag) {
        Some((_, name)) => (*name).to_owned(),
        None => format!("tag {tag}"),
    }
}

#[rustfmt::skip]
const NAMES: &[(u32, &str)] = &[
    (100, "HeaderI18nTable"), (1000, "Name"), (1001, "Version"), (1002, "Release"), (1003, "Epoch"),
    (1004, "Summary"), (1005, "Description"), (1006, "BuildTime"), (1007, "BuildHost"), (1009, "Size"),
    (1010, "Distribution"), (1011, "Vendor"), (1014, "License"), (1015, "Packager"), (1016, "Group"),
    (1020, "URL"), (1021, "OS"), (1022, "Arch"), (1023, "PreIn"), (1024, "PostIn"), (1025, "PreUn"),
    (1026, "PostUn"), (1037, "FileFlags"), (1044, "SourceRPM"), (1047, "Provides"), (1048, "RequireFlags"),
    (1049, "Requires"), (1050, "RequireVersion"), (1053, "ConflictFlags"), (1054, "Conflicts"),
    (1055, "ConflictVersion"), (1064, "RPMVersion"), (1065, "TriggerScripts"), (1066, "TriggerName"),
    (1080, "ChangelogTime"), (1081, "ChangelogName"), (1082, "ChangelogText"), (1085, "PreInProg"),
    (1086, "PostInProg"), (1087, "PreUnProg"), (1088, "PostUnProg"), (1090, "Obsoletes"), (1094, "Cookie"),
    (1098, "Prefixes"), (1112, "ProvideFlags"), (1113, "ProvideVersion"), (1114, "ObsoleteFlags"),
    (1115, "ObsoleteVersion"), (1122, "OptFlags"), (1123, "DistURL"), (1124, "PayloadFormat"),
    (1125, "PayloadCompressor"), (1126, "PayloadFlags"), (1132, "Platform"), (1145, "DependsDict"),
    (5011, "FileDigestAlgo"), (5012, "BugURL"), (5034, "VCS"), (5046, "Recommends"), (5049, "Suggests"),
    (5052, "Supplements"), (5055, "Enhances"), (5062, "Encoding"), (5092, "PayloadSHA256"),
    (5097, "PayloadSHA256Alt"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_tags_and_rejects_a_damaged_header() {
        let dir = tempfile::tempdir().unwrap();
        let mut builder = rpm::PackageBuilder::new("demo", "1.0", "MIT", "x86_64", "a demo");
        builder
            .release("2.fc43")
            .requires(rpm::Dependency::any("first"))
            .requires(rpm::Dependency::any("second"));
        builder.with_file_contents("x", rpm::FileOptions::new("/usr/share/demo/a")).unwrap();
        let path = dir.path().join("demo.rpm");
        builder.build().unwrap().write_file(&path).unwrap();
        let tags = Tags::read(&path).unwrap();
        assert_eq!(tags.texts(1000), ["demo"]);
        assert!(
            tags.texts(1049).contains(&"first".to_owned())
                && tags.texts(1049).contains(&"second".to_owned())
        );
        assert_eq!(tags.numbers(1034).len(), 1);
        assert_eq!(Tags::read_signatures(&path).unwrap().texts(1000), &[""; 0]);
        assert_eq!((tags.texts(1), tags.numbers(1)), (&[][..], &[][..]));
        assert_eq!((tag_name(1047).as_str(), tag_name(77).as_str()), ("Provides", "tag 77"));
        let whole = std::fs::read(&path).unwrap();
        for length in [0, 50, 96, 200, 400] {
            std::fs::write(&path, &whole[..length]).unwrap();
            assert!(Tags::read(&path).is_err(), "{length}");
        }
    }
}
