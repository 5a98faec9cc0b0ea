//! Splits a spec file into packages and scripts with line numbers. It does not interpret lines or
//! expand macros; rpm does the latter.

use std::collections::BTreeSet;

use similar::{Algorithm, capture_diff_slices};

/// One line of a spec.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// The line number in the file, from 1.
    pub number: usize,
    /// The text, with macros expanded if rpm did so.
    pub text: String,
}

/// A package declared in a spec.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Package {
    /// The package name.
    pub name: String,
    /// The line of `%package`, or of `Name:` for the main package.
    pub line: usize,
    /// The tags, in order.
    pub tags: Vec<Tag>,
    /// Whether there is a `%files` section; rpm does not build a package without one.
    pub files: bool,
    /// Whether only an inactive branch of the spec has a `%files` section for it: the packager
    /// turned the package off.
    pub off: bool,
}

/// A tag of a package, such as `Requires: a`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tag {
    /// The tag in lowercase without qualifier, such as `requires`.
    pub name: String,
    /// The value after the colon.
    pub value: String,
    /// The line number, from 1.
    pub line: usize,
}

/// A build script, such as `%build`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Script {
    /// The section name without `%`.
    pub section: String,
    /// The lines of the script.
    pub lines: Vec<Line>,
}

/// The sections of a spec file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sections {
    /// The packages; the main package comes first.
    pub packages: Vec<Package>,
    /// `%prep`, `%generate_buildrequires`, `%build`, `%install` and `%check`.
    pub scripts: Vec<Script>,
    /// The lines of all `%files` sections.
    pub files: Vec<Line>,
    /// Lines that begin with a macro that rpm did not know and that, by its name, may declare
    /// packages or their files.
    pub unknown: Vec<Line>,
}

/// The sections that rpmbuild runs as scripts.
const BUILD_SCRIPTS: &[&str] =
    &["prep", "conf", "generate_buildrequires", "build", "install", "check", "clean"];

/// All other sections. Source: rpm's build/parseSpec.c, `partList`.
const OTHER_SECTIONS: &[&str] = &[
    "package",
    "description",
    "files",
    "changelog",
    "preun",
    "postun",
    "pretrans",
    "posttrans",
    "preuntrans",
    "postuntrans",
    "pre",
    "post",
    "triggerprein",
    "triggerin",
    "triggerun",
    "triggerpostun",
    "verifyscript",
    "sepolicy",
    "filetriggerin",
    "filetriggerun",
    "filetriggerpostun",
    "transfiletriggerin",
    "transfiletriggerun",
    "transfiletriggerpostun",
    "sourcelist",
    "patchlist",
];

/// The comment that marks the start of a script.
const MARK: &str = "#rocmrpm:section:";

/// A script that Fedora's specs no longer have.
const SPARE: &str = "clean";

/// Parts of the names of macros that declare packages, as `%fontpkg`, `%gopkgfiles` and
/// `%ghc_lib_subpackage` do.
const DECLARING: &[&str] = &["pkg", "package", "files"];

/// Returns the value of a tag that declares a build system or its options. Source: rpm's manual,
/// "Declarative builds".
fn build_system(line: &str) -> Option<&str> {
    let (tag, value) = line.split_once(':')?;
    let tag = tag.split('(').next().unwrap_or(tag).trim();
    let is = ["buildsystem", "buildoption"].iter().any(|name| tag.eq_ignore_ascii_case(name));
    is.then_some(value.trim())
}

/// Returns whether a line calls a macro that rpm did not expand and that may declare packages.
fn is_declaring(line: &str) -> bool {
    let first = line.split_whitespace().next().filter(|word| !word.contains('/'));
    let Some(word) = first.and_then(|word| word.strip_prefix('%')) else { return false };
    let name = word.trim_start_matches(['{', '?', '!']).split([':', '}', '(']).next();
    let name = name.unwrap_or_default().to_ascii_lowercase();
    // Macros of rpm's own that it leaves in a spec, and sections.
    !["files", "package"].contains(&name.as_str())
        && DECLARING.iter().any(|part| name.contains(part))
}

