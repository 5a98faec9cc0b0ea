//! Determines which components to build, for which GPU targets and in which order. It does not
//! decide what is stale.

use std::collections::{BTreeMap, BTreeSet};

use crate::error::{Diagnose, Diagnosis, Error, Kind, Problem};
use crate::gpu::GpuTarget;
use crate::names::ComponentName;
use crate::workspace::{Component, Workspace};

/// A workspace's components in build order.
#[derive(Debug, Clone)]
pub struct Stack<'w> {
    /// The workspace of the components.
    pub workspace: &'w Workspace,
    order: Vec<&'w Component>,
    targets: BTreeMap<ComponentName, Vec<GpuTarget>>,
    /// Omitted components with the reason: optional ones without a GPU target, those that do not
    /// support the chroot's Python, and those that the ROCm provider includes.
    pub left_out: BTreeMap<ComponentName, String>,
}

/// Components cannot be ordered.
#[derive(Debug, thiserror::Error)]
pub enum StackError {
    /// Components depend on each other, or upstream supports none of the requested GPU targets.
    #[error("{message}")]
    Impossible {
        /// The reason.
        message: String,
        /// The locations in the workspace's files.
        problems: Vec<Problem>,
    },
}

impl Diagnose for StackError {
    fn diagnosis(&self) -> Diagnosis {
        let Self::Impossible { problems, .. } = self;
        Diagnosis::from(Kind::Config).with_problems(problems)
    }
}

