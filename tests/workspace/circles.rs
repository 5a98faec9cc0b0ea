//! No two modules of a crate use each other, not even through others, and neither do two files.
//! Names that a module only re-exports lead to the file that defines them. A module's file may use
//! the files below it, which it assembles, and these may use it.

use std::collections::{BTreeMap, BTreeSet};

use crate::mechanisms::{crates, sources};

/// What uses what: for each user, what it uses and the path in its code that shows it.
type Uses = BTreeMap<String, BTreeMap<String, String>>;

/// The modules of a crate that have a file of their own, by paths such as `closure::imports`, and
/// what they re-export.
struct Modules {
    code: BTreeMap<String, String>,
    /// The paths of re-exported names, by module and name.
    exports: BTreeMap<(String, String), String>,
}

impl Modules {
    fn of(krate: &str, sources: &BTreeMap<String, String>) -> Self {
        let mut code: BTreeMap<String, String> = BTreeMap::new();
        for (file, text) in sources {
            let Some(file) = file.strip_prefix(krate).and_then(|file| file.strip_prefix('/'))
            else {
                continue;
            };
            let file = file.trim_end_matches(".rs");
            let file = file.strip_suffix("/mod").unwrap_or(file);
            let module = if ["lib", "main"].contains(&file) { "" } else { file };
            code.entry(module.replace('/', "::")).or_default().push_str(text);
        }
        let mut exports = BTreeMap::new();
        for (module, text) in &code {
            for used in imports(text).0.into_iter().filter(|used| used.public) {
                exports.insert((module.clone(), used.name), used.path);
            }
        }
        Self { code, exports }
    }

    /// Returns the module in which a path of a module's code ends; `None` for other crates.
    fn resolve(&self, module: &str, path: &str, depth: usize) -> Option<String> {
        let mut names = path.split("::").peekable();
        let mut at = module.to_owned();
        match names.peek()? {
            &"crate" => {
                at.clear();
                names.next();
            }
            &"self" => drop(names.next()),
            &"super" => {
                while names.next_if_eq(&"super").is_some() {
                    at = parent(&at).to_owned();
                }
            }
            name if !self.code.contains_key(&joined(module, name)) => return None,
            _ => {}
        }
        while let Some(name) = names.next_if(|name| self.code.contains_key(&joined(&at, name))) {
            at = joined(&at, name);
        }
        let name = names.next().unwrap_or_default();
        let export = self.exports.get(&(at.clone(), name.to_owned())).filter(|_| depth < 5);
        let rest: String = names.map(|name| format!("::{name}")).collect();
        let defined =
            export.and_then(|path| self.resolve(&at, &format!("{path}{rest}"), depth + 1));
        Some(defined.unwrap_or(at))
    }

    /// Returns which file uses which other one, apart from those below it.
    fn uses(&self) -> Uses {
        let mut uses = Uses::new();
        for (module, code) in &self.code {
            let (imports, rest) = imports(code);
            let imported = imports.into_iter().map(|used| used.path);
            let named = rest.split(|c: char| !(c.is_alphanumeric() || "_:$".contains(c)));
            let named =
                named.map(|path| path.trim_end_matches(':')).filter(|path| path.contains("::"));
            for path in imported.chain(named.map(str::to_owned)) {
                let Some(used) = self.resolve(module, &path, 0) else { continue };
                let below = module.is_empty() || used.starts_with(&format!("{module}::"));
                if used != *module && !below {
                    uses.entry(module.clone()).or_default().insert(used, path);
                }
            }
        }
        uses
    }
}

fn joined(module: &str, name: &str) -> String {
    if module.is_empty() { name.to_owned() } else { format!("{module}::{name}") }
}

fn parent(module: &str) -> &str {
    module.rsplit_once("::").map_or("", |(parent, _)| parent)
}

/// A path in a `use`.
struct Import {
    path: String,
    /// The name that the module has for it.
    name: String,
    public: bool,
}

/// Returns the paths in the `use` statements of a module, which rustfmt starts on a line of their
/// own, and the rest of its code.
fn imports(code: &str) -> (Vec<Import>, String) {
    let (mut found, mut rest) = (Vec::new(), String::new());
    let mut lines = code.lines();
    while let Some(line) = lines.next() {
        let statement = line.trim_start();
        let visible = statement.strip_prefix("pub").and_then(|text| text.split_once("use "));
        let visible =
            visible.filter(|(scope, _)| scope.trim().is_empty() || scope.starts_with('('));
        let tree = visible.map(|(_, tree)| tree).or_else(|| statement.strip_prefix("use "));
        let Some(tree) = tree else {
            rest.push_str(line);
            rest.push('\n');
            continue;
        };
        let mut tree = tree.to_owned();
        while !tree.trim_end().ends_with(';') {
            let Some(line) = lines.next() else { break };
            tree.push_str(line.trim());
        }
        let mut paths = Vec::new();
        expand("", tree.trim_end().trim_end_matches(';'), &mut paths);
        for path in paths {
            let (path, alias) = path.split_once(" as ").unwrap_or((path.as_str(), ""));
            let path = path.trim_end_matches("::self").to_owned();
            let last = path.rsplit("::").next().unwrap_or_default();
            let name = if alias.is_empty() { last } else { alias }.to_owned();
            found.push(Import { path, name, public: visible.is_some() });
        }
    }
    (found, rest)
}

