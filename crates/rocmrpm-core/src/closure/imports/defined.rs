//! Finds the modules and names that the locked files of a distribution define. Caches answers by
//! the digest of the file. Does not decide whether a missing name matters.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::python;
use crate::closure::{ClosureError, Locked, LockedFile, LockedOrigin};
use crate::digest::Sha256;
use crate::names::ComponentName;
use crate::sources::{Fetcher, SourceError};
use crate::wheel;
use crate::workspace::{Pin, Source};

const SCRIPT: &str = include_str!("defined.py");

/// The names to check, by module.
pub(super) type Modules = BTreeMap<String, BTreeSet<String>>;

/// The state of a module or of a name in it; of several answers the smallest counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) enum NameStatus {
    /// It is defined.
    #[serde(rename = "defined")]
    Defined,
    /// Unknown: it may be in a compiled module.
    #[serde(rename = "compiled")]
    Compiled,
    /// Unknown: code that runs on import may define it.
    #[serde(rename = "dynamic")]
    Dynamic,
    /// Unknown: a file cannot be parsed.
    #[serde(rename = "unread")]
    Unread,
    /// The module exists, but does not define the name.
    #[serde(rename = "missing")]
    Missing,
    /// The module does not exist.
    #[serde(rename = "no-module")]
    NoModule,
}

/// The script's answer for one file.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct DefinedNames {
    /// Why the file cannot be read at all.
    pub unread: Option<String>,
    #[serde(default)]
    modules: BTreeMap<String, ModuleAnswer>,
}

#[derive(Debug, Serialize, Deserialize)]
struct ModuleAnswer {
    module: NameStatus,
    reason: Option<String>,
    #[serde(default)]
    names: BTreeMap<String, NameStatus>,
}

#[derive(Serialize)]
struct DefinedQuery<'a> {
    path: &'a Path,
    limit: u64,
    modules: &'a Modules,
}

/// The locked file of a distribution to read.
pub(super) struct Files<'a> {
    locked: &'a Locked,
    file: &'a LockedFile,
    is_wheel: bool,
}

impl<'a> Files<'a> {
    /// Returns the wheel, or else the source distribution; `None` if a component of the stack makes
    /// it.
    pub fn of(locked: &'a Locked) -> Option<Self> {
        let LockedOrigin::Index { wheel, sdist } = &locked.origin else { return None };
        let file = wheel.as_ref().or(sdist.as_ref())?;
        Some(Self { locked, file, is_wheel: wheel.is_some() })
    }

    fn path(&self, fetcher: &Fetcher<'_>) -> Result<PathBuf, ClosureError> {
        let Locked { name, version, .. } = self.locked;
        let sha256 = Some(self.file.sha256);
        let source = match self.is_wheel {
            true => Source::Wheel { file: self.file.name.clone(), sha256 },
            false => Source::Sdist { project: name.clone(), sha256 },
        };
        let component = ComponentName::parse(name)
            .ok_or_else(|| ClosureError::Python(format!("`{name}` is not a valid source name")))?;
        let pin = Pin::new(component.clone(), version.to_string(), source);
        let path = match self.is_wheel {
            true => fetcher.obtain(&pin)?.path,
            false => fetcher.tree(&pin)?.dir,
        };
        fetcher.leave(&component);
        Ok(path)
    }

    /// Returns the top-level modules that the file installs.
    pub fn top_level(&self, fetcher: &Fetcher<'_>) -> Result<BTreeSet<String>, ClosureError> {
        let recipe = format!("top-level modules 1\n{}\n", self.file.sha256);
        if let Some(known) = fetcher.remembered(&recipe)? {
            return Ok(known.lines().map(str::to_owned).collect());
        }
        let path = self.path(fetcher)?;
        let found = match self.is_wheel {
            true => {
                self.names_in_wheel(&path)?.iter().filter_map(|name| top_of_member(name)).collect()
            }
            false => names_in_tree(&path),
        };
        let text: String = found.iter().map(|name| format!("{name}\n")).collect();
        fetcher.remember(&recipe, &text)?;
        Ok(found)
    }

    fn names_in_wheel(&self, path: &Path) -> Result<Vec<String>, ClosureError> {
        let open = std::fs::File::open(path).map_err(|error| error.to_string());
        open.and_then(wheel::member_names).map_err(|reason| {
            let archive = self.file.name.clone();
            ClosureError::Source(SourceError::NotUnpacked { archive, reason, limit: None })
        })
    }

