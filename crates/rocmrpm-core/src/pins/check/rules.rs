//! The rules. Each message names upstream's value and the set's value, because either can be wrong.

use std::collections::BTreeSet;

use pep440_rs::{Version, VersionSpecifiers};

use super::{Check, Severity};
use crate::pins::upstream::{Claim, Statement, Weight};
use crate::workspace::upstreams::{States, UpstreamSource, satisfies};
use crate::workspace::{Pin, RocmVersion, Source, VersionRange, compare};

fn quote(statement: &Statement) -> String {
    format!("{}: `{}`", statement.place, statement.written)
}

fn sources_of(statements: &[&Statement]) -> String {
    let of: BTreeSet<&str> =
        statements.iter().map(|statement| statement.place.of.as_str()).collect();
    of.into_iter().collect::<Vec<_>>().join(" and ")
}

/// Returns the first two numbers of a version of ROCm: `7.14` of `7.14.0`.
fn release(version: &str) -> &str {
    version.match_indices('.').nth(1).map_or(version, |(at, _)| &version[..at])
}

impl<'a> Check<'a> {
    /// Applies all rules.
    pub(super) fn rules(&mut self) {
        let names: Vec<String> =
            self.workspace.pins.written().map(|pin| pin.component.to_string()).collect();
        for name in &names {
            self.versions(name);
        }
        self.table(&names);
        for name in &names {
            self.python(name);
        }
        self.targets();
        self.rocm();
        self.crates();
        self.further_sources();
    }

    /// Returns the set's pins by component.
    fn pins(&self) -> Vec<(&'a str, &'a Pin)> {
        let pins = self.workspace.pins.pins.iter();
        pins.map(|(name, at)| (name.as_str(), &at.value)).collect()
    }

    fn statements(&self, about: &str) -> Vec<Statement> {
        self.read.values().flat_map(|read| read.about(about).cloned()).collect()
    }

    /// Returns whether a statement about a component describes the build in the set.
    fn belongs_to_set(&self, about: &str, statement: &Statement) -> bool {
        let known = self.workspace.upstreams.component(about);
        known
            .and_then(|known| known.against.as_deref())
            .is_none_or(|base| self.names_our(base, statement))
    }

    /// Returns whether the file of a statement names no version of `base` other than the set's.
    fn names_our(&self, base: &str, statement: &Statement) -> bool {
        let Some(pin) = self.pin(base) else { return true };
        let mut stated = self.read.values().flat_map(|read| read.about(base));
        stated.all(|other| {
            !other.place.is_same_file(&statement.place)
                || other.claim.version().is_none_or(|version| version == pin.version)
        })
    }

    /// Compares the version in the set with those that upstream's builds require.
    fn versions(&mut self, name: &str) {
        let Some(pin) = self.pin(name) else { return };
        let statements = self.statements(name);
        let demands: Vec<&Statement> = statements
            .iter()
            .filter(|s| s.weight == Weight::Demand && self.belongs_to_set(name, s))
            .collect();
        // What a source states about itself is not a requirement.
        let own = format!("{name} ");
        let (of_itself, named): (Vec<&Statement>, Vec<&Statement>) = statements
            .iter()
            .filter(|s| {
                s.claim.version().is_some()
                    && (s.weight == Weight::Demand || s.place.of.starts_with(&own))
            })
            .filter(|s| self.belongs_to_set(name, s))
            .partition(|s| s.place.of.starts_with(&own));
        for statement in
            of_itself.iter().filter(|s| s.claim.version() != Some(pin.version.as_str()))
        {
            let message = format!("the source of {name} {} states another version", pin.version);
            self.find(
                Severity::Warning,
                "version",
                name,
                &["version"],
                message,
                vec![quote(statement)],
            );
        }
        let (agree, differ): (Vec<&Statement>, Vec<&Statement>) =
            named.into_iter().partition(|s| s.claim.version() == Some(pin.version.as_str()));
        if !differ.is_empty() {
            let versions: BTreeSet<&str> =
                differ.iter().filter_map(|s| s.claim.version()).collect();
            let versions = versions.into_iter().collect::<Vec<_>>().join(" or ");
            let (severity, message) = if agree.is_empty() {
                let message = format!(
                    "the set has {name} {}, but {versions} is required by {}",
                    pin.version,
                    sources_of(&differ)
                );
                (Severity::Error, message)
            } else {
                let message = format!(
                    "upstream's files disagree about {name}: some have {}, others {versions}",
                    pin.version
                );
                (Severity::Note, message)
            };
            self.find(
                severity,
                "version",
                name,
                &["version"],
                message,
                differ.iter().map(|s| quote(s)).collect(),
            );
        }
        for statement in &demands {
            self.specifiers(name, &pin.version, statement);
            self.commit(name, &pin.source, &pin.version, statement);
        }
    }