impl<'w> Stack<'w> {
    /// Returns the named components in build order; all if `names` is empty.
    pub fn named(&self, names: &[String]) -> Result<Vec<&'w Component>, Error> {
        let is_named = |component: &&Component| {
            names.is_empty() || names.iter().any(|n| n == component.name.as_str())
        };
        Ok(self.named_with_requirements(names)?.into_iter().filter(is_named).collect())
    }

    /// Returns the named components with all of their dependencies in build order; all components
    /// if `names` is empty.
    ///
    /// # Errors
    ///
    /// Fails if a component is unknown or is omitted in this chroot.
    pub fn named_with_requirements(&self, names: &[String]) -> Result<Vec<&'w Component>, Error> {
        let wanted = names
            .iter()
            .map(|name| self.workspace.component(name))
            .collect::<Result<Vec<_>, _>>()?;
        if let Some((name, reason)) =
            wanted.iter().find_map(|c| self.left_out.get_key_value(&c.name))
        {
            return Err(Error::new(Kind::Config, format!("cannot build `{name}`: {reason}")));
        }
        Ok(self.select(&wanted))
    }

    /// Orders the components by dependencies, then by name.
    pub fn new(workspace: &'w Workspace) -> Result<Self, StackError> {
        Ok(Self::with_examined(workspace, None)?.0)
    }

    /// Returns a stack to examine a component's sources: a component that builds leave out because
    /// of its GPU targets is in it, with the targets that upstream supports. Also returns why
    /// builds leave it out.
    pub fn to_examine(
        workspace: &'w Workspace,
        component: &Component,
    ) -> Result<(Self, Option<String>), StackError> {
        Self::with_examined(workspace, Some(&component.name))
    }

    fn with_examined(
        workspace: &'w Workspace,
        examined: Option<&ComponentName>,
    ) -> Result<(Self, Option<String>), StackError> {
        let mut targets = BTreeMap::new();
        let mut left_out = BTreeMap::new();
        let mut normally_left_out = None;
        // Omitted only in this chroot, with all components that depend on them.
        let mut elsewhere = BTreeSet::new();
        for component in workspace.components.values() {
            let wanted = &workspace.manifest.gpu_targets;
            let mut mine = component.supported(wanted);
            let pin = workspace.pin(component);
            let python = &workspace.chroot.python;
            if brought(workspace, &component.name) {
                let reason =
                    format!("the ROCm provider `{}` already includes it", workspace.provider.name);
                left_out.insert(component.name.clone(), reason);
            } else if !python.is_empty() && !pin.python.holds(python) {
                let reason = format!(
                    "upstream allows Python {}, but the chroot `{}` has {python}",
                    pin.python, workspace.chroot.name
                );
                left_out.insert(component.name.clone(), reason);
                elsewhere.insert(component.name.as_str());
            } else if mine.is_empty() {
                let reason = format!(
                    "upstream supports none of the workspace's GPU targets ({})",
                    list(wanted)
                );
                if examined == Some(&component.name) {
                    mine = component.gpu_targets.clone().unwrap_or_default();
                    normally_left_out = Some(reason);
                } else if component.optional {
                    left_out.insert(component.name.clone(), reason);
                } else {
                    return Err(unsupported(component, &reason));
                }
            }
            targets.insert(component.name.clone(), mine);
        }
        let mut order = Vec::new();
        let mut path = Vec::new();
        let mut done = BTreeSet::new();
        for component in workspace.components.values() {
            visit(workspace, component, &mut path, &mut done, &mut order)?;
        }
        for component in &order {
            let is_lost =
                |name: &str| left_out.keys().any(|l| l.as_str() == name && !brought(workspace, l));
            let lost = component.requires.iter().find(|required| is_lost(&required.value));
            if let Some(lost) = lost.filter(|_| !left_out.contains_key(&component.name)) {
                let reason = format!("it requires `{}`, which is left out", lost.value);
                let is_elsewhere = elsewhere.contains(lost.value.as_str());
                if examined == Some(&component.name) && !is_elsewhere {
                    normally_left_out.get_or_insert(reason);
                    continue;
                }
                if is_elsewhere {
                    elsewhere.insert(component.name.as_str());
                } else if !component.optional {
                    return Err(unsupported(component, &reason));
                }
                left_out.insert(component.name.clone(), reason);
            }
        }
        order.retain(|component| !left_out.contains_key(&component.name));
        Ok((Self { workspace, order, targets, left_out }, normally_left_out))
    }

    /// Returns the components in build order: each after all of its dependencies.
    pub fn order(&self) -> &[&'w Component] {
        &self.order
    }

    /// Returns the GPU targets of a component.
    pub fn gpu_targets(&self, component: &Component) -> &[GpuTarget] {
        self.targets.get(&component.name).map_or(&[], Vec::as_slice)
    }

    /// Returns the given components with all of their dependencies in build order; all components
    /// if `wanted` is empty.
    pub fn select(&self, wanted: &[&Component]) -> Vec<&'w Component> {
        if wanted.is_empty() {
            return self.order.clone();
        }
        let keep = self.with_required(wanted);
        self.order.iter().copied().filter(|c| keep.contains_key(c.name.as_str())).collect()
    }

    /// Returns the given components and all of their dependencies, by name.
    pub fn with_required(&self, wanted: &[&Component]) -> BTreeMap<&'w str, &'w Component> {
        let mut found = BTreeMap::new();
        let mut open: Vec<&str> = wanted.iter().map(|component| component.name.as_str()).collect();
        while let Some(name) = open.pop() {
            let component = self.workspace.components.get(name);
            let Some(component) = component.filter(|_| !self.left_out.contains_key(name)) else {
                continue;
            };
            if found.insert(component.name.as_str(), component).is_none() {
                open.extend(component.requires.iter().map(|required| required.value.as_str()));
            }
        }
        found
    }

    /// Groups components by the number of sequential builds before them: components in a group do
    /// not depend on each other.
    pub fn waves(&self, selected: &[&'w Component]) -> Vec<Vec<&'w Component>> {
        let mut depth: BTreeMap<&str, usize> = BTreeMap::new();
        let mut waves: Vec<Vec<&'w Component>> = Vec::new();
        for &component in selected {
            let before = component.requires.iter().filter_map(|r| depth.get(r.value.as_str()));
            let own = before.max().map_or(0, |d| d + 1);
            depth.insert(component.name.as_str(), own);
            if waves.len() <= own {
                waves.push(Vec::new());
            }
            waves[own].push(component);
        }
        waves
    }
}

fn visit<'w>(
    workspace: &'w Workspace,
    component: &'w Component,
    path: &mut Vec<&'w Component>,
    done: &mut BTreeSet<&'w str>,
    order: &mut Vec<&'w Component>,
) -> Result<(), StackError> {
    if done.contains(component.name.as_str()) {
        return Ok(());
    }
    path.push(component);
    let mut requires: Vec<_> = component.requires.iter().collect();
    requires.sort_by(|a, b| a.value.cmp(&b.value));
    for required in requires {
        if let Some(start) = path.iter().position(|c| c.name.as_str() == required.value) {
            let circle: Vec<&str> = path[start..]
                .iter()
                .map(|c| c.name.as_str())
                .chain([required.value.as_str()])
                .collect();
            let message = format!("dependency cycle: {}", circle.join(" -> "));
            let problem = component.file.problem(
                required.span.clone(),
                message.clone(),
                "this closes the cycle",
            );
            return Err(StackError::Impossible { message, problems: vec![problem] });
        }
        // Reading the workspace already rejected unknown dependencies.
        if let Some(next) = workspace.components.get(required.value.as_str()) {
            visit(workspace, next, path, done, order)?;
        }
    }
    path.pop();
    done.insert(component.name.as_str());
    order.push(component);
    Ok(())
}

