//! The table `[closure]` of component.toml: the requirements that a component's Python closure is
//! computed from, and a packager's decisions about its members. Does not compute the closure.

use jiff::civil::Date;

use super::document::{At, Table};
use super::edit::{is_inside, versions};
use crate::names::nearest;
use crate::names::normalized;
use crate::range::VersionRange;

/// What provides a member of a closure when the component is installed as an RPM.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MemberPlace {
    /// A package of the release, whose version satisfies the requirements.
    System,
    /// A separate RPM, because the release does not have the member.
    Rpm,
    /// The private prefix, because the release has another version.
    Private,
    /// Nothing: the component works without it.
    Dropped,
}

impl MemberPlace {
    /// All places, in the order in which they are shown.
    pub const ALL: [Self; 4] = [Self::System, Self::Rpm, Self::Private, Self::Dropped];

    /// Returns the name of the place.
    pub fn name(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::Rpm => "rpm",
            Self::Private => "private",
            Self::Dropped => "dropped",
        }
    }
}

/// What a member is built from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BuiltFrom {
    /// Its source distribution.
    Sdist,
    /// The wheel from the index.
    Wheel,
}

impl BuiltFrom {
    /// Returns the name of the source.
    pub fn name(self) -> &'static str {
        match self {
            Self::Sdist => "sdist",
            Self::Wheel => "wheel",
        }
    }
}

/// The table `[closure]`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClosureRules {
    /// Requirement files below the source's top folder, used until a wheel is built. If empty,
    /// the metadata of the source distribution are used.
    pub requirements: Vec<At<String>>,
    /// Extras of the component that belong to its closure.
    pub extras: Vec<At<String>>,
    /// The name of the package with the private members. [default: `<component>-runtime`]
    pub runtime: Option<At<String>>,
    /// The last day, in UTC, whose files are taken from the index. [default: the day on which
    /// the index received the pinned version of the component]
    pub not_after: Option<Date>,
    /// Decisions about single members.
    pub members: Vec<MemberRule>,
    /// Accepted vulnerabilities and yanked files.
    pub accepts: Vec<AcceptRule>,
    /// Imports that may fail.
    pub imports: Vec<ImportRule>,
}

/// `[[closure.import]]`: an import of the component that may fail.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImportRule {
    /// A module or a name in it, with dots; everything below it is covered too.
    pub name: At<String>,
    /// The versions of the component that this is for.
    pub versions: VersionRange,
    /// Why it may fail.
    pub reason: String,
}

/// `[[closure.accept]]`: a finding of `closure audit` that is accepted for a limited time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AcceptRule {
    /// The ID of an advisory or one of its aliases; [`YANKED`] for yanked files.
    pub id: At<String>,
    /// The normalized name of the member. [default: all members]
    pub package: Option<String>,
    /// Why it is accepted.
    pub reason: String,
    /// The last day on which it is accepted.
    pub until: Date,
}

/// The ID that accepts the yanked files of a member.
pub const YANKED: &str = "yanked";

/// `[[closure.member]]`: a packager's decision about one member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemberRule {
    /// The distribution's normalized name.
    pub name: At<String>,
    /// What provides it. [default: computed]
    pub place: Option<MemberPlace>,
    /// What it is built from. [default: chosen]
    pub from: Option<BuiltFrom>,
    /// The last day, in UTC, whose files are taken for this member.
    pub not_after: Option<Date>,
    /// Packages that a build from source needs in addition to those that the metadata name.
    pub build_requires: Vec<String>,
    /// The license as an SPDX expression, if the metadata do not have it.
    pub license: Option<String>,
    /// The summary of its package, if the metadata do not have a good one.
    pub summary: Option<String>,
    /// Folders that the private package does not have, below site-packages.
    pub leave_out: Vec<String>,
    /// What its wheel bundles, as `NAME` or `NAME = VERSION`: a complete list that replaces
    /// SBOMs and reviewed tables.
    pub bundled: Option<Vec<String>>,
    /// What stops working without it; required for a dropped member, and only allowed there.
    pub without: Option<String>,
    /// Why it is decided so.
    pub reason: String,
}