    fn specifiers(&mut self, name: &str, version: &str, statement: &Statement) {
        let Claim::Requires(wanted) = &statement.claim else { return };
        let (Ok(specifiers), Ok(parsed)) =
            (wanted.parse::<VersionSpecifiers>(), version.parse::<Version>())
        else {
            return;
        };
        if !specifiers.contains(&parsed) {
            let message = format!(
                "the set has {name} {version}, but {wanted} is required by {}",
                statement.place.of
            );
            self.find(
                Severity::Error,
                "version",
                name,
                &["version"],
                message,
                vec![quote(statement)],
            );
        }
    }

    fn commit(&mut self, name: &str, source: &Source, version: &str, statement: &Statement) {
        let (Claim::Commit { commit: wanted, .. }, Source::Git { commit: Some(commit), .. }) =
            (&statement.claim, source)
        else {
            return;
        };
        if !commit.starts_with(wanted.as_str()) {
            let message =
                format!("{} requires another commit of {name} {version}", statement.place.of);
            self.find(
                Severity::Warning,
                "commit",
                name,
                &["commit"],
                message,
                vec![quote(statement)],
            );
        }
    }

    /// Checks the table where upstream's files were not read or state nothing.
    fn table(&mut self, names: &[String]) {
        let mut reported: BTreeSet<(String, String)> = BTreeSet::new();
        for name in names {
            let Some(pin) = self.pin(name) else { continue };
            let Some(row) = self.workspace.upstreams.together(name, &pin.version) else { continue };
            for (other, wanted) in &row.with {
                let Some(there) = self.pin(other) else { continue };
                let spoken = self.read.get(name.as_str()).is_some_and(|read| {
                    read.about(other)
                        .any(|s| s.weight == Weight::Demand && s.claim.version().is_some())
                });
                // Report a pair once, whichever of the two rows has it.
                let mut pair = [name.clone(), other.clone()];
                pair.sort();
                let [a, b] = pair;
                if spoken || satisfies(&there.version, wanted) || !reported.insert((a, b)) {
                    continue;
                }
                let may_differ =
                    self.workspace.upstreams.component(other).is_some_and(|known| known.may_differ);
                let severity = if may_differ { Severity::Warning } else { Severity::Error };
                let condition = if wanted.starts_with(['<', '>', '=', '!']) { "" } else { "==" };
                let message = format!(
                    "{name} {} works with {other} {condition}{wanted}, but the set has {}",
                    pin.version, there.version
                );
                self.find(severity, "table", other, &["version"], message, vec![row.cited()]);
            }
        }
    }

    /// Compares the chroot's Python with the range that upstream allows.
    fn python(&mut self, name: &str) {
        let chroot = &self.workspace.chroot;
        let (python, Some(pin)) = (chroot.python.as_str(), self.pin(name)) else { return };
        if python.is_empty() {
            return;
        }
        let own = self.read.get(name).map(|read| read.about(name).cloned().collect::<Vec<_>>());
        let refused = own.iter().flatten().find_map(|statement| match &statement.claim {
            Claim::Python(range) => {
                let parsed = VersionRange::parse(range)?;
                (!parsed.holds(python)).then(|| (parsed.to_string(), quote(statement)))
            }
            Claim::Pythons(list) => {
                (!list.iter().any(|one| one == python)).then(|| (list.join(", "), quote(statement)))
            }
            _ => None,
        });
        let row = self.workspace.upstreams.together(name, &pin.version);
        let refused = refused.or_else(|| {
            let row = row?;
            let range = row.python.as_deref()?;
            let holds = VersionRange::parse(range)?.holds(python);
            (!holds).then(|| (range.to_owned(), row.cited()))
        });
        let Some((allowed, place)) = refused else { return };
        let has = format!(
            "{name} {} allows Python {allowed}, but the chroot {} has {python}",
            pin.version, chroot.name
        );
        let edited = self.edits_python(name, &pin.version);
        let (severity, message) = if !pin.python.holds(python) {
            (Severity::Note, format!("{has}: the set leaves the component out there"))
        } else if let Some(file) = edited {
            (Severity::Note, format!("{has}: the component edits {file}"))
        } else if pin.python.to_string().is_empty() {
            (Severity::Error, has)
        } else {
            (
                Severity::Warning,
                format!("{has}, which only the set allows: a patch must add the support"),
            )
        };
        self.find(severity, "python", name, &["python"], message, vec![place]);
    }

