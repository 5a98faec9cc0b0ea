//! The readers: they turn the text of a file into statements. Whatever a file should state and does not
//! is reported with its line; the readers do not guess.

use std::str::FromStr;

use pep440_rs::{Operator, Version};
use pep508_rs::VersionOrUrl;
use regex::{Captures, Regex};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::{
    Claim, Statement, UpstreamLocation, Weight, cmake, dockerfile, is_commit_like, public,
    repository,
};
use crate::pins::requirements_file;
use crate::style::count;
use crate::text::{line_of, visible};
use crate::wheel::requirement;
use crate::workspace::Upstreams;
use crate::workspace::upstreams::{Fact, Locator, Matches, Reader, States, UpstreamFile};

/// The limit of a pattern's matches in one file.
const MAX_MATCHES: usize = 10_000;

/// One file.
pub(super) struct Reading<'a> {
    /// The declared upstream projects.
    pub upstreams: &'a Upstreams,
    /// The declaration of this file.
    pub file: &'a UpstreamFile,
    /// Returns the place of a line.
    pub place: &'a dyn Fn(usize) -> UpstreamLocation,
    /// The statements.
    pub statements: Vec<Statement>,
    /// The oddities with their lines.
    pub wrong: Vec<(usize, String)>,
}

/// A value for a fact.
struct FoundValue<'t> {
    value: &'t str,
    /// The repository next to it.
    git: Option<&'t str>,
    /// The text for messages.
    written: &'t str,
    line: usize,
}

/// Returns a text for messages and comments: one line of limited length.
fn shortened(text: &str) -> String {
    let line: String = text.trim().chars().take(120).collect();
    visible(&line)
}

/// Returns the version of ROCm in a local label: `2.12.0+rocm7.14.0`. Labels without dots,
/// such as `rocm72`, are ambiguous.
fn rocm_label(version: &str) -> Option<String> {
    let (_, label) = version.split_once('+')?;
    let (_, rest) = label.split_once("rocm")?;
    dotted(rest)
}

/// Returns the dotted number at the start of a text.
fn dotted(text: &str) -> Option<String> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let number = text[..end].trim_matches('.');
    number.contains('.').then(|| number.to_owned())
}

/// Returns the line around a position, trimmed.
fn line_around(text: &str, at: usize) -> &str {
    let start = text[..at].rfind('\n').map_or(0, |end| end + 1);
    text[start..].lines().next().unwrap_or_default().trim()
}

fn elements(list: &str) -> Vec<String> {
    list.split(';').map(str::trim).filter(|part| !part.is_empty()).map(str::to_owned).collect()
}