/// The closure as `rocmrpm closure --write` writes it for the spec of the component:
/// `specs-templates/generated/<stem>/closure.toml`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WrittenClosure {
    /// The private members.
    pub private: Vec<String>,
    /// Distributions that the metadata require and the package does not.
    pub not_required: Vec<String>,
    /// Distributions whose extras the metadata require and the package does not.
    pub no_extras: Vec<String>,
    /// Requirements in addition to those of the metadata, in rpm's syntax.
    pub requires: Vec<String>,
    /// RPMs of members in earlier releases that an upgrade removes, in rpm's syntax.
    pub obsoletes: Vec<String>,
}

impl WrittenClosure {
    pub(super) fn read(table: &mut Table<'_>) -> Self {
        let mut list = |key| table.strings(key).into_iter().map(|at| at.value).collect();
        Self {
            private: list("private"),
            not_required: list("not-required"),
            no_extras: list("no-extras"),
            requires: list("requires"),
            obsoletes: list("obsoletes"),
        }
    }
}

impl ClosureRules {
    pub(super) fn read(table: &mut Table<'_>) -> Self {
        let requirements = table.strings("requirements");
        for at in requirements.iter().filter(|at| !is_inside(&at.value)) {
            let label = "expected a relative path without `..`";
            table.problem(at.span.clone(), "the path leads out of the source", label, None);
        }
        let extras = table.strings("extras");
        let runtime = table.string("runtime");
        if let Some(name) = &runtime {
            table.must_be_plain(name, "a package's name");
        }
        let not_after = table.day("not-after");
        let members: Vec<MemberRule> =
            table.tables("member", MemberRule::read).into_iter().flatten().collect();
        for (at, member) in members.iter().enumerate() {
            if members[..at].iter().any(|earlier| earlier.name.value == member.name.value) {
                let message =
                    format!("`{}` has two `[[closure.member]]` tables", member.name.value);
                table.problem(member.name.span.clone(), message, "remove one of the two", None);
            }
        }
        let accepts: Vec<AcceptRule> =
            table.tables("accept", AcceptRule::read).into_iter().flatten().collect();
        for (at, accept) in accepts.iter().enumerate() {
            let same = |other: &AcceptRule| {
                other.id.value == accept.id.value && other.package == accept.package
            };
            if accepts[..at].iter().any(same) {
                let message = format!("`{}` has two `[[closure.accept]]` tables", accept.id.value);
                table.problem(accept.id.span.clone(), message, "remove one of the two", None);
            }
        }
        let imports: Vec<ImportRule> =
            table.tables("import", ImportRule::read).into_iter().flatten().collect();
        Self { requirements, extras, runtime, not_after, members, accepts, imports }
    }

    /// Returns the decision about a member.
    pub fn member(&self, name: &str) -> Option<&MemberRule> {
        self.members.iter().find(|member| member.name.value == name)
    }
}

impl AcceptRule {
    fn read(table: &mut Table<'_>) -> Option<Self> {
        let id =
            table.required_string("id", "the ID of an advisory, such as `GHSA-...` or `CVE-...`");
        let package = table.string("package");
        if let Some(At { value, span }) =
            package.as_ref().filter(|at| normalized(&at.value) != at.value)
        {
            let help = format!("did you mean `{}`?", normalized(value));
            let label = "expected a normalized name: lower case, with `-`";
            table.problem(span.clone(), "this is not a normalized name", label, Some(help));
        }
        if let Some(At { span, .. }) =
            id.as_ref().filter(|at| at.value == YANKED && package.is_none())
        {
            let label = "expected `package` in the same table";
            table.problem(span.clone(), "`yanked` needs a `package`", label, None);
        }
        let reason = table.required_string("reason", "why it is accepted");
        if let Some(At { span, .. }) = reason.as_ref().filter(|at| at.value.trim().is_empty()) {
            table.problem(span.clone(), "`reason` must not be empty", "expected a few words", None);
        }
        let until = table.required_string("until", "the last day on which it is accepted")?;
        let day = until.value.parse().ok();
        if day.is_none() {
            let message = format!("`{}` is not a day", until.value);
            table.problem(until.span, message, "expected a day such as `2027-01-31`", None);
        }
        Some(Self {
            id: id?,
            package: package.map(|at| at.value),
            reason: reason?.value,
            until: day?,
        })
    }
}

