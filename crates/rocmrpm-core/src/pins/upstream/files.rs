//! One reader a file of upstream's: text in, statements out. A reader tells when a file does
//! not have what it has in every version known; it never guesses.

use std::str::FromStr;

use pep440_rs::{Operator, Version};
use pep508_rs::VersionOrUrl;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::cmake::{self, Evaluated};
use super::{Place, Says, Statement, Weight, is_commit_like, public, repository};
use crate::pins::requirements_file;
use crate::text::visible;
use crate::wheel::requirement;

/// What a reader is.
pub(super) type Reader = fn(&str, &mut Reading<'_>);

/// Where a reader puts what it finds.
pub(super) struct Reading<'a> {
    /// The component whose file it is.
    pub component: &'a str,
    /// Makes a place of a line.
    pub place: &'a dyn Fn(usize) -> Place,
    /// What was found.
    pub statements: Vec<Statement>,
    /// What is wrong, with its line.
    pub wrong: Vec<(usize, String)>,
}

impl Reading<'_> {
    fn say(&mut self, about: &str, says: Says, written: &str, line: usize, weight: Weight) {
        let written = shortened(written);
        let place = (self.place)(line);
        self.statements.push(Statement { about: about.to_owned(), says, written, place, weight });
    }

    fn demand(&mut self, about: &str, says: Says, written: &str, line: usize) {
        self.say(about, says, written, line, Weight::Demand);
    }

    fn wrong(&mut self, line: usize, wrong: impl Into<String>) {
        self.wrong.push((line, wrong.into()));
    }

    /// Says a version; what cannot be one is wrong.
    fn version(&mut self, about: &str, version: &str, written: &str, line: usize, weight: Weight) {
        if Version::from_str(version).is_ok() || crate::names::is_version(public(version)) {
            self.say(about, Says::Version(public(version).to_owned()), written, line, weight);
            if let Some(rocm) = rocm_label(version) {
                self.say("rocm", Says::Rocm(vec![rocm]), written, line, weight);
            }
        } else {
            self.wrong(line, format!("`{}` is not a version", shortened(version)));
        }
    }
}

/// Returns a text for messages and comments: one line, not too long.
fn shortened(text: &str) -> String {
    let line: String = text.trim().chars().take(120).collect();
    visible(&line)
}

/// Returns the version of ROCm in a local label: `2.12.0+rocm7.14.0`. Labels without dots,
/// such as `rocm72`, are ambiguous and say nothing.
fn rocm_label(version: &str) -> Option<String> {
    let (_, label) = version.split_once('+')?;
    let (_, rest) = label.split_once("rocm")?;
    dotted(rest)
}

/// Returns the dotted number that a text begins with.
fn dotted(text: &str) -> Option<String> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let number = text[..end].trim_matches('.');
    number.contains('.').then(|| number.to_owned())
}

/// Returns the component that a project on an index is.
fn component_of(project: &str) -> Option<&str> {
    match project {
        "amd-aiter" => Some("aiter"),
        "mori" | "amd-mori" => Some("mori"),
        "torch" | "torchvision" | "torchaudio" | "triton" | "amdsmi" | "flash-attn" | "triton-kernels" => {
            Some(project)
        }
        _ => None,
    }
}

/// Returns a line's number.
fn line_of(text: &str, at: usize) -> usize {
    text.get(..at).unwrap_or(text).matches('\n').count() + 1
}

/// Reads one requirement if it is about a component.
fn read_requirement(line: &str, number: usize, reading: &mut Reading<'_>) -> Result<bool, String> {
    let wanted = requirement(line)?;
    let name = wanted.name.to_string();
    let Some(about) = component_of(&name) else { return Ok(false) };
    match &wanted.version_or_url {
        Some(VersionOrUrl::VersionSpecifier(specifiers)) => {
            let exact = match &specifiers[..] {
                [only] if *only.operator() == Operator::Equal => Some(only.version().to_string()),
                _ => None,
            };
            match exact {
                Some(version) => reading.version(about, &version, line, number, Weight::Demand),
                None => reading.demand(about, Says::Requires(specifiers.to_string()), line, number),
            }
        }
        Some(VersionOrUrl::Url(url)) => {
            reading.wrong(number, format!("`{about}` comes from a URL, {}", shortened(&url.to_string())));
        }
        None => {}
    }
    Ok(true)
}