    /// Checks modules and names in them.
    pub fn ask(
        &self,
        modules: &Modules,
        fetcher: &Fetcher<'_>,
    ) -> Result<DefinedNames, ClosureError> {
        let wrong = |error: serde_json::Error| ClosureError::Python(error.to_string());
        let wanted = serde_json::to_string(modules).map_err(wrong)?;
        let script = Sha256::of_bytes(SCRIPT);
        let recipe = format!("imports defined\n{script}\n{}\n{wanted}\n", self.file.sha256);
        let known = fetcher.remembered(&recipe)?.and_then(|text| serde_json::from_str(&text).ok());
        if let Some(answer) = known {
            return Ok(answer);
        }
        let path = self.path(fetcher)?;
        let question = DefinedQuery { path: &path, limit: python::MAX_FILE, modules };
        let mut answer: DefinedNames = python::ask(SCRIPT, &question)?;
        // Building a source distribution may add modules.
        for module in answer.modules.values_mut().filter(|_| !self.is_wheel) {
            if module.module == NameStatus::NoModule {
                module.module = NameStatus::Compiled;
            }
        }
        // Do not cache what another version of Python may be able to parse.
        if answer.unread.is_none()
            && answer.modules.values().all(|module| module.module != NameStatus::Unread)
        {
            fetcher.remember(&recipe, &serde_json::to_string(&answer).map_err(wrong)?)?;
        }
        Ok(answer)
    }
}

impl DefinedNames {
    /// Returns the state of a module, or of a name in it.
    pub fn state(&self, module: &str, name: Option<&str>) -> NameStatus {
        let Some(found) = self.modules.get(module) else { return NameStatus::Unread };
        match name {
            Some(name) if found.module == NameStatus::Defined => {
                found.names.get(name).copied().unwrap_or(NameStatus::Unread)
            }
            _ => found.module,
        }
    }

    /// Returns why files cannot be parsed.
    pub fn reasons(&self) -> impl Iterator<Item = &str> {
        let modules = self.modules.values().filter_map(|module| module.reason.as_deref());
        self.unread.as_deref().into_iter().chain(modules)
    }
}

/// Returns the top-level module that a member of a wheel belongs to.
fn top_of_member(path: &str) -> Option<String> {
    let mut parts: Vec<&str> = path.split('/').collect();
    let info = |name: &str| name.ends_with(".dist-info") || name.ends_with(".data");
    if parts[0].ends_with(".data") && parts.len() > 2 && matches!(parts[1], "purelib" | "platlib") {
        parts.drain(..2);
    }
    match parts.as_slice() {
        [folder, _, ..] if !info(folder) => Some((*folder).to_owned()),
        [file] => module_of(file),
        _ => None,
    }
}

/// Returns the name of the module in a file, if it is one.
fn module_of(file: &str) -> Option<String> {
    let stem = match file.strip_suffix(".so") {
        Some(stem) => stem.split('.').next().unwrap_or(stem),
        None => file.strip_suffix(".py")?,
    };
    (!stem.is_empty()).then(|| stem.to_owned())
}

/// Returns the modules in the usual folders of a source distribution.
fn names_in_tree(dir: &Path) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for root in ["", "src", "lib", "python"] {
        let folder = dir.join(root);
        for name in crate::files::names_in(&folder).unwrap_or_default() {
            if folder.join(&name).join("__init__.py").is_file() {
                found.insert(name);
            } else if name != "setup.py" && folder.join(&name).is_file() {
                found.extend(module_of(&name));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_top_level_modules_of_wheel_members() {
        for (path, expected) in [
            ("a/b/c.py", Some("a")),
            ("six.py", Some("six")),
            ("_x.cpython-314-x86_64-linux-gnu.so", Some("_x")),
            ("_y.abi3.so", Some("_y")),
            ("a-1.0.dist-info/METADATA", None),
            ("a-1.0.data/purelib/b/c.py", Some("b")),
            ("a-1.0.data/scripts/run", None),
            ("hook.pth", None),
            ("", None),
        ] {
            assert_eq!(top_of_member(path).as_deref(), expected, "{path}");
        }
    }

    #[test]
    fn cached_states_keep_their_names() {
        let states = [
            NameStatus::Defined,
            NameStatus::Compiled,
            NameStatus::Dynamic,
            NameStatus::Unread,
            NameStatus::Missing,
            NameStatus::NoModule,
        ];
        assert_eq!(
            serde_json::to_string(&states).unwrap(),
            r#"["defined","compiled","dynamic","unread","missing","no-module"]"#
        );
    }
}