impl ImportRule {
    fn read(table: &mut Table<'_>) -> Option<Self> {
        let name = table.required_string("name", "a module, or a name in it");
        let is_dotted = |name: &str| {
            let plain = |c: char| c.is_alphanumeric() || c == '_';
            name.split('.').all(|part| !part.is_empty() && part.chars().all(plain))
        };
        if let Some(At { value, span }) = name.as_ref().filter(|name| !is_dotted(&name.value)) {
            let message = format!("`{value}` is not the name of a module");
            table.problem(span.clone(), message, "expected a name such as \"numpy.linalg\"", None);
        }
        let versions = versions(table);
        let reason = table.required_string("reason", "why the import may fail");
        not_blank(table, "reason", reason.as_ref());
        Some(Self { name: name?, versions, reason: reason?.value })
    }
}

/// Rejects a text without words.
fn not_blank(table: &mut Table<'_>, key: &str, text: Option<&At<String>>) {
    if let Some(At { span, .. }) = text.filter(|text| text.value.trim().is_empty()) {
        let message = format!("`{key}` must not be empty");
        table.problem(span.clone(), message, "expected a few words", None);
    }
}

impl MemberRule {
    fn read(table: &mut Table<'_>) -> Option<Self> {
        let span = table.span();
        let name = table.required_string("name", "the name of a distribution");
        if let Some(At { value, span }) = &name
            && (value.is_empty() || normalized(value) != *value)
        {
            let help = format!("did you mean `{}`?", normalized(value));
            let label = "expected a normalized name: lower case, with `-`";
            table.problem(span.clone(), "this is not a normalized name", label, Some(help));
        }
        let place = choice(table, "place", &MemberPlace::ALL.map(|place| (place.name(), place)));
        let from = choice(
            table,
            "from",
            &[BuiltFrom::Sdist, BuiltFrom::Wheel].map(|from| (from.name(), from)),
        );
        let not_after = table.day("not-after");
        let build_requires = Self::build_requires(table, from);
        let license = table.string("license");
        let bundled = Self::bundled(table, from, license.is_some(), &span);
        let license = license.map(|at| at.value);
        let leave_out = table.strings("leave-out");
        for At { value, span } in leave_out.iter().filter(|at| !is_folder(&at.value)) {
            let label = "expected a folder below site-packages, such as \"pyarrow/tests\"";
            table.problem(span.clone(), format!("`{value}` is not a folder"), label, None);
        }
        let leave_out = leave_out.into_iter().map(|at| at.value).collect();
        let summary = table.string("summary");
        let without = table.string("without");
        let reason = table.required_string("reason", "the reason for this decision");
        for (key, text) in [("summary", &summary), ("without", &without), ("reason", &reason)] {
            not_blank(table, key, text.as_ref());
        }
        match (place, &without) {
            (Some(MemberPlace::Dropped), None) => {
                let label = "expected `without`: what stops working without it";
                table.problem(span, "a dropped member needs `without`", label, None);
            }
            (Some(MemberPlace::Dropped), Some(_)) | (_, None) => {}
            (_, Some(_)) => {
                let label = "expected `place = \"dropped\"` in the same table";
                table.problem(span, "`without` is for dropped members", label, None);
            }
        }
        let summary = summary.map(|at| at.value);
        let without = without.map(|at| at.value);
        let (name, reason) = (name?, reason?.value);
        Some(Self {
            name,
            place,
            from,
            not_after,
            build_requires,
            license,
            summary,
            leave_out,
            bundled,
            without,
            reason,
        })
    }

    fn build_requires(table: &mut Table<'_>, from: Option<BuiltFrom>) -> Vec<String> {
        let build_requires = table.strings("build-requires");
        for At { value, span } in &build_requires {
            if from != Some(BuiltFrom::Sdist) {
                let message = "`build-requires` is for source distributions";
                let label = "expected `from = \"sdist\"` in the same table";
                table.problem(span.clone(), message, label, None);
            } else if value.is_empty()
                || value.contains(|c: char| c.is_control() || "%{@#".contains(c))
            {
                let label = "expected a requirement as in a spec, such as \"openssl-devel\"";
                table.problem(span.clone(), format!("`{value}` is not a requirement"), label, None);
            }
        }
        build_requires.into_iter().map(|at| at.value).collect()
    }

