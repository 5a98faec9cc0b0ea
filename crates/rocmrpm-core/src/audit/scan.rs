//! Finds the build scripts of a prepared source: the entry points of a build, and the scripts that
//! these refer to. It does not decide whether a download is satisfied.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io::Read;
use std::path::Path;

use super::find::{FoundDownload, code, points, runs_make};
use super::messages::without_messages;
use super::table::TABLE;
use crate::error::{Error, IoError};
use crate::process::check_stop;

/// Larger files are not hand-written scripts; they are reported, not read.
const LARGEST: u64 = 8_000_000;

/// What a scan found.
#[derive(Debug, Default)]
pub struct Scan {
    /// The download points in build scripts, with their files.
    pub points: Vec<(String, FoundDownload)>,
    /// The number of build scripts that were read.
    pub read: usize,
    /// The number of points in files that the build does not read.
    pub passed_over: usize,
    /// Build scripts that were not read: too large, or not text.
    pub unread: Vec<String>,
}

/// Scans a source. `spec` is the file name and the text of the spec, which counts as a script.
/// Without a spec, every entry point counts, because the build may run each of them.
pub fn scan(root: &Path, spec: Option<(&str, &str)>) -> Result<Scan, Error> {
    let files = files(root)?;
    let mut scan = Scan::default();
    let roots =
        files.iter().filter(|file| TABLE.is_root(base(file)) && !TABLE.is_passed_over(file));
    let (waiting, roots): (Vec<&String>, Vec<&String>) = roots.partition(|file| {
        spec.is_some() && (TABLE.is_make_root(base(file)) || TABLE.named_only(file).is_some())
    });
    let mut waiting = Waiting { files: waiting, make: false, named: BTreeSet::new() };
    let mut queue: VecDeque<Script<'_>> =
        roots.into_iter().map(|file| Script { file, imports: true }).collect();
    let mut seen: BTreeSet<&str> = queue.iter().map(|script| script.file).collect();
    let index = Index::new(&files);
    if let Some((file, text)) = spec {
        index.named(Script { file, imports: false }, text, &mut seen, &mut queue);
        waiting.read(file, text);
        scan.points.extend(points(file, text).into_iter().map(|found| (file.to_owned(), found)));
    }
    loop {
        while let Some(script) = queue.pop_front() {
            check_stop()?;
            let file = script.file;
            let Some(text) = read(root, file)? else {
                scan.unread.push(file.to_owned());
                continue;
            };
            scan.read += 1;
            scan.points.extend(
                points(base(file), &text).into_iter().map(|found| (file.to_owned(), found)),
            );
            waiting.read(file, &text);
            index.named(script, &text, &mut seen, &mut queue);
        }
        let reached = waiting.reached();
        if reached.is_empty() {
            break;
        }
        let new = reached.into_iter().filter(|file| seen.insert(file));
        queue.extend(new.map(|file| Script { file, imports: true }));
    }
    for file in &files {
        let script = TABLE.is_root(base(file))
            || TABLE.is_passed_over(file) && TABLE.language(base(file)).is_some();
        if script && !seen.contains(file.as_str()) {
            check_stop()?;
            scan.passed_over += read(root, file)?.map_or(0, |text| points(base(file), &text).len());
        }
    }
    scan.points.sort_by(|(a, x), (b, y)| (a, x.line).cmp(&(b, y.line)));
    scan.unread.sort();
    Ok(scan)
}

/// Entry points that count only if a script that was read runs make or names their folder.
struct Waiting<'f> {
    files: Vec<&'f String>,
    /// Whether a script runs make.
    make: bool,
    /// The folders that scripts name: the parent folder and the name.
    named: BTreeSet<(&'f str, &'f str)>,
}

impl<'f> Waiting<'f> {
    /// Notes what a script runs and names.
    fn read(&mut self, file: &str, text: &str) {
        let Some(language) = TABLE.language(base(file)) else { return };
        if self.files.is_empty() {
            return;
        }
        let code = without_messages(language, code(language, text));
        self.make = self.make || code.iter().any(|line| runs_make(line));
        let folder = file.rsplit_once('/').map_or("", |(folder, _)| folder);
        for file in &self.files {
            let Some((parent, name)) = TABLE.named_only(file) else { continue };
            if is_within(parent, folder)
                && !self.named.contains(&(parent, name))
                && code.iter().any(|line| has_word(line, name))
            {
                self.named.insert((parent, name));
            }
        }
    }