impl Reading<'_> {
    /// Reads the file.
    pub fn read(&mut self, text: &str) {
        match &self.file.reader {
            Reader::Requirements => self.requirements(text),
            Reader::Toml => self.toml(text),
            Reader::Cmake { given } => match cmake::commands(text) {
                Ok(commands) => self.cmake(&cmake::evaluate(&commands, given)),
                Err((line, wrong)) => self.wrong(line, wrong),
            },
            Reader::Dockerfile => self.dockerfile(text),
            Reader::Regex => {
                for fact in &self.file.facts {
                    if let Locator::Pattern { regex, matches, .. } = &fact.locator {
                        self.pattern(fact, regex, *matches, text);
                    }
                }
            }
        }
    }

    fn say(&mut self, about: &str, claim: Claim, written: &str, line: usize) {
        let weight = if self.file.example { Weight::Example } else { Weight::Demand };
        let written = shortened(written);
        let place = (self.place)(line);
        self.statements.push(Statement { about: about.to_owned(), claim, written, place, weight });
    }

    fn wrong(&mut self, line: usize, wrong: impl Into<String>) {
        self.wrong.push((line, wrong.into()));
    }

    /// Records what a fact's value states.
    fn state(&mut self, fact: &Fact, about: &str, found: &FoundValue<'_>) {
        let FoundValue { value, git, written, line } = *found;
        let git = git.map(|url| repository(url).to_owned());
        let claim = match fact.states {
            States::Version => return self.version(about, value, written, line),
            States::Revision | States::Commit if is_commit_like(value) => {
                Claim::Commit { git, commit: value.to_ascii_lowercase() }
            }
            States::Revision => Claim::Tag { git, tag: value.to_owned() },
            States::Commit => {
                return self.wrong(line, format!("`{}` is not a commit", shortened(value)));
            }
            States::Python => Claim::Python(value.to_owned()),
            States::Pythons => Claim::Pythons(elements(value)),
            States::GpuTargets => Claim::Targets(elements(value)),
            States::Rocm => {
                let release = |name: &String| dotted(name.strip_prefix("rocm").unwrap_or(name));
                Claim::Rocm(elements(value).iter().filter_map(release).collect())
            }
            States::Rust => Claim::Rust(value.to_owned()),
            // Lists of a TOML file, which `toml_value` reads.
            States::Requirements | States::Crates => return,
        };
        let about = if fact.states == States::Rocm { "rocm" } else { about };
        self.say(about, claim, written, line);
    }

    /// Records a version, and the ROCm in its label.
    fn version(&mut self, about: &str, version: &str, written: &str, line: usize) {
        if Version::from_str(version).is_ok() || crate::names::is_version(public(version)) {
            self.say(about, Claim::Version(public(version).to_owned()), written, line);
            if let Some(rocm) = rocm_label(version) {
                self.say("rocm", Claim::BuiltWithRocm(rocm), written, line);
            }
        } else {
            self.wrong(line, format!("`{}` is not a version", shortened(version)));
        }
    }

    /// Reads one requirement and returns the component that it is about.
    fn requirement(&mut self, line: &str, number: usize) -> Result<Option<String>, String> {
        let wanted = requirement(line)?;
        let Some(about) = self.upstreams.component_of_project(wanted.name.as_ref()) else {
            return Ok(None);
        };
        let about = about.to_owned();
        match &wanted.version_or_url {
            Some(VersionOrUrl::VersionSpecifier(specifiers)) => match &specifiers[..] {
                [only] if *only.operator() == Operator::Equal => {
                    self.version(&about, &only.version().to_string(), line, number);
                }
                _ => self.say(&about, Claim::Requires(specifiers.to_string()), line, number),
            },
            Some(VersionOrUrl::Url(url)) => {
                self.wrong(
                    number,
                    format!("`{about}` comes from a URL, {}", shortened(&url.to_string())),
                );
            }
            None => {}
        }
        Ok(Some(about))
    }

    /// Reads a requirements file. The only option of pip that matters is an index URL, which can
    /// contain a release of ROCm.
    fn requirements(&mut self, text: &str) {
        let mut named = false;
        for (number, line) in requirements_file::lines(text) {
            if requirements_file::is_option(line) {
                let rocm = line.split_once("/rocm").and_then(|(_, rest)| dotted(rest));
                if let Some(rocm) = rocm.filter(|_| line.contains("index-url")) {
                    self.say("rocm", Claim::BuiltWithRocm(rocm), line, number);
                }
                continue;
            }
            match self.requirement(line, number) {
                Ok(about) => named |= about.is_some_and(|about| self.file.about.contains(&about)),
                Err(reason) => self.wrong(number, reason),
            }
        }
        if !named && self.wrong.is_empty() && !self.file.about.is_empty() {
            self.wrong(0, format!("it names none of {}", self.file.about.join(", ")));
        }
    }

    fn toml(&mut self, text: &str) {
        let root = match DeTable::parse(text) {
            Ok(root) => root,
            Err(error) => {
                let line = error.span().map_or(0, |span| line_of(text, span.start));
                return self.wrong(
                    line,
                    format!("this is not valid TOML: {}", shortened(error.message())),
                );
            }
        };
        for fact in &self.file.facts {
            let Locator::Key(key) = &fact.locator else { continue };
            match lookup(root.get_ref(), key) {
                Some(value) => self.toml_value(fact, key, value, text),
                None if fact.optional => {}
                None => self.wrong(0, format!("it has no `{}`", key.join("."))),
            }
        }
    }

    fn toml_value(
        &mut self,
        fact: &Fact,
        key: &[String],
        value: &Spanned<DeValue<'_>>,
        text: &str,
    ) {
        let line = line_of(text, value.span().start);
        let shown = key.join(".");
        match (fact.states, value.get_ref()) {
            (States::Crates, DeValue::Array(packages)) => {
                let written = count(packages.len(), "crate");
                self.say(&fact.about, Claim::Crates(packages.len()), &written, 0);
            }
            (States::Requirements, DeValue::Array(items)) => {
                let mut named = false;
                for item in items.iter() {
                    let line = line_of(text, item.span().start);
                    let read = match item.get_ref().as_str() {
                        Some(wanted) => self.requirement(wanted, line),
                        None => Err("a requirement is not a string".into()),
                    };
                    match read {
                        Ok(about) => named |= about.as_deref() == Some(&fact.about),
                        Err(reason) => self.wrong(line, reason),
                    }
                }
                if !named && !fact.optional {
                    self.wrong(0, format!("its `{shown}` does not name {}", fact.about));
                }
            }
            (States::Crates | States::Requirements, _) => {
                self.wrong(line, format!("`{shown}` is not a list"))
            }
            (_, DeValue::String(string)) => {
                let written = line_around(text, value.span().start);
                self.state(
                    fact,
                    &fact.about,
                    &FoundValue { value: string, git: None, written, line },
                );
            }
            _ => self.wrong(line, format!("`{shown}` is not a string")),
        }
    }

    fn cmake(&mut self, evaluated: &cmake::Evaluated) {
        for fact in &self.file.facts {
            match &fact.locator {
                Locator::Variable(name) => match evaluated.variables.get(name) {
                    Some(value) if value.text.contains('$') && fact.optional => {}
                    Some(value) => self.cmake_value(fact, name, value, None),
                    None if fact.optional => {}
                    None => self.wrong(0, format!("it does not set {name}")),
                },
                Locator::Content(name) => {
                    let content = evaluated.contents.get(name);
                    let git = content.and_then(|content| content.get("GIT_REPOSITORY"));
                    let git = git.map(|value| value.text.as_str()).filter(|url| !url.contains('$'));
                    match content.and_then(|content| content.get("GIT_TAG")) {
                        Some(tag) => self.cmake_value(fact, "GIT_TAG", tag, git),
                        None if fact.optional => {}
                        None => {
                            self.wrong(
                                0,
                                format!("it has no FetchContent_Declare({name}) with a GIT_TAG"),
                            );
                        }
                    }
                }
                _ => {}
            }
        }
    }

    fn cmake_value(&mut self, fact: &Fact, name: &str, value: &cmake::Value, git: Option<&str>) {
        let is_list = matches!(fact.states, States::Pythons | States::GpuTargets | States::Rocm);
        if value.text.is_empty()
            || value.text.contains('$')
            || (!is_list && value.text.contains(';'))
        {
            let message = format!("the value of {name}, `{}`, is unknown", shortened(&value.text));
            return self.wrong(value.line, message);
        }
        let written = format!("{name} {}", value.text);
        let found = FoundValue { value: &value.text, git, written: &written, line: value.line };
        self.state(fact, &fact.about, &found);
    }

    fn dockerfile(&mut self, text: &str) {
        let args = dockerfile::args(text);
        for arg in &args {
            let named = |fact: &&Fact| matches!(&fact.locator, Locator::Arg { name, .. } if name == arg.name);
            let Some(fact) = self.file.facts.iter().find(named) else { continue };
            if arg.value.is_empty() || arg.value.contains('$') {
                continue;
            }
            let Locator::Arg { git, .. } = &fact.locator else { continue };
            let git = git.as_ref().and_then(|git| args.iter().find(|arg| arg.name == git));
            let written = format!("{}={}", arg.name, arg.value);
            let git = git.map(|arg| arg.value);
            self.state(
                fact,
                &fact.about,
                &FoundValue { value: arg.value, git, written: &written, line: arg.line },
            );
        }
        if self.statements.is_empty() && self.wrong.is_empty() {
            self.wrong(0, "it has none of the ARGs that other versions have");
        }
    }

    fn pattern(&mut self, fact: &Fact, regex: &Regex, matches: Matches, text: &str) {
        let all: Vec<Captures<'_>> = regex.captures_iter(text).take(MAX_MATCHES).collect();
        let (expected, fits) = match matches {
            Matches::Exactly(number) => (number.to_string(), all.len() == number),
            Matches::AtLeast(number) => (format!("at least {number}"), all.len() >= number),
        };
        if !fits {
            if !(fact.optional && all.is_empty()) {
                let times = count(all.len(), "time");
                let message =
                    format!("its pattern matches {times}, expected {expected} ({})", fact.declared);
                self.wrong(0, message);
            }
            return;
        }
        let mut stated: Vec<(String, String)> = Vec::new();
        for captures in &all {
            let about = match captures.name("project") {
                Some(project) => self.upstreams.component_of_project(project.as_str().trim()),
                None => Some(fact.about.as_str()),
            };
            let Some(about) = about.map(str::to_owned) else { continue };
            let Some((value, at)) = value(captures) else {
                self.wrong(0, format!("its pattern matches without a value ({})", fact.declared));
                continue;
            };
            // A value can be stated once per operating system.
            let statement = (about, value);
            if stated.contains(&statement) {
                continue;
            }
            let git = captures.name("git").map(|git| git.as_str().trim());
            let (written, line) = (line_around(text, at), line_of(text, at));
            self.state(fact, &statement.0, &FoundValue { value: &statement.1, git, written, line });
            stated.push(statement);
        }
    }
}