/// Reads requirements files. The options of pip are passed over, but for an index that has
/// ROCm's version in its URL.
fn read_requirements(text: &str, reading: &mut Reading<'_>) -> usize {
    let mut about_us = 0;
    for (number, line) in requirements_file::lines(text) {
        if requirements_file::is_option(line) {
            let rocm = line.split_once("/rocm").and_then(|(_, rest)| dotted(rest));
            if let Some(rocm) = rocm.filter(|_| line.contains("index-url")) {
                reading.demand("rocm", Says::Rocm(vec![rocm]), line, number);
            }
            continue;
        }
        match read_requirement(line, number, reading) {
            Ok(ours) => about_us += usize::from(ours),
            Err(reason) => reading.wrong(number, reason),
        }
    }
    about_us
}

/// Reads what vLLM needs to be built on ROCm.
pub(super) fn requirements(text: &str, reading: &mut Reading<'_>) {
    if read_requirements(text, reading) == 0 && reading.wrong.is_empty() {
        reading.wrong(0, "it names none of torch, torchvision, torchaudio, triton, amdsmi");
    }
}

/// Reads requirements files that need not name a component.
pub(super) fn mentions(text: &str, reading: &mut Reading<'_>) {
    read_requirements(text, reading);
}

/// Reads `pyproject.toml`: the Pythons, and torch among the requirements of the build.
pub(super) fn pyproject(text: &str, reading: &mut Reading<'_>) {
    let Some(root) = parsed(text, reading) else { return };
    let root = root.get_ref();
    match key(root, "project").and_then(|project| key(project, "requires-python")?.as_str_at()) {
        Some((python, at)) => {
            let written = format!("requires-python = \"{python}\"");
            let (name, line) = (reading.component.to_owned(), line_of(text, at));
            reading.demand(&name, Says::Python(python.to_owned()), &written, line);
        }
        None => reading.wrong(0, "it has no `requires-python` in `[project]`"),
    }
    if reading.component != "vllm" {
        return;
    }
    let requires = key(root, "build-system").and_then(|table| key(table, "requires"));
    let Some(requires) = requires.and_then(|value| value.get_ref().as_array()) else {
        return reading.wrong(0, "it has no list `requires` in `[build-system]`");
    };
    let before = reading.statements.len();
    for item in requires.iter() {
        let line = line_of(text, item.span().start);
        match item.get_ref().as_str() {
            Some(wanted) => {
                if let Err(reason) = read_requirement(wanted, line, reading) {
                    reading.wrong(line, reason);
                }
            }
            None => reading.wrong(line, "a requirement is not a string"),
        }
    }
    if !reading.statements[before..].iter().any(|statement| statement.about == "torch") {
        reading.wrong(0, "its build does not require torch");
    }
}

/// A TOML value looked up by key, whether it is the root or below it.
trait Lookup<'d> {
    fn table(&'d self) -> Option<&'d DeTable<'d>>;
}

impl<'d> Lookup<'d> for DeTable<'d> {
    fn table(&'d self) -> Option<&'d DeTable<'d>> {
        Some(self)
    }
}

impl<'d> Lookup<'d> for Spanned<DeValue<'d>> {
    fn table(&'d self) -> Option<&'d DeTable<'d>> {
        self.get_ref().as_table()
    }
}

fn key<'d>(of: &'d impl Lookup<'d>, name: &str) -> Option<&'d Spanned<DeValue<'d>>> {
    of.table()?.iter().find(|(key, _)| key.get_ref() == name).map(|(_, value)| value)
}