    /// Removes and returns the files that count by now.
    fn reached(&mut self) -> Vec<&'f str> {
        let counts = |file: &&String| {
            (self.make || !TABLE.is_make_root(base(file)))
                && TABLE.named_only(file).is_none_or(|folder| self.named.contains(&folder))
        };
        let (reached, files) = std::mem::take(&mut self.files).into_iter().partition(counts);
        self.files = files;
        let reached: Vec<&'f String> = reached;
        reached.into_iter().map(String::as_str).collect()
    }
}

/// Returns whether a folder is another one, or within it.
fn is_within(folder: &str, outer: &str) -> bool {
    let rest = folder.strip_prefix(outer);
    outer.is_empty() || rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Returns whether a line has a word that stands by itself.
fn has_word(line: &str, word: &str) -> bool {
    let inner = |c: char| c.is_alphanumeric() || c == '_' || c == '-';
    line.match_indices(word)
        .any(|(at, _)| !line[..at].ends_with(inner) && !line[at + word.len()..].starts_with(inner))
}

/// Returns the regular files of a source, sorted. Does not follow symbolic links: their targets are
/// either in the source as well or not part of it.
fn files(root: &Path) -> Result<Vec<String>, Error> {
    let mut files = Vec::new();
    for entry in walkdir::WalkDir::new(root).sort_by_file_name() {
        let entry =
            entry.map_err(|error| IoError::doing("look through the source")(error.into()))?;
        let path = entry.path().strip_prefix(root).unwrap_or(entry.path());
        // Vendored crates do not download crates (cargo's book, "vendor").
        let name = entry.file_name();
        let vendored = (name == "Cargo.toml" || name == "Cargo.lock")
            && entry.path().with_file_name(".cargo-checksum.json").is_file();
        if entry.file_type().is_file() && !vendored {
            files.push(path.to_string_lossy().into_owned());
        }
    }
    Ok(files)
}

/// Reads a script; `None` if the file is too large or not text.
fn read(root: &Path, file: &str) -> Result<Option<String>, Error> {
    // The walk replaced invalid UTF-8 in the name, so no file of that name exists.
    let Ok(opened) = std::fs::File::open(root.join(file)) else { return Ok(None) };
    let mut bytes = Vec::new();
    let action = || IoError::doing(format!("read `{file}`"));
    opened.take(LARGEST + 1).read_to_end(&mut bytes).map_err(action())?;
    let text = bytes.len() as u64 <= LARGEST && memchr::memchr(0, &bytes).is_none();
    Ok(text.then(|| String::from_utf8_lossy(&bytes).into_owned()))
}

fn base(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// The scripts of a source that other scripts may name.
struct Index<'f> {
    /// Python and shell scripts by base name.
    by_base: BTreeMap<&'f str, Vec<&'f str>>,
    all: BTreeSet<&'f str>,
}

impl<'f> Index<'f> {
    fn new(files: &'f [String]) -> Self {
        let mut by_base: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for file in files.iter().filter(|file| file.ends_with(".py") || file.ends_with(".sh")) {
            by_base.entry(base(file)).or_default().push(file);
        }
        Self { by_base, all: files.iter().map(String::as_str).collect() }
    }

    /// Queues the scripts that a script refers to.
    fn named(
        &self,
        script: Script<'_>,
        text: &str,
        seen: &mut BTreeSet<&'f str>,
        queue: &mut VecDeque<Script<'f>>,
    ) {
        let file = script.file;
        let folder = file.rsplit_once('/').map_or("", |(folder, _)| folder);
        let Some(language) = TABLE.language(base(file)) else { return };
        let mut add = |found: Option<&'f str>, imports: bool| {
            if let Some(file) = found
                && seen.insert(file)
            {
                queue.push_back(Script { file, imports });
            }
        };
        // Only Python knows what the script adds to `sys.path`.
        let anywhere = text.contains("sys.path");
        let in_path = |c: char| c.is_alphanumeric() || "_-./".contains(c);
        // A message names scripts that the user can run.
        let code = without_messages(language, code(language, text));
        for (line, code) in text.lines().zip(&code) {
            let trimmed = line.trim_start();
            if trimmed.starts_with(&language.comment) {
                continue;
            }
            // A spec also mentions files that it only installs or edits.
            let runs = ["python", "sh ", "./"].iter().any(|run| code.contains(run));
            let calls = language.name != "toml" && (!file.ends_with(".spec") || runs);
            for word in code.split(|c: char| !in_path(c)).filter(|_| calls) {
                if word.ends_with(".py") || word.ends_with(".sh") {
                    add(
                        self.script(folder, word.trim_start_matches("./").trim_start_matches('/')),
                        false,
                    );
                }
            }
            if let Some(backend) = trimmed.strip_prefix("build-backend") {
                let backend = backend.trim_matches([' ', '=', '"', '\'']);
                add(self.backend(folder, backend.split(':').next().unwrap_or_default()), true);
            }
            // Imports within functions run later, if at all, except in setup.py.
            let outermost = !line.starts_with([' ', '\t']) || base(file) == "setup.py";
            if file.ends_with(".py") && outermost {
                for module in imports(line) {
                    let found = self.module(folder, script.imports, &module);
                    let path = module.replace('.', "/");
                    let elsewhere = || self.script(folder, &format!("{path}.py"));
                    let found = found
                        .or_else(|| (anywhere && path.contains('/')).then(elsewhere).flatten());
                    add(found, script.imports);
                }
            }
        }
    }

    /// Finds a build backend anywhere in the source, as `backend-path` can name any folder.
    fn backend(&self, folder: &str, module: &str) -> Option<&'f str> {
        let own = |path: String| self.script(folder, &path);
        let path = module.replace('.', "/");
        own(format!("{path}.py")).or_else(|| own(format!("{path}/__init__.py")))
    }

    /// Finds a script by the name that another one uses: relative to that script's folder, relative
    /// to the top folder, or by a path suffix that only one script has.
    fn script(&self, folder: &str, name: &str) -> Option<&'f str> {
        let beside = if folder.is_empty() { name.to_owned() } else { format!("{folder}/{name}") };
        if let Some(found) = self.all.get(beside.as_str()).or_else(|| self.all.get(name)) {
            return Some(found);
        }
        let ending = format!("/{name}");
        let mut same = self.by_base.get(base(name))?.iter().filter(|file| file.ends_with(&ending));
        let only = same.next()?;
        same.next().is_none().then_some(*only)
    }

    /// Finds a module relative to the importing script's folder and, if `top` is set, relative to
    /// the top folder.
    fn module(&self, folder: &str, top: bool, module: &str) -> Option<&'f str> {
        let path = module.trim_start_matches('.').replace('.', "/");
        [folder, ""].iter().take(if top { 2 } else { 1 }).find_map(|folder| {
            let start = if folder.is_empty() { path.clone() } else { format!("{folder}/{path}") };
            [format!("{start}.py"), format!("{start}/__init__.py")]
                .iter()
                .find_map(|file| self.all.get(file.as_str()).copied())
        })
    }
}

