//! The rules. Each sentence names what upstream says and what the set says, because both
//! can be wrong.

use std::collections::BTreeSet;

use pep440_rs::{Version, VersionSpecifiers};

use super::{Check, Severity};
use crate::pins::compat::satisfies;
use crate::pins::upstream::{Says, Statement, Weight};
use crate::workspace::{RocmVersion, Source, VersionRange, compare};

/// What is built against one torch.
const AGAINST_TORCH: &[&str] = &["triton", "torchvision", "torchaudio"];

fn said(statement: &Statement) -> String {
    format!("{} says `{}`", statement.place, statement.written)
}

fn whose(statements: &[&Statement]) -> String {
    let of: BTreeSet<&str> = statements.iter().map(|statement| statement.place.of.as_str()).collect();
    of.into_iter().collect::<Vec<_>>().join(" and ")
}

/// Returns the first two numbers of a version of ROCm: `7.14` of `7.14.0`.
fn release(version: &str) -> &str {
    version.match_indices('.').nth(1).map_or(version, |(at, _)| &version[..at])
}

impl Check<'_> {
    /// Applies all rules.
    pub(super) fn rules(&mut self) {
        let names: Vec<String> = self.workspace.pins.written().map(|pin| pin.component.to_string()).collect();
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
        self.llvm();
        self.kernels();
    }

    fn statements(&self, about: &str) -> Vec<Statement> {
        self.read.values().flat_map(|read| read.about(about).cloned()).collect()
    }

    /// Returns whether a file's versions belong to the set's torch.
    fn same_torch(&self, about: &str, statement: &Statement) -> bool {
        let Some(torch) = self.pin("torch").filter(|_| AGAINST_TORCH.contains(&about)) else { return true };
        let mut torches = self.read.values().flat_map(|read| read.about("torch"));
        torches.all(|other| {
            let same_file =
                (&other.place.of, &other.place.file) == (&statement.place.of, &statement.place.file);
            !same_file || other.says.version().is_none_or(|version| version == torch.version)
        })
    }

    /// The version that the set has against those that upstream's builds demand.
    fn versions(&mut self, name: &str) {
        let Some(pin) = self.pin(name) else { return };
        let statements = self.statements(name);
        let demands: Vec<&Statement> =
            statements.iter().filter(|s| s.weight == Weight::Demand && self.same_torch(name, s)).collect();
        // What a source says of itself is no demand.
        let own = format!("{name} ");
        let (of_itself, named): (Vec<&Statement>, Vec<&Statement>) = statements
            .iter()
            .filter(|s| {
                s.says.version().is_some() && (s.weight == Weight::Demand || s.place.of.starts_with(&own))
            })
            .filter(|s| self.same_torch(name, s))
            .partition(|s| s.place.of.starts_with(&own));
        for statement in of_itself.iter().filter(|s| s.says.version() != Some(pin.version.as_str())) {
            let message = format!("the source that is pinned as {name} {} says another version", pin.version);
            self.find(Severity::Warning, "version", name, &["version"], message, vec![said(statement)]);
        }
        let (agree, differ): (Vec<&Statement>, Vec<&Statement>) =
            named.into_iter().partition(|s| s.says.version() == Some(pin.version.as_str()));
        if !differ.is_empty() {
            let versions: BTreeSet<&str> = differ.iter().filter_map(|s| s.says.version()).collect();
            let versions = versions.into_iter().collect::<Vec<_>>().join(" or ");
            let (severity, message) = if agree.is_empty() {
                let message =
                    format!("{} wants {name} {versions}, and the set has {}", whose(&differ), pin.version);
                (Severity::Error, message)
            } else {
                let message = format!(
                    "upstream contradicts itself about {name}: {} files agree with {}, others have {versions}",
                    agree.len(),
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
                differ.iter().map(|s| said(s)).collect(),
            );
        }
        for statement in &demands {
            self.specifiers(name, &pin.version, statement);
            self.commit(name, &pin.source, &pin.version, statement);
        }
    }

    fn specifiers(&mut self, name: &str, version: &str, statement: &Statement) {
        let Says::Requires(wanted) = &statement.says else { return };
        let (Ok(specifiers), Ok(parsed)) = (wanted.parse::<VersionSpecifiers>(), version.parse::<Version>())
        else {
            return;
        };
        if !specifiers.contains(&parsed) {
            let message = format!("{} wants {name}{wanted}, and the set has {version}", statement.place.of);
            self.find(Severity::Error, "version", name, &["version"], message, vec![said(statement)]);
        }
    }

    fn commit(&mut self, name: &str, source: &Source, version: &str, statement: &Statement) {
        let (Says::Commit { commit: wanted, .. }, Source::Git { commit: Some(commit), .. }) =
            (&statement.says, source)
        else {
            return;
        };
        if !commit.starts_with(wanted.as_str()) {
            let message =
                format!("{} takes another commit of {name} {version} than the set", statement.place.of);
            self.find(Severity::Warning, "commit", name, &["commit"], message, vec![said(statement)]);
        }
    }

    /// The table, where upstream's files were not read or are silent.
    fn table(&mut self, names: &[String]) {
        let mut told: BTreeSet<(String, String)> = BTreeSet::new();
        for name in names {
            let Some(pin) = self.pin(name) else { continue };
            let Some(row) = self.compat.row(name, &pin.version) else { continue };
            for (other, wanted) in &row.with {
                let Some(there) = self.pin(other) else { continue };
                let spoken = self.read.get(name.as_str()).is_some_and(|read| {
                    read.about(other).any(|s| s.weight == Weight::Demand && s.says.version().is_some())
                });
                // A pair is told once, whichever of the two rows has it.
                let mut pair = [name.clone(), other.clone()];
                pair.sort();
                let [a, b] = pair;
                if spoken || satisfies(&there.version, wanted) || !told.insert((a, b)) {
                    continue;
                }
                let severity = if other == "torchaudio" { Severity::Warning } else { Severity::Error };
                let condition = if wanted.starts_with(['<', '>', '=', '!']) { "" } else { "==" };
                let message = format!(
                    "{name} {} goes with {other} {condition}{wanted}, and the set has {}",
                    pin.version, there.version
                );
                let source = format!("table of what goes together: {}", row.source);
                self.find(severity, "table", other, &["version"], message, vec![source]);
            }
        }
    }

    /// The chroot's Python against what upstream allows.
    fn python(&mut self, name: &str) {
        let chroot = &self.workspace.chroot;
        let (python, Some(pin)) = (chroot.python.as_str(), self.pin(name)) else { return };
        if python.is_empty() {
            return;
        }
        let own = self.read.get(name).map(|read| read.about(name).cloned().collect::<Vec<_>>());
        let refused = own.iter().flatten().find_map(|statement| match &statement.says {
            Says::Python(range) => {
                let parsed = VersionRange::parse(range)?;
                (!parsed.holds(python)).then(|| (parsed.to_string(), said(statement)))
            }
            Says::Pythons(list) => {
                (!list.iter().any(|one| one == python)).then(|| (list.join(", "), said(statement)))
            }
            _ => None,
        });
        let row = self.compat.row(name, &pin.version);
        let refused = refused.or_else(|| {
            let row = row?;
            let range = row.python.as_deref()?;
            let holds = VersionRange::parse(range)?.holds(python);
            let source = format!("table of what goes together: {}", row.source);
            (!holds).then(|| (range.to_owned(), source))
        });
        let Some((allowed, place)) = refused else { return };
        let has = format!(
            "{name} {} allows Python {allowed}, and the chroot {} has {python}",
            pin.version, chroot.name
        );
        let edited = self.edits_python(name, &pin.version);
        let (severity, message) = if !pin.python.holds(python) {
            (Severity::Note, format!("{has}: it is left out there, as the set says"))
        } else if let Some(file) = edited {
            (Severity::Note, format!("{has}: the component edits {file}"))
        } else if pin.python.to_string().is_empty() {
            (Severity::Error, has)
        } else {
            (Severity::Warning, format!("{has}, which the set allows: is there a patch for it?"))
        };
        self.find(severity, "python", name, &["python"], message, vec![place]);
    }

    /// Returns the file, of those that say which Pythons are allowed, that a component edits.
    fn edits_python(&self, name: &str, version: &str) -> Option<String> {
        let component = self.workspace.component(name).ok()?;
        let said = ["pyproject.toml", "setup.py", "CMakeLists.txt"];
        let about_python = |text: &str| text.to_ascii_lowercase().contains("python");
        let mut edits =
            component.edits_for(version).filter(|edit| about_python(&edit.find) && edit.source.is_none());
        edits.find(|edit| said.contains(&edit.file.as_str())).map(|edit| edit.file.clone())
    }

    /// The workspace's GPU targets against vLLM's list.
    fn targets(&mut self) {
        for statement in self.statements("vllm") {
            let Says::Targets(list) = &statement.says else { continue };
            let missing: Vec<String> = self
                .workspace
                .manifest
                .gpu_targets
                .iter()
                .map(ToString::to_string)
                .filter(|target| !list.contains(target))
                .collect();
            if !missing.is_empty() {
                let message = format!(
                    "{} cannot be built for {}, which the workspace is for",
                    statement.place.of,
                    missing.join(", ")
                );
                self.find(
                    Severity::Error,
                    "gpu-target",
                    "vllm",
                    &["version"],
                    message,
                    vec![said(&statement)],
                );
            }
        }
    }

    /// The provider's ROCm against what upstream builds with.
    fn rocm(&mut self) {
        let provider = &self.workspace.provider;
        let RocmVersion::Known(ours) = &provider.version else { return };
        let ours = release(ours);
        let has = format!("the provider {} has ROCm {ours}", provider.name);
        let mut listed = false;
        for statement in self.statements("rocm").iter().filter(|s| s.weight == Weight::Demand) {
            let Says::Rocm(versions) = &statement.says else { continue };
            let component = statement.place.of.split(' ').next().unwrap_or_default();
            let mut sorted: Vec<&str> = versions.iter().map(|version| release(version)).collect();
            sorted.sort_by(|a, b| compare(a, b));
            let (Some(lowest), Some(highest)) = (sorted.first(), sorted.last()) else { continue };
            let (severity, message) = if component == "torch" {
                listed = true;
                if compare(ours, lowest).is_lt() {
                    (
                        Severity::Error,
                        format!("{} needs ROCm {lowest} or newer, and {has}", statement.place.of),
                    )
                } else if compare(ours, highest).is_gt() {
                    (
                        Severity::Warning,
                        format!("{} knows no ROCm above {highest}, and {has}", statement.place.of),
                    )
                } else {
                    continue;
                }
            } else if self.of_our_torch(statement) && compare(ours, lowest).is_lt() {
                (
                    Severity::Warning,
                    format!("{} is built with ROCm {lowest} upstream, and {has}", statement.place.of),
                )
            } else {
                continue;
            };
            if !self.findings.iter().any(|f| f.rule == "rocm" && f.message == message) {
                self.find(severity, "rocm", component, &["version"], message, vec![said(statement)]);
            }
        }
        if listed {
            return;
        }
        let Some(pin) = self.pin("aotriton") else { return };
        let Some(row) = self.compat.row("aotriton", &pin.version) else { return };
        if let Some(lowest) = row.rocm.as_deref().filter(|lowest| compare(ours, lowest).is_lt()) {
            let message = format!("aotriton {} needs ROCm {lowest} or newer, and {has}", pin.version);
            let source = format!("table of what goes together: {}", row.source);
            self.find(Severity::Error, "rocm", "aotriton", &["version"], message, vec![source]);
        }
    }

    /// Returns whether a file of vLLM's is about the set's torch, as far as it says.
    fn of_our_torch(&self, statement: &Statement) -> bool {
        let Some(torch) = self.pin("torch") else { return true };
        let torches = self.statements("torch");
        let mut torches = torches.iter().filter(|other| other.place.file == statement.place.file);
        torches.all(|other| other.says.version().is_none_or(|version| version == torch.version))
    }

    /// The crates of vLLM's Rust part.
    fn crates(&mut self) {
        let (Some(pin), true) = (self.pin("vllm"), self.read.contains_key("vllm")) else { return };
        let statements = self.statements("vllm");
        let lock = statements.iter().find(|statement| matches!(statement.says, Says::Crates(_)));
        let source = pin.sources.values().any(|source| matches!(source.source, Source::Crates { .. }));
        match (lock, source) {
            (Some(lock), false) => {
                let message = format!(
                    "vllm {} has a Rust part, and the set has no source for its crates: its build would fetch them",
                    pin.version
                );
                self.find(Severity::Error, "crates", "vllm", &["version"], message, vec![said(lock)]);
                if let Some(finding) = self.findings.last_mut() {
                    finding.help =
                        Some("add `[vllm.sources.crates]` with `cargo-vendor = \"rust/Cargo.lock\"`".into());
                }
            }
            (None, true) => {
                let message =
                    format!("vllm {} has no rust/Cargo.lock whose crates could be packed", pin.version);
                self.find(Severity::Error, "crates", "vllm", &["sources"], message, Vec::new());
            }
            _ => {}
        }
    }

    /// Triton's LLVM, which is one commit of it.
    fn llvm(&mut self) {
        let Some(pin) = self.pin("triton") else { return };
        let statements = self.statements("llvm");
        let Some(statement) = statements.first() else { return };
        let Says::Commit { commit: wanted, .. } = &statement.says else { return };
        let place = vec![said(statement)];
        match pin.sources.get("llvm").map(|source| &source.source) {
            None => {
                let message = format!(
                    "triton {} is written against one commit of LLVM, and the set has no source for it",
                    pin.version
                );
                self.find(Severity::Error, "llvm", "triton", &["version"], message, place);
            }
            Some(Source::Git { commit: Some(commit), .. }) if commit != wanted => {
                let message = format!(
                    "triton {} is written against another commit of LLVM than the set has",
                    pin.version
                );
                self.find(Severity::Error, "llvm", "triton", &["sources", "llvm", "commit"], message, place);
            }
            Some(_) => {}
        }
    }

    /// triton_kernels, where the set has it as a further source of vLLM.
    fn kernels(&mut self) {
        let Some(pin) = self.pin("vllm") else { return };
        let statements = self.statements("triton-kernels");
        let Some(statement) = statements.first() else { return };
        match pin.sources.get("triton-kernels") {
            None if self.pin("triton-kernels").is_none() => {
                let message =
                    format!("vllm {} fetches triton_kernels, and the set has no source for it", pin.version);
                self.find(Severity::Error, "kernels", "vllm", &["version"], message, vec![said(statement)]);
            }
            None => {}
            Some(source) => {
                let differs = match (&statement.says, &source.source) {
                    (Says::Commit { commit: wanted, .. }, Source::Git { commit: Some(commit), .. }) => {
                        !commit.starts_with(wanted.as_str())
                    }
                    (says, _) => says.version().is_some_and(|version| version != source.version),
                };
                if differs {
                    let message =
                        format!("vllm {} wants another triton_kernels than the set has", pin.version);
                    let keys = ["sources", "triton-kernels"];
                    self.find(Severity::Error, "kernels", "vllm", &keys, message, vec![said(statement)]);
                }
            }
        }
    }
}
