//! Defines the rules for specs: their IDs, severities and texts. It does not check them;
//! [`crate::lint`] does. Waivers in component.toml may name only these rules. The rules for built
//! packages are [`crate::inspect::RULES`].

use crate::inspect::{Rule, RuleId, Severity};

/// What a template has in the place of a value that its source does not state.
pub(crate) const PLACEHOLDER: &str = "TODO";

/// All rules for specs.
pub const RULES: &[Rule] = &[
    MISSING,
    OUTDATED,
    UNCHECKED,
    NO_FILES,
    UNDEFINED,
    UNREAD,
    DIFFER,
    HSA_OVERRIDE,
    GPU_LIST,
    OPT_ROCM,
    NETWORK,
    SED,
    PATCH,
    EDIT,
    LEFT,
    LICENSE,
    WAIVER_UNUSED,
];

pub(crate) const MISSING: Rule = Rule {
    id: RuleId::new("requirement-missing"),
    severity: Severity::Error,
    what: "neither the chroot's release, its ROCm provider nor the stack satisfies a BuildRequires \
           or Requires",
    why: "the build cannot start, or users cannot install the package",
    incident: "Fedora's python-torch requires python3dist(yaml), but the project's name is pyyaml",
    help: "correct the name or the version, package what is missing, or remove the requirement; \
           `rocmrpm lint --live` queries the repositories, which can be newer than the package \
           tables",
};

pub(crate) const OUTDATED: Rule = Rule {
    id: RuleId::new("requirement-outdated"),
    severity: Severity::Warning,
    what: "a BuildRequires or Requires needs a newer version than the package table has",
    why: "the table is from the day on which the release was branched. If no update has brought \
          that version since, the build cannot start",
    incident: "",
    help: "query the repositories with `rocmrpm lint --live`, or accept the older version",
};

pub(crate) const UNCHECKED: Rule = Rule {
    id: RuleId::new("requirement-unchecked"),
    severity: Severity::Info,
    what: "requirements that could not be checked",
    why: "package tables list only packages, not files, libraries, pkgconfig() and cmake() names",
    incident: "",
    help: "require packages by name, or query the repositories with `rocmrpm lint --live`",
};

pub(crate) const NO_FILES: Rule = Rule {
    id: RuleId::new("requires-without-files"),
    severity: Severity::Error,
    what: "a package without %files requires, provides or conflicts with something",
    why: "rpm does not build a package without %files, so its tags have no effect",
    incident: "Fedora's python-torch has Requires on amdsmi in its main package, but only builds \
               the subpackage python3-torch",
    help: "move the line below the `%package` that it belongs to",
};

pub(crate) const UNDEFINED: Rule = Rule {
    id: RuleId::new("macro-undefined"),
    severity: Severity::Info,
    what: "macros that may declare packages or their files, but are not defined on this machine",
    why: "the spec can have packages and files that rpm did not read here, so \
          `requires-without-files` is not checked",
    incident: "",
    help: "install the package that defines the macros, or run rocmrpm in a container of the \
           chroot's release",
};

pub(crate) const UNREAD: Rule = Rule {
    id: RuleId::new("export-unread"),
    severity: Severity::Warning,
    what: "%build exports a variable that nothing in upstream's source names",
    why: "a misspelled variable, or one that upstream has dropped, silently has no effect: the \
          build uses the default",
    incident: "Fedora's python-triton exports TRITON_BUILD_WITH_CLANG_LD; triton's setup.py reads \
               TRITON_BUILD_WITH_CLANG_LLD",
    help: "correct the name, or remove the export",
};

pub(crate) const DIFFER: Rule = Rule {
    id: RuleId::new("exports-differ"),
    severity: Severity::Error,
    what: "two of %generate_buildrequires, %build and %install export a variable with different \
           values",
    why: "the build system configures itself again in each section, so the installed files can \
          differ from the built ones, or need other dependencies",
    incident: "Fedora's python-torch sets its GPU targets in %build and again in %install; from \
               June to August 2026 %build had the wrong ones",
    help: "export the same value in each section, preferably from a shared file",
};

pub(crate) const HSA_OVERRIDE: Rule = Rule {
    id: RuleId::new("hsa-override"),
    severity: Severity::Error,
    what: "HSA_OVERRIDE_GFX_VERSION is set in a build",
    why: "it makes the runtime treat a GPU as another one. A package must not depend on that \
          setting of the build machine; on a user's machine it hides that code for the GPU is \
          missing",
    incident: "",
    help: "remove it and set the GPU targets",
};