/// Returns the name of the section that starts on this line, without `%`.
pub fn section(line: &str) -> Option<&str> {
    let word =
        line.split_whitespace().next()?.strip_prefix('%').filter(|_| line.starts_with('%'))?;
    (BUILD_SCRIPTS.contains(&word) || OTHER_SECTIONS.contains(&word)).then_some(word)
}

/// Returns the name of the script that starts on this line.
fn script_header(line: &str) -> Option<&str> {
    section(line).filter(|section| BUILD_SCRIPTS.contains(section))
}

impl Sections {
    /// Parses an unexpanded spec.
    pub fn parse(text: &str) -> Self {
        let lines =
            text.lines().zip(1..).map(|(text, number)| Line { number, text: text.to_owned() });
        Self::of(lines)
    }

    /// Returns a spec whose sections remain identifiable in the output of `rpmspec --parse`: rpm
    /// 4.18 omits some section headers, but keeps comments after them.
    ///
    /// Leaves out the declaration of a build system, so that rpm before 4.20 reads the spec, and
    /// every rpm reads only what the file itself has: the build system adds scripts, but no
    /// packages.
    pub fn marked(text: &str) -> String {
        let mut seen: BTreeSet<&str> = BTreeSet::new();
        let mut spare = text.lines().all(|line| script_header(line) != Some(SPARE));
        let line = |line| match script_header(line) {
            Some(section) => {
                // With a build system, `%build -a` and `%build -p` may both be there. Without it,
                // rpm allows one, so the second is disguised; the mark has its name.
                let adds =
                    line.split_whitespace().nth(1).is_some_and(|w| ["-a", "-p"].contains(&w));
                let header = match adds {
                    true if seen.contains(section) && std::mem::take(&mut spare) => SPARE,
                    true => section,
                    false => line.trim_start_matches('%'),
                };
                seen.insert(section);
                format!("%{header}\n{MARK}{section}\n")
            }
            None => match build_system(line) {
                // A definition may have several lines, as the tag may.
                Some(value) => format!("%global __rocmrpm_build_system {value}\n"),
                None => format!("{line}\n"),
            },
        };
        text.lines().map(line).collect()
    }

    /// Returns the number in the original spec of a line of a [`Self::marked`] one.
    pub fn unmarked_line(marked: &str, number: usize) -> usize {
        marked.lines().take(number).filter(|line| !line.starts_with(MARK)).count()
    }

    /// Parses the output of `rpmspec --parse` for a spec that was [`Self::marked`], with macros
    /// expanded and inactive branches removed. Each line gets the number of its original line in
    /// `text`, as far as comparing both can determine it.
    pub fn expanded(text: &str, expanded: &str) -> Self {
        let old: Vec<&str> = text.lines().collect();
        let mut new: Vec<&str> = Vec::new();
        for line in expanded.lines() {
            match line.strip_prefix(MARK) {
                // Insert the first header of this section in the spec.
                Some(section)
                    if new.last().and_then(|line| script_header(line)) != Some(section) =>
                {
                    new.extend(old.iter().find(|line| script_header(line) == Some(section)));
                }
                Some(_) => {}
                None => new.push(line),
            }
        }
        let mut lines = Vec::with_capacity(new.len());
        for op in capture_diff_slices(Algorithm::Myers, &old, &new) {
            let (from, to) = (op.old_range(), op.new_range());
            let last = from.end.max(1) - 1;
            for (at, text) in new.iter().take(to.end).skip(to.start).enumerate() {
                let number = (from.start + at).min(last) + 1;
                lines.push(Line { number, text: (*text).to_owned() });
            }
        }
        let mut sections = Self::of(lines);
        let written = Self::parse(text);
        for package in sections.packages.iter_mut().filter(|package| !package.files) {
            let declared = |other: &&Package| other.line == package.line;
            package.off = written.packages.iter().find(declared).is_some_and(|other| other.files);
        }
        sections
    }

