//! Determines which files affect a component's packages, across all chroots of a workspace: a
//! commit then gives the same Release everywhere, and an upgrade to the next release never
//! encounters a lower one. It does not read the history.

use std::collections::BTreeSet;

use super::pinned::{Pinned, below, folders};
use crate::names::ComponentName;
use crate::workspace::{Component, GENERATED, GENERATED_PINS, HOST, MANIFEST, Pin, Workspace};

/// The files of a workspace that affect its packages.
#[derive(Debug, Clone, Default)]
pub(super) struct Scope {
    /// The name of the pin set.
    set: String,
    /// The path of the pin set in the workspace.
    pub pins: String,
    /// The path of the lock file.
    pub lock: String,
    /// The path of the pins of the selected chroot's closure.
    pub closure: String,
    /// Files and folders that every component of the selected chroot depends on.
    pub shared: Vec<String>,
    /// Files that only affect the host chroot; empty if it is selected.
    of_host: BTreeSet<String>,
    /// Prefix of the files of the host's closure; `None` if the host is selected.
    host_stem: Option<String>,
}

impl Scope {
    pub fn of(workspace: &Workspace) -> Self {
        let set = &workspace.pins.name;
        let mut shared = vec![
            MANIFEST.to_owned(),
            "specs-templates/_shared".to_owned(),
            format!("mock-configs/{}.toml", workspace.chroot.name),
            format!("mock-configs/rocm/{}.toml", workspace.provider.name),
            format!("mock-configs/rocm/{}.lock", workspace.provider.name),
        ];
        let mut scope = Self {
            set: set.clone(),
            pins: format!("pins/{set}.toml"),
            lock: format!("pins/{set}.lock"),
            closure: format!("pins/{}{GENERATED_PINS}.toml", workspace.closure_stem()),
            ..Self::default()
        };
        if !workspace.chroot.is_host() {
            shared.push("mock-configs/mock.cfg.tera".to_owned());
            scope.of_host.insert(format!("mock-configs/{HOST}.toml"));
            scope.host_stem = Some(workspace.closure_stem_for(HOST));
            let provider =
                workspace.other_chroots.get(HOST).map(|host| host.rocm_provider.value.as_str());
            let releases = || workspace.all_chroots().filter(|chroot| !chroot.is_host());
            scope.of_host.extend(
                provider
                    .filter(|provider| {
                        releases().all(|chroot| chroot.rocm_provider.value != *provider)
                    })
                    .map(|provider| format!("mock-configs/rocm/{provider}.toml")),
            );
        }
        Self { shared, ..scope }
    }

    /// Returns the pathspecs for git. They include definitions of removed chroots; otherwise the
    /// Release would decrease when a chroot is removed.
    pub fn pathspecs(&self) -> Vec<String> {
        let globs = ["mock-configs/*.toml", "mock-configs/rocm/*.toml", "mock-configs/rocm/*.lock"];
        let generated = format!(":(glob)pins/*{GENERATED_PINS}.toml");
        let globs = globs.iter().map(|glob| format!(":(glob){glob}")).chain([generated]);
        let plain =
            [&self.pins, &self.lock, MANIFEST, "specs-templates", "mock-configs/mock.cfg.tera"]
                .map(str::to_owned);
        plain.into_iter().chain(globs).collect()
    }

    /// Returns whether a path contains the pins of a closure in the set, for any chroot.
    pub fn is_closure_pins(&self, path: &str) -> bool {
        let name = path.strip_prefix("pins/").and_then(|path| path.strip_suffix(".toml"));
        name.and_then(|name| name.strip_suffix(GENERATED_PINS))
            .is_some_and(|stem| self.is_stem(stem))
    }

    /// Returns whether this is the name prefix of a closure in the set.
    fn is_stem(&self, stem: &str) -> bool {
        let rest = stem.strip_prefix(&self.set);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
            && self.host_stem.as_deref() != Some(stem)
    }

    /// Returns the part of a path below the folder of a closure in the set.
    fn in_closure<'p>(&self, path: &'p str) -> Option<&'p str> {
        let path =
            path.strip_prefix("specs-templates/")?.strip_prefix(GENERATED)?.strip_prefix('/')?;
        path.split_once('/').filter(|(stem, _)| self.is_stem(stem)).map(|(_, rest)| rest)
    }

    /// Returns whether a path affects every component of some chroot.
    fn concerns_all(&self, path: &str) -> bool {
        let definition = path.strip_prefix("mock-configs/").is_some_and(|path| {
            let path = path.strip_prefix("rocm/").unwrap_or(path);
            path.ends_with(".toml") && !path.contains('/')
        });
        path == MANIFEST
            || below(path, "specs-templates/_shared")
            || path == "mock-configs/mock.cfg.tera"
            || definition && !self.of_host.contains(path)
    }
}

/// A component with all of its dependencies, including those that a chroot omits: a component built
/// with a changed dependency counts as changed.
pub(super) struct Family<'a> {
    scope: &'a Scope,
    /// The names of hand-written components.
    names: BTreeSet<&'a ComponentName>,
    /// Their folders in the workspace, and the folders of their sources.
    folders: Vec<String>,
    /// The generated component, if it is one.
    generated: Option<&'a ComponentName>,
    /// Whether all generated components are included.
    closure: bool,
}

impl<'a> Family<'a> {
    pub fn of(scope: &'a Scope, workspace: &'a Workspace, component: &'a Component) -> Self {
        let mut family = Self {
            scope,
            names: BTreeSet::new(),
            folders: vec![],
            generated: None,
            closure: false,
        };
        if component.generated.is_some() {
            family.generated = Some(&component.name);
            return family;
        }
        let mut open = vec![component];
        while let Some(component) = open.pop() {
            if component.generated.is_some() || !family.names.insert(&component.name) {
                continue;
            }
            let dir = component.dir.strip_prefix(&workspace.root).unwrap_or(&component.dir);
            family.folders.push(dir.to_string_lossy().into_owned());
            family.folders.extend(folders(workspace.pin(component)));
            family.closure |= component.closure.is_some();
            let required = component.requires.iter();
            let find = |name: &str| workspace.components.get(name);
            open.extend(required.filter_map(|at| find(&at.value)));
        }
        family
    }

    /// Returns whether a changed file affects these components.
    pub fn concerns(&self, path: &str) -> bool {
        let generated = self.scope.in_closure(path);
        self.scope.concerns_all(path)
            || self.folders.iter().any(|folder| below(path, folder))
            || generated.is_some_and(|path| {
                self.closure || self.generated.is_some_and(|name| below(path, name.as_str()))
            })
    }

    /// Returns their pins, each with the path of its file.
    pub fn pins<'p>(&self, pinned: &'p Pinned) -> Vec<(&'p str, &'p Pin)> {
        let own = pinned.own.iter().flat_map(|set| set.pins.values());
        let own =
            own.map(|at| ("", &at.value)).filter(|(_, pin)| self.names.contains(&pin.component));
        let closures = pinned.closures.iter().flat_map(|(path, set)| {
            let pins = set.pins.values().map(|at| &at.value);
            let mine = |pin: &&Pin| self.closure || self.generated == Some(&pin.component);
            pins.filter(mine).map(move |pin| (path.as_str(), pin))
        });
        own.chain(closures).collect()
    }
}
