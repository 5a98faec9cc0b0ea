//! Checks changes of upstream files: patches, edits and undeclared changes. It does not apply any
//! of them.

use std::collections::BTreeSet;
use std::path::Path;

use super::expand::SOURCES;
use super::exports::{is_comment, shell_words};
use super::{Finding, Spec, finding};
use crate::inspect::Severity;
use crate::lint_rules::{EDIT, PATCH, SED};

/// Programs that edit files in place, with the options that make them do so.
const IN_PLACE: &[(&str, &[&str])] =
    &[("sed", &["-i", "--in-place"]), ("perl", &["-pi", "-i", "-pie"]), ("gawk", &["-iinplace"])];

/// Maximum number of characters of a command that a finding shows.
const MAX_SHOWN: usize = 100;

pub(super) fn check(spec: &Spec<'_>) -> Vec<Finding> {
    let mut findings = silent(spec);
    let Some(own) = &spec.own else { return folded(findings).into_iter().collect() };
    for patch in &own.patches {
        let lacking = lacking(&[("Origin", &patch.origin), ("Drop-When", &patch.drop_when)]);
        if let Some(lacking) = lacking {
            let found = format!("no {lacking}");
            findings.push(finding(
                &PATCH,
                &patch.file_name,
                0,
                found,
                "`Origin:` and `Drop-When:` in the patch's message",
            ));
        }
    }
    for edit in &own.edits {
        let lacking = lacking(&[("reason", &edit.reason), ("drop-when", &edit.drop_when)]);
        if let Some(lacking) = lacking {
            let found = format!("no {lacking} for the edit of `{}` in `{}`", edit.find, edit.file);
            findings.push(finding(&EDIT, &own.file, 0, found, "both"));
        }
    }
    findings
}

fn lacking(fields: &[(&str, &String)]) -> Option<String> {
    let empty: Vec<&str> =
        fields.iter().filter(|(_, value)| value.trim().is_empty()).map(|(name, _)| *name).collect();
    (!empty.is_empty()).then(|| empty.join(" and no "))
}

/// Folds the changes in a spec that does not belong to a component into one note. Outside of a
/// workspace, changes in place are common, and there is no `[[edit]]` to replace them.
fn folded(findings: Vec<Finding>) -> Option<Finding> {
    let lines: Vec<String> =
        findings.iter().filter_map(|finding| finding.line).map(|line| line.to_string()).collect();
    let mut first = findings.into_iter().next()?;
    if lines.len() > 1 {
        first.found = format!("{} changes in place, on lines {}", lines.len(), lines.join(", "));
    }
    first.severity = Severity::Info;
    first.expected = "patches, which fail if upstream's lines change".into();
    first.help = "replace them by patches, or check with `grep -q` that each matches".into();
    Some(first)
}