    fn of(lines: impl IntoIterator<Item = Line>) -> Self {
        let mut sections = Self { packages: vec![Package::default()], ..Self::default() };
        let mut part = CurrentPart::Tags(0);
        for line in lines {
            if let Some(next) = sections.begin(&line) {
                part = next;
                continue;
            }
            if is_declaring(&line.text) {
                sections.unknown.push(line.clone());
            }
            match part {
                CurrentPart::Tags(package) => sections.tag(package, &line),
                CurrentPart::Script(script) => sections.scripts[script].lines.push(line),
                CurrentPart::Files => sections.files.push(line),
                CurrentPart::Other => {}
            }
        }
        sections
    }

    /// Returns the part that starts with this line, if any.
    fn begin(&mut self, line: &Line) -> Option<CurrentPart> {
        let section = section(&line.text)?;
        if script_header(&line.text).is_some() {
            self.scripts.push(Script { section: section.to_owned(), lines: Vec::new() });
            return Some(CurrentPart::Script(self.scripts.len() - 1));
        }
        let name = self.named(line.text.split_whitespace().skip(1));
        Some(match section {
            "package" => {
                self.packages.push(Package { name, line: line.number, ..Package::default() });
                CurrentPart::Tags(self.packages.len() - 1)
            }
            "files" => {
                if let Some(package) = self.packages.iter_mut().find(|package| package.name == name)
                {
                    package.files = true;
                }
                CurrentPart::Files
            }
            _ => CurrentPart::Other,
        })
    }

    /// Returns the package name given by the words after `%package` or `%files`.
    fn named<'a>(&self, words: impl IntoIterator<Item = &'a str>) -> String {
        let main = &self.packages[0].name;
        let mut words = words.into_iter();
        while let Some(word) = words.next() {
            match word {
                "-n" => return words.next().unwrap_or_default().to_owned(),
                "-f" => {
                    words.next();
                }
                word if word.starts_with('-') => {}
                word => return format!("{main}-{word}"),
            }
        }
        main.clone()
    }

    fn tag(&mut self, package: usize, line: &Line) {
        let Some((tag, value)) = line.text.split_once(':') else { return };
        let tag = tag.split('(').next().unwrap_or(tag).trim().to_ascii_lowercase();
        let value = value.trim();
        // Neither a comment nor a macro with a colon in it.
        if tag.is_empty() || !tag.bytes().all(|b| b.is_ascii_alphanumeric()) || value.is_empty() {
            return;
        }
        let package = &mut self.packages[package];
        if tag == "name" {
            package.name = value.to_owned();
            package.line = line.number;
        }
        package.tags.push(Tag { name: tag, value: value.to_owned(), line: line.number });
    }

    /// Returns the first value of a tag of the main package, such as `version`.
    pub fn value(&self, tag: &str) -> Option<&str> {
        self.packages[0].value(tag)
    }
}

impl Package {
    /// Returns the first value of a tag.
    pub fn value(&self, tag: &str) -> Option<&str> {
        self.tags.iter().find(|known| known.name == tag).map(|tag| tag.value.as_str())
    }
}

/// The part that the following lines belong to; numbers are indexes in [`Sections`].
enum CurrentPart {
    Tags(usize),
    Script(usize),
    Files,
    Other,
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPEC: &str = "\
%global x 1
Name:           python-a
Version:        1.2
BuildRequires:  cmake >= 3, gcc
Requires(post): b
# Requires:     no

%description
Name: not this

%package -n python3-a
Summary:        %{summary}
Provides:       a-rocm = %{version}-%{release}

%package devel
Requires:       c

%build
export A=1
%pyproject_wheel

%files -n python3-a -f %{pyproject_files}
%license LICENSE

%changelog
* Mon Jan 05 2026 A <a@example.org> - 1.2-1
- export B=2
";

    #[test]
    fn finds_packages_scripts_and_files() {
        let sections = Sections::parse(SPEC);
        let names: Vec<_> =
            sections.packages.iter().map(|p| (p.name.as_str(), p.line, p.files)).collect();
        assert_eq!(
            names,
            [("python-a", 2, false), ("python3-a", 11, true), ("python-a-devel", 15, false)]
        );
        let tags: Vec<_> = sections.packages[0]
            .tags
            .iter()
            .map(|t| (t.name.as_str(), t.value.as_str(), t.line))
            .collect();
        assert_eq!(
            tags,
            [
                ("name", "python-a", 2),
                ("version", "1.2", 3),
                ("buildrequires", "cmake >= 3, gcc", 4),
                ("requires", "b", 5)
            ]
        );
        let [build] = sections.scripts.as_slice() else { panic!("{:?}", sections.scripts) };
        assert_eq!((build.section.as_str(), build.lines[0].number), ("build", 19));
        assert_eq!(build.lines[0].text, "export A=1");
        assert_eq!(sections.files[0].text, "%license LICENSE");
        assert_eq!(sections.value("version"), Some("1.2"));
    }