/// Returns whether the chroot's ROCm provider includes a component.
fn brought(workspace: &Workspace, name: &ComponentName) -> bool {
    workspace.provider.brings.iter().any(|at| at.value == name.as_str())
}

fn unsupported(component: &Component, reason: &str) -> StackError {
    let message = format!("cannot build `{}`: {reason}", component.name);
    let help = "set `optional = true` to build the stack without this component".to_owned();
    let problem = Problem {
        span: None,
        help: Some(help),
        ..component.file.problem(0..0, message.clone(), "")
    };
    StackError::Impossible { message, problems: vec![problem] }
}

fn list(targets: &[GpuTarget]) -> String {
    targets.iter().map(GpuTarget::as_str).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::workspace::Selection;
    use crate::workspace::document::At;
    use crate::workspace::testing::sample;

    /// Adds components, each with its component.toml and additional lines for its pin.
    fn workspace(dir: &Path, components: &[(&str, &str, &str)]) -> Workspace {
        sample(dir, "fedora-43");
        let write = |path: String, text: &str| {
            crate::files::write_atomically(&dir.join(path), text).unwrap()
        };
        let mut pins = String::new();
        for (name, toml, pin) in components {
            write(format!("specs-templates/{name}/component.toml"), toml);
            write(format!("specs-templates/{name}/{name}.spec.tera"), "");
            write(format!("src/{name}/a"), "");
            pins += &format!("[{name}]\nversion = \"1\"\npath = \"src/{name}\"\n{pin}\n");
        }
        write("pins/stable.toml".into(), &pins);
        Workspace::load(dir, &Selection::default()).unwrap()
    }

    fn names(components: &[&Component]) -> String {
        components.iter().map(|component| component.name.as_str()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn orders_components_after_their_dependencies() {
        let dir = tempfile::tempdir().unwrap();
        let workspace = workspace(
            dir.path(),
            &[
                ("a", "requires = [\"d\", \"c\"]\n", ""),
                ("b", "", ""),
                ("c", "", ""),
                ("d", "requires = [\"b\"]\n", ""),
            ],
        );
        let stack = Stack::new(&workspace).unwrap();
        assert_eq!(names(stack.order()), "c b d a");
        let of = |name: &str| stack.select(&[workspace.component(name).unwrap()]);
        assert_eq!((names(&of("d")), names(&of("c"))), ("b d".into(), "c".into()));
        assert_eq!(names(&stack.select(&[])), "c b d a");
        let waves: Vec<String> =
            stack.waves(stack.order()).iter().map(|wave| names(wave)).collect();
        assert_eq!(waves, ["c b", "d", "a"]);
    }

    #[test]
    fn shows_where_a_cycle_closes() {
        let dir = tempfile::tempdir().unwrap();
        let workspace = workspace(
            dir.path(),
            &[
                ("a", "requires = [\"b\"]\n", ""),
                ("b", "requires = [\"c\"]\n", ""),
                ("c", "requires = [\"b\"]\n", ""),
            ],
        );
        let error = Stack::new(&workspace).unwrap_err();
        assert_eq!(error.to_string(), "dependency cycle: b -> c -> b");
        assert!(error.problems()[0].span.is_some());
    }

    #[test]
    fn leaves_out_unbuildable_components_and_their_dependents() {
        let other = "gpu-targets = [\"gfx90a\"]\noptional = true\n";
        let requires = |name: &str, rest: &str| format!("requires = [\"{name}\"]\n{rest}");
        let dir = tempfile::tempdir().unwrap();
        let (needs_gpu, needs_python) =
            (requires("gpu", "optional = true\n"), requires("python", ""));
        let mut workspace = workspace(
            dir.path(),
            &[
                ("brought", "", ""),
                ("gpu", other, ""),
                ("needs-brought", &requires("brought", ""), ""),
                ("needs-gpu", &needs_gpu, ""),
                ("needs-python", &needs_python, ""),
                ("python", "", "python = \"<3.14\"\n"),
                ("same", "gpu-targets = [\"gfx1151\", \"gfx90a\"]\n", ""),
            ],
        );
        workspace.provider.brings.push(At { value: "brought".into(), span: 0..0 });
        let stack = Stack::new(&workspace).unwrap();
        assert_eq!(names(stack.order()), "needs-brought same");
        let targets = stack.gpu_targets(workspace.component("same").unwrap());
        assert_eq!(list(targets), "gfx1151");
        let reasons: Vec<&str> = stack.left_out.values().map(String::as_str).collect();
        assert_eq!(
            reasons,
            [
                "the ROCm provider `fedora` already includes it",
                "upstream supports none of the workspace's GPU targets (gfx1151)",
                "it requires `gpu`, which is left out",
                "it requires `python`, which is left out",
                "upstream allows Python <3.14, but the chroot `fedora-43` has 3.14",
            ]
        );
        let examine = |name: &str| {
            let component = workspace.component(name).unwrap();
            let (stack, why) = Stack::to_examine(&workspace, component).unwrap();
            assert_eq!(why.is_some(), stack.left_out.len() < 5, "{name}");
            let left_out = stack.left_out.contains_key(&component.name);
            (left_out, list(stack.gpu_targets(component)), why.unwrap_or_default())
        };
        let none = "upstream supports none of the workspace's GPU targets (gfx1151)";
        assert_eq!(examine("gpu"), (false, "gfx90a".into(), none.into()));
        let lost = "it requires `gpu`, which is left out";
        assert_eq!(examine("needs-gpu"), (false, "gfx1151".into(), lost.into()));
        assert_eq!(examine("same"), (false, "gfx1151".into(), String::new()));
        for name in ["brought", "python", "needs-python"] {
            assert!(examine(name).0, "{name}");
        }
    }

    #[test]
    fn rejects_a_component_without_a_gpu_target_unless_optional() {
        let other = "gpu-targets = [\"gfx90a\"]\n";
        for (components, expected) in [
            (&[("gpu", other, "")][..], "cannot build `gpu`: upstream supports none"),
            (
                &[
                    ("gpu", "gpu-targets = [\"gfx90a\"]\noptional = true\n", ""),
                    ("x", "requires = [\"gpu\"]\n", ""),
                ],
                "cannot build `x`: it requires `gpu`, which is left out",
            ),
        ] {
            let dir = tempfile::tempdir().unwrap();
            let error = Stack::new(&workspace(dir.path(), components)).unwrap_err();
            assert!(error.to_string().starts_with(expected), "{error}");
            assert!(error.problems()[0].help.as_ref().unwrap().contains("optional = true"));
        }
    }
}