    fn bundled(
        table: &mut Table<'_>,
        from: Option<BuiltFrom>,
        licensed: bool,
        span: &std::ops::Range<usize>,
    ) -> Option<Vec<String>> {
        let bundled = table.has("bundled").then(|| table.strings("bundled"))?;
        if from == Some(BuiltFrom::Sdist) {
            let label = "remove it, or remove `from = \"sdist\"`";
            table.problem(span.clone(), "`bundled` is for wheels", label, None);
        }
        if !licensed {
            let label = "expected `license`: the SPDX expression of everything in the wheel";
            table.problem(span.clone(), "`bundled` needs `license`", label, None);
        }
        for At { value, span } in bundled.iter().filter(|at| !is_bundled(&at.value)) {
            let label = "expected `NAME` or `NAME = VERSION`, such as \"openssl = 3.6.5\"";
            table.problem(span.clone(), format!("`{value}` is not a bundled package"), label, None);
        }
        Some(bundled.into_iter().map(|at| at.value).collect())
    }
}

/// Returns whether a text is `NAME` or `NAME = VERSION` and can be written to a spec.
fn is_bundled(text: &str) -> bool {
    let (name, version) = text.split_once('=').unwrap_or((text, "1"));
    let plain = |text: &str, more: &[u8]| {
        let text = text.trim();
        !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || more.contains(&b))
    };
    plain(name, b"._+-/@()") && plain(version, b"._+~^")
}

/// Returns whether a text is a path below a folder that a script can use unquoted.
fn is_folder(text: &str) -> bool {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"_.-/".contains(&b);
    let parts = || text.split('/');
    text.bytes().all(plain) && parts().all(|part| !matches!(part, "" | "." | ".."))
}