fn silent(spec: &Spec<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    // Files that the scripts themselves write, so that their content is known.
    let mut written: BTreeSet<String> = BTreeSet::new();
    for script in
        spec.sections.scripts.iter().filter(|s| !["install", "check"].contains(&s.section.as_str()))
    {
        let mut lines = script.lines.iter().filter(|line| !is_comment(&line.text));
        while let Some(line) = lines.next() {
            let mut text = line.text.clone();
            while text.ends_with('\\') {
                text.pop();
                let Some(next) = lines.next() else { break };
                text.push_str(&next.text);
            }
            let words = shell_words(&text);
            let changes = words.iter().enumerate().find_map(|(at, word)| {
                let program = word.rsplit('/').next()?;
                let (program, options) = IN_PLACE.iter().find(|(name, _)| *name == program)?;
                let rest = &words[at + 1..];
                let option = |word: &String| {
                    options.iter().any(|option| {
                        word == option
                            || word.starts_with(option)
                                && !option.starts_with("--")
                                && word.len() < 8
                    })
                };
                rest.iter().any(option).then_some((*program, rest))
            });
            if let Some((program, rest)) = changes {
                // An edit of a `#!` line may do nothing if the file has none.
                let shebang = rest.iter().any(|word| word.contains("#!"));
                let ours =
                    rest.iter().any(|word| written.contains(word) || word.contains("%{buildroot}"));
                if !shebang && !ours {
                    let call = text.split_whitespace().collect::<Vec<_>>().join(" ");
                    let call: String = call.chars().take(MAX_SHOWN).collect();
                    let found = format!("{program} in place in %{}: {call}", script.section);
                    let expected = "an `[[edit]]` or a patch";
                    findings.push(finding(&SED, &spec.file, line.number, found, expected));
                }
            }
            let targets =
                words.windows(2).filter(|pair| [">", ">>", "tee"].contains(&pair[0].as_str()));
            written.extend(targets.map(|pair| pair[1].clone()));
            // The script copies one of the package's own files into upstream's source.
            if let [program, .., source, to] = words.as_slice()
                && ["cp", "install"].contains(&program.as_str())
                && Path::new(source).parent().is_some_and(|folder| folder.ends_with(SOURCES))
            {
                let name = source.rsplit('/').next().unwrap_or(source);
                written.extend([to.clone(), name.to_owned()]);
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::super::ComponentData;
    use super::super::testing::{found, spec};
    use crate::inspect::Severity;
    use crate::workspace::{Patch, VersionRange};

    #[test]
    fn finds_changes_in_place() {
        let text = "%prep\nsed -i -e 's/a/b/' CMakeLists.txt\nsed -i '1{/^#!/d}' \\\n  x.py\nsed -e s/a/b/ x > y\n\
                    sed -i s/c/d/ y\ncp -p /r/SOURCES/own.sh .\nsed -i s/c/d/ own.sh\nfind . -name '*.py' | xargs sed -i s/a/b/\n# sed -i x\nperl -pi -e s/a/b/ z\n\
                    sed -i \\\n  s/a/b/ \\\n  w\n%install\nsed -i s/a/b/ %{buildroot}/x\n";
        let found_by_component: Vec<String> = super::silent(&spec(text))
            .into_iter()
            .map(|f| format!("{}:{} {}", f.file, f.line.unwrap_or(0), f.found))
            .collect();
        assert_eq!(
            found_by_component,
            [
                "x.spec:2 sed in place in %prep: sed -i -e 's/a/b/' CMakeLists.txt",
                "x.spec:9 sed in place in %prep: find . -name '*.py' | xargs sed -i s/a/b/",
                "x.spec:11 perl in place in %prep: perl -pi -e s/a/b/ z",
                "x.spec:12 sed in place in %prep: sed -i s/a/b/ w",
            ]
        );
        let folded = super::check(&spec(text));
        assert_eq!(
            (folded.len(), folded[0].severity, folded[0].found.as_str()),
            (1, Severity::Info, "4 changes in place, on lines 2, 9, 11, 12")
        );
        let one = found(&spec("%prep\nsed -i s/a/b/ x\n"), "sed-silent");
        assert_eq!(one, ["x.spec:2 sed in place in %prep: sed -i s/a/b/ x"]);
    }

    #[test]
    fn requires_origin_and_drop_when_of_patches() {
        let patch = |origin: &str, drop_when: &str| Patch {
            file_name: "0001-x.patch".into(),
            subject: "x".into(),
            origin: origin.into(),
            drop_when: drop_when.into(),
            versions: VersionRange::default(),
        };
        let (bare, half, whole) = (patch("", ""), patch("own", ""), patch("own", "x"));
        let own = |patch| ComponentData {
            file: "c.toml".into(),
            env: Vec::new(),
            patches: vec![patch],
            edits: Vec::new(),
            waivers: &[],
        };
        let of = |patch| {
            let mut spec = spec("");
            spec.own = Some(own(patch));
            found(&spec, "patch-undocumented")
        };
        assert_eq!(of(&bare), ["0001-x.patch no Origin and no Drop-When"]);
        assert_eq!(of(&half), ["0001-x.patch no Drop-When"]);
        assert_eq!(of(&whole), [""; 0]);
    }
}