trait TextAt {
    fn as_str_at(&self) -> Option<(&str, usize)>;
}

impl TextAt for Spanned<DeValue<'_>> {
    fn as_str_at(&self) -> Option<(&str, usize)> {
        Some((self.get_ref().as_str()?, self.span().start))
    }
}

fn parsed<'t>(text: &'t str, reading: &mut Reading<'_>) -> Option<Spanned<DeTable<'t>>> {
    match DeTable::parse(text) {
        Ok(root) => Some(root),
        Err(error) => {
            let line = error.span().map_or(0, |span| line_of(text, span.start));
            reading.wrong(line, format!("this is not valid TOML: {}", shortened(error.message())));
            None
        }
    }
}

/// Reads a CMake file.
fn evaluated(text: &str, reading: &mut Reading<'_>) -> Option<Evaluated> {
    match cmake::commands(text) {
        Ok(commands) => Some(cmake::evaluate(&commands)),
        Err((line, wrong)) => {
            reading.wrong(line, wrong);
            None
        }
    }
}

fn elements(list: &str) -> Vec<String> {
    list.split(';').map(str::trim).filter(|part| !part.is_empty()).map(str::to_owned).collect()
}

/// Reads vLLM's `CMakeLists.txt`.
pub(super) fn vllm_cmake(text: &str, reading: &mut Reading<'_>) {
    let Some(found) = evaluated(text, reading) else { return };
    let mut value = |name: &str| {
        let value = found.variables.get(name).cloned();
        if value.is_none() {
            reading.wrong(0, format!("it does not set {name}"));
        }
        value.map(|value| (format!("{name} {}", value.text), value))
    };
    let (pythons, targets, torch) = (
        value("PYTHON_SUPPORTED_VERSIONS"),
        value("HIP_SUPPORTED_ARCHS"),
        value("TORCH_SUPPORTED_VERSION_ROCM"),
    );
    if let Some((written, value)) = pythons {
        reading.demand("vllm", Says::Pythons(elements(&value.text)), &written, value.line);
    }
    if let Some((written, value)) = targets {
        reading.demand("vllm", Says::Targets(elements(&value.text)), &written, value.line);
    }
    if let Some((written, value)) = torch {
        reading.version("torch", &value.text, &written, value.line, Weight::Demand);
    }
}

/// Says which commit or tag of a repository is wanted.
fn say_reference(
    about: &str,
    git: Option<&str>,
    reference: &str,
    (written, line, weight): (&str, usize, Weight),
    reading: &mut Reading<'_>,
) {
    let git = git.map(|url| repository(url).to_owned());
    let says = if is_commit_like(reference) {
        Says::Commit { git, commit: reference.to_ascii_lowercase() }
    } else {
        Says::Tag { git, tag: reference.to_owned() }
    };
    reading.say(about, says, written, line, weight);
}

/// Reads where vLLM fetches triton_kernels from.
pub(super) fn triton_kernels(text: &str, reading: &mut Reading<'_>) {
    let Some(found) = evaluated(text, reading) else { return };
    let content = found.contents.get("triton_kernels");
    let git = content.and_then(|content| content.get("GIT_REPOSITORY"));
    let Some(tag) = content.and_then(|content| content.get("GIT_TAG")) else {
        return reading.wrong(0, "it has no FetchContent_Declare(triton_kernels) with a GIT_TAG");
    };
    if tag.text.is_empty() || tag.text.contains(['$', ';']) {
        return reading.wrong(tag.line, format!("its GIT_TAG, `{}`, is not known", shortened(&tag.text)));
    }
    let git = git.map(|value| value.text.as_str()).filter(|url| !url.contains('$'));
    let written = format!("GIT_TAG {}", tag.text);
    say_reference("triton-kernels", git, &tag.text, (&written, tag.line, Weight::Demand), reading);
}