    /// Returns the file with the allowed Python versions that a component edits.
    fn edits_python(&self, name: &str, version: &str) -> Option<String> {
        let component = self.workspace.component(name).ok()?;
        let files = ["pyproject.toml", "setup.py", "CMakeLists.txt"];
        let about_python = |text: &str| text.to_ascii_lowercase().contains("python");
        let mut edits = component
            .edits_for(version)
            .filter(|edit| about_python(&edit.find) && edit.source.is_none());
        edits.find(|edit| files.contains(&edit.file.as_str())).map(|edit| edit.file.clone())
    }

    /// Compares the workspace's GPU targets with those that components support.
    fn targets(&mut self) {
        let statements = self.read.values().flat_map(|read| read.statements.iter().cloned());
        for statement in statements.collect::<Vec<_>>() {
            let Claim::Targets(list) = &statement.claim else { continue };
            let targets = self.workspace.manifest.gpu_targets.iter().map(ToString::to_string);
            let missing: Vec<String> = targets.filter(|target| !list.contains(target)).collect();
            if missing.is_empty() {
                continue;
            }
            let message = format!(
                "{} does not support these GPU targets of the workspace: {}",
                statement.place.of,
                missing.join(", ")
            );
            let about = &statement.about;
            self.find(
                Severity::Error,
                "gpu-target",
                about,
                &["version"],
                message,
                vec![quote(&statement)],
            );
        }
    }

    /// Compares the provider's ROCm with the releases that upstream builds with.
    fn rocm(&mut self) {
        let provider = &self.workspace.provider;
        let RocmVersion::Known(ours) = &provider.version else { return };
        let ours = release(ours);
        let has = format!("the provider {} has ROCm {ours}", provider.name);
        let statements = self.statements("rocm");
        for statement in statements.iter().filter(|s| s.weight == Weight::Demand) {
            let of = &statement.place.of;
            let (severity, message) = match &statement.claim {
                Claim::Rocm(releases) => {
                    let mut sorted: Vec<&str> =
                        releases.iter().map(|version| release(version)).collect();
                    sorted.sort_by(|a, b| compare(a, b));
                    let (Some(lowest), Some(highest)) = (sorted.first(), sorted.last()) else {
                        continue;
                    };
                    if compare(ours, lowest).is_lt() {
                        (Severity::Error, format!("{of} needs ROCm {lowest} or newer, but {has}"))
                    } else if compare(ours, highest).is_gt() {
                        (
                            Severity::Warning,
                            format!("{of} supports ROCm up to {highest}, but {has}"),
                        )
                    } else {
                        continue;
                    }
                }
                Claim::BuiltWithRocm(version) => {
                    let theirs = release(version);
                    let bases = self.workspace.upstreams.bases();
                    let ours_is_older = compare(ours, theirs).is_lt();
                    if !ours_is_older || !bases.iter().all(|base| self.names_our(base, statement)) {
                        continue;
                    }
                    (
                        Severity::Warning,
                        format!("upstream builds {of} with ROCm {theirs}, but {has}"),
                    )
                }
                _ => continue,
            };
            if !self.findings.iter().any(|f| f.rule == "rocm" && f.message == message) {
                let component = of.split(' ').next().unwrap_or_default();
                self.find(
                    severity,
                    "rocm",
                    component,
                    &["version"],
                    message,
                    vec![quote(statement)],
                );
            }
        }
        if statements.iter().any(|statement| matches!(statement.claim, Claim::Rocm(_))) {
            return;
        }
        for (name, pin) in self.pins() {
            let Some(row) = self.workspace.upstreams.together(name, &pin.version) else { continue };
            if let Some(lowest) = row.rocm.as_deref().filter(|lowest| compare(ours, lowest).is_lt())
            {
                let message =
                    format!("{name} {} needs ROCm {lowest} or newer, but {has}", pin.version);
                self.find(Severity::Error, "rocm", name, &["version"], message, vec![row.cited()]);
            }
        }
    }