/// Adds the paths of a tree such as `a::{b, c::D as E}`.
fn expand(prefix: &str, tree: &str, paths: &mut Vec<String>) {
    let (mut depth, mut start) = (0, 0);
    for (at, c) in tree.char_indices().chain([(tree.len(), ',')]) {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                let part = tree[start..at].trim();
                start = at + 1;
                match part.split_once('{') {
                    Some((path, list)) => {
                        expand(
                            &format!("{prefix}{path}"),
                            list.strip_suffix('}').unwrap_or(list),
                            paths,
                        );
                    }
                    None if part.is_empty() => {}
                    None => paths.push(format!("{prefix}{part}")),
                }
            }
            _ => {}
        }
    }
}

/// Returns the uses between top-level modules that the uses between files make.
fn of_modules(files: &Uses) -> Uses {
    let top = |file: &str| file.split("::").next().unwrap_or_default().to_owned();
    let mut uses = Uses::new();
    for (user, used) in files {
        for (used, path) in
            used.iter().filter(|(used, _)| !used.is_empty() && top(used) != top(user))
        {
            let shown = format!("{path}` in `{user}");
            uses.entry(top(user)).or_default().insert(top(used), shown);
        }
    }
    uses
}

/// Returns the shortest circle from a module back to itself.
fn circle(uses: &Uses, module: &str) -> Option<Vec<String>> {
    let mut paths = vec![vec![module.to_owned()]];
    let mut seen = BTreeSet::new();
    while !paths.is_empty() {
        let mut longer = Vec::new();
        for path in paths {
            for next in uses.get(path.last().unwrap()).into_iter().flat_map(BTreeMap::keys) {
                if !seen.insert(next) {
                    continue;
                }
                let path = [&path[..], std::slice::from_ref(next)].concat();
                if next == module {
                    return Some(path);
                }
                longer.push(path);
            }
        }
        paths = longer;
    }
    None
}

/// Describes the shortest circle of each crate.
fn circles(level: fn(&Uses) -> Uses) -> Vec<String> {
    let sources = sources();
    let mut found = Vec::new();
    for krate in crates().keys() {
        let uses = level(&Modules::of(krate, &sources).uses());
        assert!(krate == "md5-lanes" || !uses.is_empty(), "{krate} has no uses");
        let Some(shortest) =
            uses.keys().filter_map(|module| circle(&uses, module)).min_by_key(Vec::len)
        else {
            continue;
        };
        let steps = shortest.windows(2).map(|step| {
            let [user, used] = step else { unreachable!("a window of two") };
            format!("\n  {user} uses {used}: `{}`", uses[user][used])
        });
        found.push(format!("{krate}: {}{}", shortest.join(" -> "), steps.collect::<String>()));
    }
    found
}

#[test]
fn no_circle_between_the_modules_of_a_crate() {
    let found = circles(of_modules);
    assert!(found.is_empty(), "modules use each other in a circle:\n{}", found.join("\n"));
}

#[test]
fn no_circle_between_the_files_of_a_crate() {
    let found = circles(Uses::clone);
    assert!(
        found.is_empty(),
        "files use each other in a circle; move what they share to a file of its own:\n{}",
        found.join("\n")
    );
}

fn sample(files: &[(&str, &str)]) -> Uses {
    let sources =
        files.iter().map(|(file, code)| (format!("x/{file}"), (*code).to_owned())).collect();
    Modules::of("x", &sources).uses()
}

fn shown(uses: &Uses, module: &str) -> Option<String> {
    circle(uses, module).map(|steps| steps.join(" "))
}

#[test]
fn detects_circles_between_modules() {
    let files = sample(&[
        ("lib.rs", "mod a;\nmod b;\nmod c;\nmod d;\npub use c::Three;\n"),
        ("a.rs", "use crate::{\n    b::{One, Two},\n    d,\n};\n"),
        ("b/mod.rs", "mod deep;\nuse crate::Three;\n"),
        ("b/deep.rs", "use super::Own;\nuse super::super::c;\n"),
        ("c.rs", "fn f() -> crate::a::Four { todo!() }\n"),
        ("d.rs", "use std::fmt;\n"),
    ]);
    let uses = of_modules(&files);
    assert_eq!(shown(&uses, "a").as_deref(), Some("a b c a"));
    assert_eq!(shown(&uses, "d"), None);
    assert_eq!(uses["b"].keys().collect::<Vec<_>>(), ["c"]);
}

#[test]
fn detects_circles_between_files() {
    let of = |parent: &str, one: &str, two: &str| {
        let uses = sample(&[
            ("lib.rs", "mod a;\n"),
            ("a/mod.rs", parent),
            ("a/one.rs", one),
            ("a/two.rs", two),
        ]);
        shown(&uses, "a::one")
    };
    let circle = Some("a::one a::two a::one".to_owned());
    assert_eq!(of("", "use super::two::Two;\n", "use super::one;\n"), circle);
    assert_eq!(
        of("", "fn f() { super::two::f() }\n", "use crate::a::{one::One as Own};\n"),
        circle
    );
    let reexport = "mod one;\nmod two;\npub(crate) use two::{Three, Two as Second};\n";
    assert_eq!(of(reexport, "use super::Second;\n", "use super::one;\n"), circle);
    // The file of the module assembles them.
    assert_eq!(of(reexport, "use super::Own;\n", "use super::Own;\n"), None);
    assert_eq!(of(reexport, "use super::Second;\n", "use std::one;\n"), None);
}