/// Reads which AOTriton torch takes, and for which ROCm there are builds of it.
pub(super) fn aotriton(text: &str, reading: &mut Reading<'_>) {
    let Some(found) = evaluated(text, reading) else { return };
    let literal = |name: &str| found.variables.get(name).filter(|value| !value.text.contains('$'));
    match literal("__AOTRITON_VER") {
        Some(value) if crate::names::is_version(&value.text) => {
            let written = format!("__AOTRITON_VER {}", value.text);
            reading.demand("aotriton", Says::Version(value.text.clone()), &written, value.line);
        }
        Some(value) => reading.wrong(value.line, format!("`{}` is not a version", shortened(&value.text))),
        None => reading.wrong(0, "it does not set __AOTRITON_VER"),
    }
    if let Some(value) = literal("__AOTRITON_CI_COMMIT").filter(|value| is_commit_like(&value.text)) {
        let says = Says::Commit { git: None, commit: value.text.to_ascii_lowercase() };
        reading.demand("aotriton", says, &format!("__AOTRITON_CI_COMMIT {}", value.text), value.line);
    }
    if let Some(value) = literal("__AOTRITON_ROCM_LIST") {
        let list = elements(&value.text);
        let versions = list.iter().filter_map(|name| dotted(name.strip_prefix("rocm")?)).collect();
        let written = format!("__AOTRITON_ROCM_LIST {}", value.text);
        reading.demand("rocm", Says::Rocm(versions), &written, value.line);
    }
}

/// The ARGs of `Dockerfile.rocm_base` with the component that they are about; a repository's
/// ARG ends with `_REPO` where its reference's ends with `_BRANCH`.
const ARGS: &[(&str, &str)] = &[
    ("TORCH_VERSION", "torch"),
    ("TORCHVISION_VERSION", "torchvision"),
    ("TORCHAUDIO_VERSION", "torchaudio"),
    ("TRITON_VERSION", "triton"),
    ("PYTORCH_BRANCH", "torch"),
    ("PYTORCH_VISION_BRANCH", "torchvision"),
    ("PYTORCH_AUDIO_BRANCH", "torchaudio"),
    ("TRITON_BRANCH", "triton"),
    ("FA_BRANCH", "flash-attn"),
    ("AITER_BRANCH", "aiter"),
    ("MORI_BRANCH", "mori"),
    ("ROCM_SDK_VERSION", "rocm"),
];

/// Reads the default of each ARG: name, value, line. Source: Dockerfile reference, "ARG".
fn docker_args(text: &str) -> Vec<(&str, &str, usize)> {
    let mut args = Vec::new();
    let mut goes_on = false;
    for (at, line) in text.lines().enumerate() {
        let inside = goes_on;
        goes_on = line.trim_end().ends_with('\\');
        let Some((word, rest)) = line.trim_start().split_once(char::is_whitespace) else { continue };
        if inside || !word.eq_ignore_ascii_case("ARG") {
            continue;
        }
        let Some((name, value)) = rest.trim_start().split_once('=') else { continue };
        let value = match value.strip_prefix(['"', '\'']) {
            Some(quoted) => quoted.split(['"', '\'']).next(),
            None => value.split_whitespace().next(),
        };
        args.push((name, value.unwrap_or_default(), at + 1));
    }
    args
}

/// Reads `Dockerfile.rocm_base`: what upstream's image is made of.
pub(super) fn dockerfile(text: &str, reading: &mut Reading<'_>) {
    let args = docker_args(text);
    for (name, value, line) in &args {
        let Some((_, about)) = ARGS.iter().find(|(known, _)| known == name) else { continue };
        let written = format!("{name}={value}");
        let value = *value;
        if value.is_empty() || value.contains('$') {
            continue;
        }
        if *about == "rocm" {
            reading.say("rocm", Says::Rocm(vec![value.to_owned()]), &written, *line, Weight::Example);
        } else if name.ends_with("_VERSION") {
            reading.version(about, value, &written, *line, Weight::Example);
        } else {
            let repo = name.replace("_BRANCH", "_REPO");
            let git = args.iter().find(|(name, ..)| *name == repo).map(|(_, url, _)| *url);
            say_reference(about, git, value, (&written, *line, Weight::Example), reading);
        }
    }
    if reading.statements.is_empty() {
        reading.wrong(0, "none of its ARGs names a component");
    }
}