    /// Checks the crates of components with a lock file of crates.
    fn crates(&mut self) {
        for (name, pin) in self.pins() {
            let Some(read) = self.read.get(name) else { continue };
            let states_crates =
                |statement: &&Statement| matches!(statement.claim, Claim::Crates(_));
            let lock = read.about(name).find(states_crates).cloned();
            let has_source =
                pin.sources.values().any(|source| matches!(source.source, Source::Crates { .. }));
            match (lock, has_source) {
                (Some(lock), false) => {
                    let message = format!(
                        "{name} {} has a Rust part, but the set has no source for its crates: the \
                         build would download them",
                        pin.version
                    );
                    self.find(
                        Severity::Error,
                        "crates",
                        name,
                        &["version"],
                        message,
                        vec![quote(&lock)],
                    );
                    if let Some(finding) = self.findings.last_mut() {
                        let file = &lock.place.file;
                        finding.help = Some(format!(
                            "add `[{name}.sources.crates]` with `cargo-vendor = \"{file}\"`"
                        ));
                    }
                }
                (None, true) if self.can_have_crates(name) => {
                    let message = format!(
                        "{name} {} has no lock file of crates, so rocmrpm cannot pack them",
                        pin.version
                    );
                    self.find(Severity::Error, "crates", name, &["sources"], message, Vec::new());
                }
                _ => {}
            }
        }
    }

    fn can_have_crates(&self, name: &str) -> bool {
        let files = self.workspace.upstreams.files.iter().filter(|file| file.of == name);
        files.flat_map(|file| &file.facts).any(|fact| fact.states == States::Crates)
    }

    /// Checks further sources whose commit or version a component's files state.
    fn further_sources(&mut self) {
        let upstreams = &self.workspace.upstreams;
        for (name, pin) in self.pins() {
            for known in upstreams.sources_of(name, &pin.version) {
                let Some(read) = self.read.get(name) else { continue };
                let is_revision =
                    |claim: &Claim| matches!(claim, Claim::Commit { .. } | Claim::Tag { .. });
                let statement =
                    read.about(&known.name).find(|statement| is_revision(&statement.claim));
                if let Some(statement) = statement.cloned() {
                    self.further_source(known, pin, &statement);
                }
            }
        }
    }

    fn further_source(&mut self, known: &UpstreamSource, pin: &Pin, statement: &Statement) {
        let UpstreamSource { of, name, .. } = known;
        let source = match pin.sources.get(name) {
            // The set has it as a component of its own.
            None if self.pin(name).is_some() => return,
            None => {
                let message =
                    format!("{of} {} needs {name}, but the set has no source for it", pin.version);
                self.find(
                    Severity::Error,
                    "further-source",
                    of,
                    &["version"],
                    message,
                    vec![quote(statement)],
                );
                return;
            }
            Some(source) => source,
        };
        let (differs, what) = match (&statement.claim, &source.source) {
            (Claim::Commit { commit: wanted, .. }, Source::Git { commit: Some(commit), .. }) => {
                (!commit.starts_with(wanted.as_str()), "commit")
            }
            (claim, _) => {
                (claim.version().is_some_and(|version| version != source.version), "version")
            }
        };
        if differs {
            let message = format!("{of} {} needs another {what} of {name}", pin.version);
            let keys = ["sources", name, what];
            self.find(
                Severity::Error,
                "further-source",
                of,
                &keys,
                message,
                vec![quote(statement)],
            );
        } else if let Source::Git { url, .. } = &source.source
            && *url != known.git
            && self.workspace.upstreams.has_repository(known, url)
        {
            // A packager's own repository can have any commit.
            let message = format!(
                "{of} {} takes {name} from {}, but the set uses the repository of other versions",
                pin.version, known.git
            );
            let keys = ["sources", name, "git"];
            self.find(
                Severity::Warning,
                "further-source",
                of,
                &keys,
                message,
                vec![quote(statement)],
            );
        }
    }
}
