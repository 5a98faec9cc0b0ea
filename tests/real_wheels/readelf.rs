//! What GNU readelf says of an ELF file, as values to compare ours with.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::Path;

use rocmrpm::process::Command;

/// An ELF file as readelf reads it. The names are those of [`rocmrpm::inspect::ElfFacts`].
#[derive(Debug, Default)]
pub struct Readelf {
    pub bits: u8,
    pub big_endian: bool,
    pub machine: String,
    /// `DYN`, `EXEC` or `REL`.
    pub kind: String,
    pub interpreter: Option<String>,
    pub soname: Option<String>,
    pub needed: Vec<String>,
    pub rpath: Vec<String>,
    pub runpath: Vec<String>,
    pub versions_needed: BTreeMap<String, BTreeSet<String>>,
    pub versions_provided: BTreeSet<String>,
    pub build_id: Option<String>,
    pub text_relocations: bool,
    pub executable_stack: Option<bool>,
    pub relro: &'static str,
    /// The sections' names and places in the file; none of `NOBITS`.
    pub sections: Vec<(String, Range<usize>)>,
    pub has_symbols: bool,
    pub defined: Vec<String>,
    /// With global binding.
    pub undefined: Vec<String>,
}

impl Readelf {
    /// Has readelf read a file.
    pub fn of(path: &Path) -> Self {
        let command =
            Command::new("readelf").args(["-hldnVSW", "--dyn-syms"]).arg(path).env("LC_ALL", "C");
        let text = command.text().unwrap_or_else(|error| panic!("{error} (packages: binutils)"));
        let mut found = Self::default();
        let (mut part, mut library, mut relro, mut now) =
            (Part::Header, String::new(), false, false);
        for line in text.lines() {
            if !line.starts_with(' ') {
                part = Part::starting(line).unwrap_or(part);
            }
            let words: Vec<&str> = line.split_whitespace().collect();
            match part {
                Part::Header => found.header(line),
                Part::Sections => found.section(line),
                Part::Segments => {
                    let flags = || words[6..words.len() - 1].concat();
                    match words.first() {
                        Some(&"GNU_STACK") => found.executable_stack = Some(flags().contains('E')),
                        Some(&"GNU_RELRO") => relro = true,
                        Some(&"[Requesting") => found.interpreter = bracketed(line, ": "),
                        _ => (),
                    }
                }
                Part::Dynamic => {
                    now |= line.contains("(BIND_NOW)")
                        || (line.contains("(FLAGS")
                            && words.iter().any(|w| ["NOW", "BIND_NOW"].contains(w)));
                    found.dynamic(line, &words);
                }
                Part::Symbols => found.symbol(&words),
                Part::Definitions => {
                    if let Some((_, name)) = line.split_once(" Name: ")
                        && !line.contains("Flags: BASE")
                    {
                        found.versions_provided.insert(name.to_owned());
                    }
                }
                Part::Needs => {
                    if let Some((_, rest)) = line.split_once("File: ") {
                        library = rest.split("  Cnt:").next().unwrap().to_owned();
                    } else if let Some((_, rest)) = line.split_once("Name: ") {
                        let name = rest.split("  Flags:").next().unwrap().to_owned();
                        found.versions_needed.entry(library.clone()).or_default().insert(name);
                    }
                }
                Part::Notes => {
                    let id = line.split_once("Build ID: ").map(|(_, id)| id.to_owned());
                    found.build_id = id.or(found.build_id);
                }
                Part::Other => (),
            }
        }
        found.relro = match (relro, now) {
            (false, _) => "none",
            (true, false) => "partial",
            (true, true) => "full",
        };
        found
    }

    /// Returns where a section's content is in the file.
    pub fn section_named(&self, name: &str) -> Option<Range<usize>> {
        self.sections.iter().find(|(other, _)| other == name).map(|(_, range)| range.clone())
    }

    fn header(&mut self, line: &str) {
        let Some((name, value)) = line.split_once(':') else { return };
        let value = value.trim();
        match name.trim() {
            "Class" => self.bits = if value == "ELF64" { 64 } else { 32 },
            "Data" => self.big_endian = value.ends_with("big endian"),
            "Type" => self.kind = value.split(' ').next().unwrap().to_owned(),
            "Machine" => self.machine = value.to_owned(),
            _ => (),
        }
    }

    // [Nr] Name Type Address Off Size ES Flg Lk Inf Al
    fn section(&mut self, line: &str) {
        let Some((_, rest)) = line.split_once(']') else { return };
        let words: Vec<&str> = rest.split_whitespace().collect();
        let [name, kind, _, offset, size, ..] = words[..] else { return };
        let number = |text| usize::from_str_radix(text, 16);
        let (Ok(offset), Ok(size)) = (number(offset), number(size)) else { return };
        self.has_symbols |= kind == "SYMTAB";
        if kind != "NOBITS" {
            self.sections.push((name.to_owned(), offset..offset + size));
        }
    }

    fn dynamic(&mut self, line: &str, words: &[&str]) {
        let Some(tag) = words.get(1) else { return };
        let value = || bracketed(line, "[").unwrap_or_default();
        // The loader ignores a path that is empty as a whole.
        let entries = || {
            value()
                .split(':')
                .filter(|_| !value().is_empty())
                .map(str::to_owned)
                .collect::<Vec<_>>()
        };
        match *tag {
            "(NEEDED)" => self.needed.push(value()),
            "(SONAME)" => self.soname = Some(value()),
            "(RPATH)" => self.rpath.extend(entries()),
            "(RUNPATH)" => self.runpath.extend(entries()),
            "(TEXTREL)" => self.text_relocations = true,
            "(FLAGS)" => self.text_relocations |= words.contains(&"TEXTREL"),
            _ => (),
        }
    }

    // Num: Value Size Type Bind Vis Ndx Name
    fn symbol(&mut self, words: &[&str]) {
        let [number, _, _, _, bind, _, index, ref name @ ..] = *words else { return };
        if !number.ends_with(':') || number == "0:" || bind == "LOCAL" {
            return;
        }
        let name = name.first().unwrap_or(&"").split('@').next().unwrap().to_owned();
        match (index, bind) {
            ("Ndx", _) | ("UND", "WEAK") => (),
            ("UND", _) => self.undefined.push(name),
            _ => self.defined.push(name),
        }
    }
}

/// A part of readelf's output.
#[derive(Clone, Copy)]
enum Part {
    Header,
    Sections,
    Segments,
    Dynamic,
    Symbols,
    Definitions,
    Needs,
    Notes,
    Other,
}

impl Part {
    fn starting(line: &str) -> Option<Self> {
        let parts = [
            ("ELF Header:", Self::Header),
            ("Section Headers:", Self::Sections),
            ("Program Headers:", Self::Segments),
            ("Dynamic section", Self::Dynamic),
            ("Symbol table '.dynsym'", Self::Symbols),
            ("Version definition section", Self::Definitions),
            ("Version needs section", Self::Needs),
            ("Displaying notes", Self::Notes),
        ];
        match parts.iter().find(|(start, _)| line.starts_with(start)) {
            Some((_, part)) => Some(*part),
            None => (!line.is_empty()).then_some(Self::Other),
        }
    }
}

/// Returns what stands between `open` and the line's last bracket.
fn bracketed(line: &str, open: &str) -> Option<String> {
    let (_, rest) = line.split_once(open)?;
    rest.rsplit_once(']').map(|(value, _)| value.to_owned())
}