/// Reads vLLM's crates.
pub(super) fn cargo_lock(text: &str, reading: &mut Reading<'_>) {
    let Some(root) = parsed(text, reading) else { return };
    match key(root.get_ref(), "package").and_then(|value| value.get_ref().as_array()) {
        Some(packages) => {
            let count = packages.len();
            reading.demand("vllm", Says::Crates(count), &format!("{count} crates"), 0);
        }
        None => reading.wrong(0, "it has no `[[package]]`"),
    }
}

/// Reads vLLM's Rust.
pub(super) fn rust_toolchain(text: &str, reading: &mut Reading<'_>) {
    let Some(root) = parsed(text, reading) else { return };
    let channel = key(root.get_ref(), "toolchain").and_then(|table| key(table, "channel")?.as_str_at());
    match channel {
        Some((channel, at)) => {
            let written = format!("channel = \"{channel}\"");
            reading.demand("vllm", Says::Rust(channel.to_owned()), &written, line_of(text, at));
        }
        None => reading.wrong(0, "it has no `channel` in `[toolchain]`"),
    }
}

/// Returns the only word of a file.
fn only_word<'t>(text: &'t str, reading: &mut Reading<'_>) -> Option<&'t str> {
    let mut words = text.split_whitespace();
    match (words.next(), words.next()) {
        (Some(word), None) => Some(word),
        _ => {
            reading.wrong(0, "it should be one word");
            None
        }
    }
}

/// Reads torch's own version: releases have `2.14.0a0`, so only the release counts.
pub(super) fn torch_version(text: &str, reading: &mut Reading<'_>) {
    let Some(word) = only_word(text, reading) else { return };
    match Version::from_str(word) {
        Ok(version) => {
            let release: Vec<String> = version.release().iter().map(ToString::to_string).collect();
            reading.say("torch", Says::Version(release.join(".")), word, 1, Weight::Example);
        }
        Err(_) => reading.wrong(1, format!("`{}` is not a version", shortened(word))),
    }
}

/// Reads which Triton torch takes.
pub(super) fn triton_version(text: &str, reading: &mut Reading<'_>) {
    if let Some(word) = only_word(text, reading) {
        reading.version("triton", word, word, 1, Weight::Demand);
    }
}

fn commit_file(text: &str, about: &str, reading: &mut Reading<'_>) {
    let Some(word) = only_word(text, reading) else { return };
    if is_commit_like(word) {
        let says = Says::Commit { git: None, commit: word.to_ascii_lowercase() };
        reading.say(about, says, word, 1, Weight::Example);
    } else {
        reading.wrong(1, format!("`{}` is not a commit", shortened(word)));
    }
}

/// Reads the commit of Triton that torch's tests take.
pub(super) fn triton_commit(text: &str, reading: &mut Reading<'_>) {
    commit_file(text, "triton", reading);
}

/// Reads the commit of torchvision that torch's tests take.
pub(super) fn vision_commit(text: &str, reading: &mut Reading<'_>) {
    commit_file(text, "torchvision", reading);
}

/// Reads the commit of torchaudio that torch's tests take.
pub(super) fn audio_commit(text: &str, reading: &mut Reading<'_>) {
    commit_file(text, "torchaudio", reading);
}

