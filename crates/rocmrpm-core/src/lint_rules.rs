//! Defines the rules for specs: their IDs, severities and texts. It does not check them;
//! [`crate::lint`] does. Waivers in component.toml may name only these rules. The rules for built
//! packages are [`crate::inspect::RULES`].

use crate::inspect::{Rule, RuleId, Severity};

/// All rules for specs.
pub const RULES: &[Rule] = &[
    MISSING,
    OUTDATED,
    UNCHECKED,
    NO_FILES,
    UNREAD,
    DIFFER,
    HSA_OVERRIDE,
    GPU_LIST,
    OPT_ROCM,
    NETWORK,
    SED,
    PATCH,
    EDIT,
    WAIVER_UNUSED,
];

pub(crate) const MISSING: Rule = Rule {
    id: RuleId::new("requirement-missing"),
    severity: Severity::Error,
    what: "a BuildRequires or Requires that neither the chroot's release, its ROCm provider nor the stack satisfies",
    why: "the build stops before it begins, or the package cannot be installed",
    incident: "Fedora's python-torch requires python3dist(yaml) where the project's name is pyyaml",
    help: "correct the name or the version, package what is missing, or do without it; `rocmrpm lint --live` asks the \
           repositories instead of the package tables, which are as old as their first lines say",
};

pub(crate) const OUTDATED: Rule = Rule {
    id: RuleId::new("requirement-outdated"),
    severity: Severity::Warning,
    what: "a BuildRequires or Requires wants a newer version than the package table has",
    why: "the table is of the day on which the release was branched; an update may have brought that version since, \
          or not, and then the build stops before it begins",
    incident: "",
    help: "ask the repositories with `rocmrpm lint --live`, or do with the older version",
};

pub(crate) const UNCHECKED: Rule = Rule {
    id: RuleId::new("requirement-unchecked"),
    severity: Severity::Info,
    what: "requirements of which it is not known whether anything satisfies them",
    why: "package tables have names alone: not files, libraries, pkgconfig() and cmake() names",
    incident: "",
    help: "name packages where that says the same, or use `rocmrpm lint --live`, which asks the repositories",
};

pub(crate) const NO_FILES: Rule = Rule {
    id: RuleId::new("requires-without-files"),
    severity: Severity::Error,
    what: "a package without %files requires, provides or conflicts with something",
    why: "without %files the package is not made, so nothing that stands in its description has an effect",
    incident: "Fedora's python-torch has Requires on amdsmi in its main package, of which only the subpackage \
               python3-torch is made",
    help: "move the line behind the `%package` that it is meant for",
};

pub(crate) const UNREAD: Rule = Rule {
    id: RuleId::new("export-unread"),
    severity: Severity::Warning,
    what: "%build exports a variable that nothing in upstream's source names",
    why: "a misspelt variable, or one that upstream has dropped, has no effect, and nobody notices: the build goes on \
          with the default",
    incident: "Fedora's python-triton exports TRITON_BUILD_WITH_CLANG_LD; triton's setup.py reads \
               TRITON_BUILD_WITH_CLANG_LLD",
    help: "correct the name, or remove the export",
};

pub(crate) const DIFFER: Rule = Rule {
    id: RuleId::new("exports-differ"),
    severity: Severity::Error,
    what: "two of %generate_buildrequires, %build and %install export a variable with different values",
    why: "the build system configures itself anew in each of them: what is installed is then not what was built, or \
          needs what was not asked for",
    incident: "Fedora's python-torch sets its GPU targets in %build and again in %install; from June to August 2026 \
               %build had others than were meant",
    help: "export the same value in each section, best from one place that all of them include",
};

pub(crate) const HSA_OVERRIDE: Rule = Rule {
    id: RuleId::new("hsa-override"),
    severity: Severity::Error,
    what: "HSA_OVERRIDE_GFX_VERSION is set in a build",
    why: "it makes the runtime take a GPU for another one. In a build it decides what a GPU of the build machine is \
          taken for, and a package must not depend on that; on a user's machine it hides that code for the GPU is \
          missing",
    incident: "",
    help: "remove it and name the GPU targets",
};

pub(crate) const GPU_LIST: Rule = Rule {
    id: RuleId::new("gpu-list-fixed"),
    severity: Severity::Warning,
    what: "a GPU target stands in a spec or template instead of coming from the workspace's list",
    why: "when the workspace's targets change, this place keeps the old ones: a package for the wrong GPUs, or for \
          fewer than were meant",
    incident: "Fedora's python-torch had PYTORCH_ROCM_ARCH=gfx1151 in its %build for two months of 2026",
    help: "use `gpu_targets` in the template, `{gpu-targets}` in component.toml",
};

pub(crate) const OPT_ROCM: Rule = Rule {
    id: RuleId::new("opt-rocm-in-usr"),
    severity: Severity::Error,
    what: "/opt/rocm in a spec whose ROCm is installed in /usr",
    why: "the folder is not there: a path that is searched is searched in vain, one that is linked or installed to \
          belongs to nobody",
    incident: "pytorch/pytorch#149805: a header looked for where AMD's packages have it",
    help: "use `rocm.prefix`, `rocm.libdir` or `rocm.llvm_bin` of the provider",
};

pub(crate) const NETWORK: Rule = Rule {
    id: RuleId::new("network-in-build"),
    severity: Severity::Error,
    what: "a program that fetches something from the network is called in a build",
    why: "mock and COPR build without network, so that the build stops there; where it has one, what is fetched is \
          pinned by nobody",
    incident: "pytorch/pytorch#149803: a checkout of NCCL during the build",
    help: "name what is fetched as a source in the pin set, and tell the build where it lies",
};

pub(crate) const SED: Rule = Rule {
    id: RuleId::new("sed-silent"),
    severity: Severity::Error,
    what: "a script changes upstream's files in place without telling whether anything matched; in a spec that is \
           no component's, a warning",
    why: "when upstream changes the line, the command matches nothing, ends with success, and the package is built \
          without the change",
    incident: "Fedora's python-torch replaces gfx908 by gfx1151 in a list of Blas.cpp by sed: once that list has \
               changed, nothing happens and nothing says so",
    help: "make it an `[[edit]]` of component.toml, which stops the build when it does not match as often as declared, \
           or a patch",
};

pub(crate) const PATCH: Rule = Rule {
    id: RuleId::new("patch-undocumented"),
    severity: Severity::Error,
    what: "a patch does not say where it comes from or when it can go",
    why: "who updates the pin has to know whether upstream has the change by now, and whom to ask",
    incident: "",
    help: "end the patch's message with `Origin: own` or a URL, and `Drop-When:` with the condition",
};

pub(crate) const EDIT: Rule = Rule {
    id: RuleId::new("edit-undocumented"),
    severity: Severity::Warning,
    what: "an edit does not say why it is made or when it can go",
    why: "who updates the pin has to know whether it is still needed",
    incident: "",
    help: "give the `[[edit]]` its `reason` and `drop-when`",
};

pub(crate) const WAIVER_UNUSED: Rule = Rule {
    id: RuleId::new("lint-waiver-unused"),
    severity: Severity::Warning,
    what: "a waiver of a lint rule matches no finding",
    why: "what it accepted is gone, or its rule, file or text is misspelt; with another pin set or chroot it may \
          still match, which is why this is no error",
    incident: "",
    help: "remove the `[[lint.waive]]` table, or correct its `rule`, `file` and `found`",
};