/// Returns the value of a match and its position: the group `value`, or the range from Python
/// `oldest` to Python `newest`.
fn value(captures: &Captures<'_>) -> Option<(String, usize)> {
    if let Some(value) = captures.name("value") {
        return Some((value.as_str().trim().to_owned(), value.start()));
    }
    let (oldest, newest) = (captures.name("oldest")?, captures.name("newest")?);
    let (major, minor) = pair(oldest.as_str())?;
    let (last_major, last) = pair(newest.as_str())?;
    Some((format!(">={major}.{minor}, <{last_major}.{}", last.saturating_add(1)), newest.start()))
}

/// Reads `3.10` and `3, 10`.
fn pair(value: &str) -> Option<(u32, u32)> {
    let (major, minor) = value.split_once([',', '.'])?;
    Some((major.trim().parse().ok()?, minor.trim().parse().ok()?))
}

/// Returns the value of a key below tables.
fn lookup<'d>(table: &'d DeTable<'d>, key: &[String]) -> Option<&'d Spanned<DeValue<'d>>> {
    let (first, rest) = key.split_first()?;
    let (_, value) = table.iter().find(|(name, _)| name.get_ref() == first.as_str())?;
    if rest.is_empty() { Some(value) } else { lookup(value.get_ref().as_table()?, rest) }
}