/// Reads ROCm's fork: `os|source|project|branch|commit|origin` on each line, where one
/// project stands once an os.
pub(super) fn related_commits(text: &str, reading: &mut Reading<'_>) {
    let mut said: Vec<(String, String)> = Vec::new();
    for (at, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let fields: Vec<&str> = line.split('|').map(str::trim).collect();
        let [_, _, project, _, commit, origin] = fields[..] else {
            reading.wrong(at + 1, format!("it has {} fields instead of 6", fields.len()));
            continue;
        };
        if !is_commit_like(commit) || commit.len() < 40 {
            reading.wrong(at + 1, format!("`{}` is not a full commit", shortened(commit)));
            continue;
        }
        let again = said.iter().any(|(name, id)| name == project && id == commit);
        if let (Some(about @ ("torchvision" | "torchaudio")), false) = (component_of(project), again) {
            said.push((project.to_owned(), commit.to_owned()));
            let git = Some(repository(origin).to_owned());
            let says = Says::Commit { git, commit: commit.to_ascii_lowercase() };
            reading.demand(about, says, line, at + 1);
        }
    }
}

/// Reads Triton's `setup.py`: its version and its Pythons, which stand there as constants.
pub(super) fn triton_setup(text: &str, reading: &mut Reading<'_>) {
    let constant = |name: &str| {
        text.lines().enumerate().find_map(|(at, line)| {
            let value = line.strip_prefix(name)?.trim_start().strip_prefix('=')?.trim_start();
            Some((value, line, at + 1))
        })
    };
    match constant("TRITON_VERSION").and_then(|(value, line, at)| Some((quoted(value)?, line, at))) {
        Some((version, line, at)) => reading.version("triton", version, line, at, Weight::Demand),
        None => reading.wrong(0, "it has no TRITON_VERSION"),
    }
    let (min, max) = (constant("MIN_PYTHON"), constant("MAX_PYTHON"));
    match (
        min.and_then(|(value, ..)| pair(value)),
        max.and_then(|(value, line, at)| Some((pair(value)?, line, at))),
    ) {
        (Some((major, minor)), Some(((last_major, last), line, at))) => {
            let range = format!(">={major}.{minor}, <{last_major}.{}", last.saturating_add(1));
            reading.demand("triton", Says::Python(range), line, at);
        }
        _ => reading.wrong(0, "it has no MIN_PYTHON and MAX_PYTHON that are pairs of numbers"),
    }
}

/// Returns the text in the quotes that a value begins with.
fn quoted(value: &str) -> Option<&str> {
    let rest = value.strip_prefix(['"', '\''])?;
    rest.split(['"', '\'']).next()
}

/// Reads `(3, 10)`.
fn pair(value: &str) -> Option<(u32, u32)> {
    let (inner, _) = value.strip_prefix('(')?.split_once(')')?;
    let (major, minor) = inner.split_once(',')?;
    Some((major.trim().parse().ok()?, minor.trim().parse().ok()?))
}

fn llvm(commit: &str, line: usize, reading: &mut Reading<'_>) {
    if is_commit_like(commit) && commit.len() >= 40 {
        // The file does not say of which repository.
        let says = Says::Commit { git: None, commit: commit.to_ascii_lowercase() };
        reading.demand("llvm", says, commit, line);
    } else {
        reading.wrong(line, format!("`{}` is not a full commit", shortened(commit)));
    }
}

/// Reads Triton's LLVM as it was written down first.
pub(super) fn llvm_hash(text: &str, reading: &mut Reading<'_>) {
    if let Some(word) = only_word(text, reading) {
        llvm(word, 1, reading);
    }
}

/// Reads Triton's LLVM as newer trees write it down.
pub(super) fn llvm_info(text: &str, reading: &mut Reading<'_>) {
    let json: Result<serde_json::Value, _> = serde_json::from_str(text);
    match json.as_ref().map(|json| json.get("llvm_hash").and_then(serde_json::Value::as_str)) {
        Ok(Some(commit)) => llvm(commit, text.find(commit).map_or(0, |at| line_of(text, at)), reading),
        Ok(None) => reading.wrong(0, "it has no `llvm_hash`"),
        Err(error) => {
            reading.wrong(error.line(), format!("this is not JSON: {}", shortened(&error.to_string())))
        }
    }
}