/// Reads a key with a fixed set of values.
fn choice<T: Copy>(table: &mut Table<'_>, key: &str, values: &[(&str, T)]) -> Option<T> {
    let At { value, span } = table.string(key)?;
    let found = values.iter().find(|(name, _)| *name == value);
    if found.is_none() {
        let names: Vec<&str> = values.iter().map(|(name, _)| *name).collect();
        let help =
            nearest(&value, names.iter().copied()).map(|near| format!("did you mean `{near}`?"));
        let label = format!("expected one of {}", names.join(", "));
        table.problem(span, format!("unknown {key} `{value}`"), label, help);
    }
    found.map(|(_, value)| *value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::document::File;

    fn read(text: &str) -> (Option<ClosureRules>, Vec<String>) {
        let file = File { name: "component.toml".into(), text: text.into() };
        let mut problems = Vec::new();
        let rules = file.parse(&mut problems, |root| root.table("closure", ClosureRules::read));
        (rules, problems.into_iter().map(|problem| problem.message).collect())
    }

    #[test]
    fn reads_all_decisions() {
        let (rules, problems) = read(
            "[closure]\nrequirements = [\"a/b.txt\"]\nextras = [\"audio\"]\nruntime = \"x-runtime\"\n\
             [[closure.member]]\nname = \"ray\"\nplace = \"dropped\"\nwithout = \"w\"\nreason = \"r\"\n\
             [[closure.member]]\nname = \"six\"\nfrom = \"wheel\"\nlicense = \"MIT\"\nreason = \"r\"\n",
        );
        assert_eq!(problems, [""; 0]);
        let rules = rules.unwrap();
        let values =
            |list: &[At<String>]| list.iter().map(|at| at.value.clone()).collect::<Vec<_>>();
        assert_eq!([values(&rules.requirements), values(&rules.extras)], [["a/b.txt"], ["audio"]]);
        let ray = rules.member("ray").unwrap();
        assert_eq!((ray.place, ray.without.as_deref()), (Some(MemberPlace::Dropped), Some("w")));
        let six = rules.member("six").unwrap();
        assert_eq!(
            (six.place, six.from, six.license.as_deref()),
            (None, Some(BuiltFrom::Wheel), Some("MIT"))
        );
        assert!(rules.member("numpy").is_none());
        assert_eq!(read("[closure]\n"), (Some(ClosureRules::default()), vec![]));
        assert_eq!(read(""), (None, vec![]));
    }

    #[test]
    fn reads_places_and_sources_by_name() {
        for place in MemberPlace::ALL {
            let without = if place == MemberPlace::Dropped { "without = \"w\"\n" } else { "" };
            let text = format!(
                "[[closure.member]]\nname = \"a\"\nplace = \"{}\"\nreason = \"r\"\n{without}",
                place.name()
            );
            let (rules, problems) = read(&text);
            assert_eq!(problems, [""; 0]);
            assert_eq!(rules.unwrap().members[0].place, Some(place));
        }
        for from in [BuiltFrom::Sdist, BuiltFrom::Wheel] {
            let text = format!(
                "[[closure.member]]\nname = \"a\"\nfrom = \"{}\"\nreason = \"r\"\n",
                from.name()
            );
            assert_eq!(read(&text).0.unwrap().members[0].from, Some(from));
        }
        let (_, problems) =
            read("[[closure.member]]\nname = \"a\"\nplace = \"\"\nreason = \" \"\n");
        assert_eq!(problems, ["unknown place ``", "`reason` must not be empty"]);
        let member = |lines: &str| {
            read(&format!("[[closure.member]]\nname = \"a\"\nreason = \"r\"\n{lines}\n"))
        };
        let (rules, problems) =
            member("from = \"sdist\"\nbuild-requires = [\"cmake\", \"zlib-devel < 3\"]");
        assert_eq!(problems, [""; 0]);
        assert_eq!(rules.unwrap().members[0].build_requires, ["cmake", "zlib-devel < 3"]);
        let (_, problems) = member("from = \"sdist\"\nbuild-requires = [\"%(reboot)\", \"\"]");
        assert_eq!(problems, ["`%(reboot)` is not a requirement", "`` is not a requirement"]);
        let (rules, problems) =
            member("license = \"MIT\"\nbundled = [\"openssl = 3.6.5\", \"crate(ring)\"]");
        assert_eq!(problems, [""; 0]);
        assert_eq!(rules.unwrap().members[0].bundled.as_ref().unwrap().len(), 2);
        let (_, problems) =
            member("license = \"MIT\"\nbundled = [\"a) = 1\\nRequires: b\", \"%x\"]");
        assert_eq!(problems.len(), 2, "{problems:?}");
        let (_, problems) = member("leave-out = [\"numba/tests\", \"../x\", \"/x\", \"$(x)\"]");
        assert_eq!(
            problems,
            ["`../x` is not a folder", "`/x` is not a folder", "`$(x)` is not a folder"]
        );
        let (_, problems) = member("from = \"sdist\"\nbundled = []");
        assert_eq!(problems, ["`bundled` is for wheels", "`bundled` needs `license`"]);
        let (_, problems) = member("build-requires = [\"cmake\"]");
        assert_eq!(problems, ["`build-requires` is for source distributions"]);
    }

    #[test]
    fn reads_accepted_findings() {
        let (rules, problems) = read(
            "[[closure.accept]]\nid = \"CVE-2026-1\"\nreason = \"r\"\nuntil = \"2027-01-31\"\n\
             [[closure.accept]]\nid = \"yanked\"\npackage = \"a\"\nreason = \"r\"\nuntil = \"2027-01-31\"\n",
        );
        assert_eq!(problems, [""; 0]);
        let accepts = rules.unwrap().accepts;
        assert_eq!(
            (accepts[0].id.value.as_str(), accepts[0].until.to_string()),
            ("CVE-2026-1", "2027-01-31".into())
        );
        assert_eq!(accepts[1].package.as_deref(), Some("a"));
        let (_, problems) = read(
            "[[closure.accept]]\nid = \"yanked\"\nreason = \" \"\nuntil = \"soon\"\n\
             [[closure.accept]]\nid = \"X-1\"\npackage = \"A_b\"\nreason = \"r\"\n\
             [[closure.accept]]\nid = \"X-2\"\nreason = \"r\"\nuntil = \"2027-01-31\"\n\
             [[closure.accept]]\nid = \"X-2\"\nreason = \"r\"\nuntil = \"2027-02-28\"\n",
        );
        assert_eq!(
            problems,
            [
                "`yanked` needs a `package`",
                "`reason` must not be empty",
                "`soon` is not a day",
                "this is not a normalized name",
                "`until` is missing in `[closure.accept]`",
                "`X-2` has two `[[closure.accept]]` tables",
            ]
        );
    }
}