    #[test]
    fn expanded_lines_keep_their_original_numbers() {
        let text = "Name: a\n%global x 3\n%if 0\nVersion: 1\n%else\nVersion: 2\n%endif\n%build\nexport A=%{x}\nmake\n";
        assert!(Sections::marked(text).contains("\n%build\n#rocmrpm:section:build\nexport"));
        // The output of rpm 4.18, which lacks `%build`.
        let expanded = "Name: a\n\nVersion: 2\n#rocmrpm:section:build\nexport A=3\nmake\n";
        let sections = Sections::expanded(text, expanded);
        assert_eq!(sections.packages[0].tags[1].line, 6);
        let lines: Vec<_> =
            sections.scripts[0].lines.iter().map(|l| (l.number, l.text.as_str())).collect();
        assert_eq!(lines, [(9, "export A=3"), (10, "make")]);
    }

    #[test]
    fn reads_declared_build_systems_with_any_rpm() {
        let text = "Name: a\nBuildSystem:  cmake\nBuildOption(conf): -DA=1\n%build -p\nexport A=1\n\
                    %build -a\nmake b\n%check -a\nmake c\n%files\n";
        let marked = Sections::marked(text);
        assert_eq!(
            marked,
            "Name: a\n%global __rocmrpm_build_system cmake\n%global __rocmrpm_build_system -DA=1\n\
             %build\n#rocmrpm:section:build\nexport A=1\n%clean\n#rocmrpm:section:build\nmake b\n\
             %check\n#rocmrpm:section:check\nmake c\n%files\n"
        );
        let expanded: String = marked
            .lines()
            .filter(|line| !line.starts_with("%global"))
            .map(|line| format!("{line}\n"))
            .collect();
        let sections = Sections::expanded(text, &expanded);
        let lines: Vec<_> = sections
            .scripts
            .iter()
            .flat_map(|script| script.lines.iter().map(|line| (&*script.section, &*line.text)))
            .collect();
        assert_eq!(lines, [("build", "export A=1"), ("build", "make b"), ("check", "make c")]);
    }

    #[test]
    fn a_package_whose_files_are_in_an_inactive_branch_is_off() {
        let text = "Name: a\n%package test\nRequires: a\n%package lost\n%if 0\n%files test\n%endif\n%files\n";
        let expanded = "Name: a\n%package test\nRequires: a\n%package lost\n%files\n";
        let sections = Sections::expanded(text, expanded);
        let off: Vec<_> = sections.packages.iter().map(|p| (p.name.as_str(), p.off)).collect();
        assert_eq!(off, [("a", false), ("a-test", true), ("a-lost", false)]);
    }

    #[test]
    fn finds_macros_that_may_declare_packages() {
        let text = "Name: a\n%ghc_lib_subpackage x-1\n%install\n%make_install\n%{?other_files}\n\
                    %{pkg_prefix}/bin\n%files\n%package b\n";
        let unknown = Sections::parse(text).unknown;
        let found: Vec<_> = unknown.iter().map(|line| (line.number, line.text.as_str())).collect();
        assert_eq!(found, [(2, "%ghc_lib_subpackage x-1"), (5, "%{?other_files}")]);
    }

    #[test]
    fn parses_hostile_texts() {
        for text in ["", "%files", "%package\n%package -n\n%files -f", "%package \u{0}x\n:\n: :\n"]
        {
            assert!(!Sections::parse(text).packages.is_empty());
            assert!(!Sections::expanded("", text).packages.is_empty());
            assert!(!Sections::expanded(text, "").packages.is_empty());
        }
    }
}