pub(crate) const GPU_LIST: Rule = Rule {
    id: RuleId::new("gpu-list-fixed"),
    severity: Severity::Warning,
    what: "a spec or template has a literal GPU target instead of the workspace's list",
    why: "when the workspace's targets change, this place keeps the old ones: the package is built \
          for the wrong GPUs, or for too few",
    incident: "Fedora's python-torch had PYTORCH_ROCM_ARCH=gfx1151 in its %build for two months of \
               2026",
    help: "use `gpu_targets` in the template, `{gpu-targets}` in component.toml",
};

pub(crate) const OPT_ROCM: Rule = Rule {
    id: RuleId::new("opt-rocm-in-usr"),
    severity: Severity::Error,
    what: "a spec uses /opt/rocm although ROCm is installed in /usr",
    why: "the folder does not exist: searches in it find nothing, and files installed there belong \
          to no package",
    incident: "pytorch/pytorch#149805: the build searched for a header where AMD's packages \
               install it",
    help: "use `rocm.prefix`, `rocm.libdir` or `rocm.llvm_bin` of the provider",
};

pub(crate) const NETWORK: Rule = Rule {
    id: RuleId::new("network-in-build"),
    severity: Severity::Error,
    what: "a build calls a program that uses the network",
    why: "mock and COPR build without network access, so the build fails there; with network \
          access, the downloads are not pinned",
    incident: "pytorch/pytorch#149803: the build checked out NCCL",
    help: "add the download as a source to the pin set, and pass its path to the build",
};

pub(crate) const SED: Rule = Rule {
    id: RuleId::new("sed-silent"),
    severity: Severity::Error,
    what: "a script changes upstream's files in place without checking that anything matched; only \
           one note per spec if the spec does not belong to a component",
    why: "when upstream changes the line, the command matches nothing and succeeds, so the package \
          is built without the change",
    incident: "Fedora's python-torch replaces gfx908 by gfx1151 in a list of Blas.cpp with sed: \
               once that list changes, the command silently does nothing",
    help: "declare an `[[edit]]` in component.toml, which fails unless it matches as often as \
           declared, or add a patch",
};

pub(crate) const PATCH: Rule = Rule {
    id: RuleId::new("patch-undocumented"),
    severity: Severity::Error,
    what: "a patch does not state its origin or when it can be dropped",
    why: "to update the pin, you need to know whether upstream has the change by now, and whom to \
          ask",
    incident: "",
    help: "end the patch's message with `Origin: own` or a URL, and `Drop-When:` with the \
           condition",
};

pub(crate) const EDIT: Rule = Rule {
    id: RuleId::new("edit-undocumented"),
    severity: Severity::Warning,
    what: "an edit does not state its reason or when it can be dropped",
    why: "to update the pin, you need to know whether the edit is still needed",
    incident: "",
    help: "add `reason` and `drop-when` to the `[[edit]]`",
};

pub(crate) const LEFT: Rule = Rule {
    id: RuleId::new("placeholder-left"),
    severity: Severity::Error,
    what: "a License, Summary or URL still has the word TODO",
    why: "`rocmrpm add` writes it where the source does not state a value. Users would see it in \
          the package; builds and publications reject it",
    incident: "",
    help: "write the value in the template; `rocmrpm add` explains in a comment what the source \
           states",
};

pub(crate) const LICENSE: Rule = Rule {
    id: RuleId::new("license-not-spdx"),
    severity: Severity::Error,
    what: "a License is not an SPDX expression with identifiers of the SPDX License List",
    why: "tools that check licenses cannot read it, and Fedora rejects it; builds and publications \
          reject it, too",
    incident: "",
    help: "write identifiers from https://spdx.org/licenses/ with AND, OR and WITH; for others, \
           use `LicenseRef-NAME`",
};

pub(crate) const WAIVER_UNUSED: Rule = Rule {
    id: RuleId::new("lint-waiver-unused"),
    severity: Severity::Warning,
    what: "a waiver of a lint rule matches no finding",
    why: "the accepted finding is gone, or the rule, file or text is misspelled; with another pin \
          set or chroot the waiver may still match, so this is not an error",
    incident: "",
    help: "remove the `[[lint.waive]]` table, or correct its `rule`, `file` and `found`",
};
