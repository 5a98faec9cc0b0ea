//! The candidates for the values of arguments: names of the workspace, and names that rocmrpm has.

use std::path::Path;

use clap::builder::StyledStr;
use clap_complete::engine::{ArgValueCandidates, CompletionCandidate};

use crate::build::{Stage, causes};
use crate::gpu::GpuTarget;
use crate::gpu_families::{self, NATIVE};
use crate::lint::rule_groups;
use crate::workspace::{Flavor, find_root, names};

/// What the value of an argument is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Candidates {
    Components,
    /// A component before `=`.
    Pins,
    Chroots,
    PinSets,
    Stages,
    /// Rules of inspection and lint, and causes of failed builds.
    Explained,
    Flavors,
    GpuTargets,
}

impl Candidates {
    /// Returns what the value of an argument is, if rocmrpm knows candidates. A table here keeps
    /// the definitions of the arguments free of it, and covers new arguments with usual names.
    pub(super) fn of(command: &str, id: &str) -> Option<Self> {
        Some(match (command, id) {
            ("outdated", "names") | (_, "component" | "components") => Self::Components,
            ("derive", "from" | "choices") | (_, "overrides") => Self::Pins,
            (_, "chroot") => Self::Chroots,
            ("diff", "old" | "new") | ("derive", "base") | (_, "pins") => Self::PinSets,
            (_, "until") => Self::Stages,
            ("explain", "id") => Self::Explained,
            (_, "flavor") => Self::Flavors,
            (_, "gpu_targets") => Self::GpuTargets,
            _ => return None,
        })
    }

    /// Returns the candidates. Those of a workspace are of the one that contains `dir`; there are
    /// none if there is no such workspace, or if it belongs to another user.
    pub(super) fn values(self, dir: &Path) -> ArgValueCandidates {
        let dir = dir.to_owned();
        ArgValueCandidates::new(move || self.list(&dir))
    }

    fn list(self, dir: &Path) -> Vec<CompletionCandidate> {
        let plain = |names: Vec<String>| names.into_iter().map(CompletionCandidate::new).collect();
        let of_workspace = |list: fn(&Path) -> Vec<String>| {
            find_root(dir).map(|root| list(&root)).unwrap_or_default()
        };
        match self {
            Self::Components => {
                let mut all: Vec<CompletionCandidate> = plain(of_workspace(names::components));
                let generated = of_workspace(names::generated_components).into_iter();
                // Offered once the word matches nothing else: a closure has hundreds of them.
                all.extend(generated.map(|name| CompletionCandidate::new(name).hide(true)));
                all
            }
            Self::Pins => {
                let names = of_workspace(names::components).into_iter();
                names.map(|name| CompletionCandidate::new(format!("{name}="))).collect()
            }
            Self::Chroots => plain(of_workspace(names::chroots)),
            Self::PinSets => plain(of_workspace(names::pin_sets)),
            Self::Stages => Stage::ALL.iter().map(|stage| stage.name().into()).collect(),
            Self::Explained => explained(),
            Self::Flavors => {
                let own = Flavor::OWN.iter().map(|flavor| flavor.name().to_owned());
                plain(own.chain(of_workspace(names::foreign_flavors)).collect())
            }
            Self::GpuTargets => {
                let all = GpuTarget::known().chain(gpu_families::families()).chain([NATIVE]);
                all.map(CompletionCandidate::new).collect()
            }
        }
    }
}

fn explained() -> Vec<CompletionCandidate> {
    let with_help = |id: &str, help: &str| {
        CompletionCandidate::new(id).help(Some(StyledStr::from(help.to_owned())))
    };
    let rules = rule_groups().into_iter().flat_map(|(_, rules)| rules);
    let rules = rules.map(|rule| with_help(rule.id.as_str(), rule.what));
    rules.chain(causes().iter().map(|cause| with_help(&cause.id, &cause.cause))).collect()
}