/// A script in the queue.
#[derive(Clone, Copy)]
struct Script<'f> {
    file: &'f str,
    /// Whether the build imports it with the source's top folder on Python's path. A script that is
    /// run by its path may be a module of the project, and its imports are the project itself.
    imports: bool,
}

/// Returns the modules that a line of Python imports, including possible submodules:
/// `from a import b` may import `a.b`.
fn imports(line: &str) -> Vec<String> {
    let line = line.trim();
    let name = |text: &str| {
        let text = text.trim().trim_start_matches('(').trim_end_matches(')');
        text.split_whitespace().next().unwrap_or_default().to_owned()
    };
    if let Some((module, names)) =
        line.strip_prefix("from ").and_then(|rest| rest.split_once(" import "))
    {
        let module = module.trim();
        let within = names
            .split(',')
            .map(name)
            .map(|inner| format!("{}.{inner}", module.trim_end_matches('.')));
        return within.chain([module.to_owned()]).collect();
    }
    line.strip_prefix("import ").map(|rest| rest.split(',').map(name).collect()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(files: &[(&str, &str)]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = dir.path().join(path);
            fs_err::create_dir_all(path.parent().unwrap()).unwrap();
            fs_err::write(path, text).unwrap();
        }
        dir
    }

    #[test]
    fn follows_scripts_named_by_scripts() {
        let dir = source(&[
            (
                "setup.py",
                "from tools import helper\nsys.path.insert(0, 'own')\nfrom jit.core import x\nrun(['bash', 'scripts/get it.sh', 'fetch.sh'])\n",
            ),
            ("tools/helper.py", "urlretrieve(u)\nimport third\ndef f():\n    import late\n"),
            ("own/jit/core.py", "urlopen(u)\n"),
            ("tools/third.py", "urlopen(u)\n"),
            ("tools/late.py", "urlopen(u)\n"),
            ("scripts/fetch.sh", "curl -O x\n"),
            ("unused.sh", "curl -O x\n"),
            ("tests/CMakeLists.txt", "FetchContent_Declare(x URL y)\n"),
            ("new\nline/CMakeLists.txt", "FetchContent_Declare(x URL y)\n"),
        ]);
        let scan = scan(dir.path(), Some(("x.spec", "pip install y\n"))).unwrap();
        let files: Vec<_> = scan.points.iter().map(|(file, _)| file.as_str()).collect();
        let expected = [
            "new\nline/CMakeLists.txt",
            "own/jit/core.py",
            "scripts/fetch.sh",
            "tools/helper.py",
            "tools/third.py",
            "x.spec",
        ];
        assert_eq!(files, expected);
        assert_eq!((scan.read, scan.passed_over), (6, 1));
    }

    #[test]
    fn reads_makefiles_and_tools_only_if_something_runs_them() {
        let dir = source(&[
            ("Makefile", "all:\n\tbash scripts/get.sh\n"),
            ("scripts/get.sh", "curl -O x\n"),
            ("scripts/CMakeLists.txt", "file(DOWNLOAD x y)\n"),
            ("tools/probe/CMakeLists.txt", "file(DOWNLOAD x y)\n"),
            ("tools/setup.sh", "git submodule update --init x\n"),
            ("lib/tools/setup.py", "urlopen(x)\n"),
            (
                "CMakeLists.txt",
                "# tools\nmessage(\n  STATUS \"see tools: run tools/setup.sh\")\nadd_subdirectory(lib)\n",
            ),
            ("lib/CMakeLists.txt", "add_subdirectory(tools)\n"),
        ]);
        let files = |spec| {
            let scan = scan(dir.path(), spec).unwrap();
            let files: Vec<_> = scan.points.into_iter().map(|(file, _)| file).collect();
            (files.join(" "), scan.passed_over)
        };
        assert_eq!(files(Some(("x.spec", "cmake .\n"))), ("lib/tools/setup.py".into(), 2));
        assert_eq!(
            files(Some(("x.spec", "%make_build\n"))),
            ("lib/tools/setup.py scripts/CMakeLists.txt scripts/get.sh".into(), 1)
        );
        assert_eq!(
            files(Some(("x.spec", "cd tools/probe\n"))),
            ("lib/tools/setup.py tools/probe/CMakeLists.txt".into(), 1)
        );
        let without_spec = files(None);
        assert_eq!(without_spec.0.split(' ').count(), 4, "{without_spec:?}");
    }

    #[test]
    fn skips_links_huge_and_binary_files() {
        let dir = source(&[("binary/setup.py", "\0pip install x")]);
        let at = |name: &str| dir.path().join(name);
        fs_err::os::unix::fs::symlink("/", at("root")).unwrap();
        fs_err::os::unix::fs::symlink(".", at("loop")).unwrap();
        fs_err::os::unix::fs::symlink("/dev/zero", at("setup.py")).unwrap();
        fs_err::create_dir(at("huge")).unwrap();
        fs_err::File::create(at("huge/CMakeLists.txt")).unwrap().set_len(1 << 40).unwrap();
        let deep = at("deep").join("d/".repeat(500));
        fs_err::create_dir_all(&deep).unwrap();
        fs_err::write(deep.join("Makefile"), "\twget https://x\n").unwrap();
        let scan = scan(dir.path(), Some(("x.spec", "make\n"))).unwrap();
        assert_eq!(scan.unread, ["binary/setup.py", "huge/CMakeLists.txt"]);
        assert_eq!((scan.read, scan.points.len()), (1, 1));
    }
}
