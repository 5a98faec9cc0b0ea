//! What a component imports and its closure does not define, as lines for a terminal and as a
//! part of the closure's document.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::closure::imports::{Imports, Missing, Unchecked};
use crate::report::{Shell, Style, count};
use crate::text::visible;

/// How many imports of a kind are listed; `--json` has them all.
const LISTED: usize = 20;

/// Writes what a check of imports found to stderr; `file` is the component.toml.
pub fn show_imports(shell: &Shell, imports: &Imports, file: &str) {
    if imports.own.is_none() {
        shell
            .warning("imports are not checked: the source has no package that is called as the distribution");
        return;
    }
    for unread in &imports.unread {
        let of = unread.distribution.as_deref().map(|of| format!("{of}: ")).unwrap_or_default();
        shell.warning(visible(&format!("{of}{} (not checked)", unread.reason)));
    }
    listed(imports.warnings().map(missing_text).collect(), shell, |text| shell.warning(text));
    let (known, strange): (Vec<&Missing>, Vec<&Missing>) =
        imports.errors().partition(|missing| missing.distribution.is_some());
    let show = |text: &String| shell.status(Style::Bad, "Missing", text);
    listed(known.into_iter().map(missing_text).collect(), shell, show);
    listed(by_top_level(&strange), shell, show);
    for name in &imports.needless {
        let name = visible(name);
        shell.warning(format!("every import of `{name}` works: remove its `[[closure.import]]` from {file}"));
    }
    let errors = imports.errors().count();
    let style = if errors == 0 { Style::Good } else { Style::Bad };
    shell.status(style, "Checked", summary(imports));
    if errors > 0 {
        shell.talk(format!(
            "\n{} lock versions that define them (`not-after` in `[closure]`), or accept what may fail in {file}: \
             `[[closure.import]]` with `name` and `reason`",
            Style::Note.paint("help:")
        ));
    }
}

fn listed(texts: Vec<String>, shell: &Shell, show: impl Fn(&String)) {
    texts.iter().take(LISTED).for_each(show);
    if texts.len() > LISTED {
        shell.talk(format!("... and {} more; `--json` lists them", texts.len() - LISTED));
    }
}

fn missing_text(missing: &Missing) -> String {
    let Missing { file, line, name, distribution, .. } = missing;
    visible(&match distribution {
        Some((distribution, version)) => {
            format!("{file}:{line}: {distribution} {version} does not have `{name}`")
        }
        None => format!("{file}:{line}: no member of the closure has `{name}`"),
    })
}

/// One line for each top-level module that no member has, at the first place that imports it.
fn by_top_level(missing: &[&Missing]) -> Vec<String> {
    let mut groups: BTreeMap<&str, Vec<&Missing>> = BTreeMap::new();
    for one in missing {
        groups.entry(one.name.split('.').next().unwrap_or_default()).or_default().push(one);
    }
    let line = |(top, all): (&str, Vec<&Missing>)| match all.as_slice() {
        [only] => missing_text(only),
        all => {
            let (Missing { file, line, .. }, imports) = (all[0], all.len());
            visible(&format!("{file}:{line}: no member of the closure has `{top}` ({imports} imports)"))
        }
    };
    groups.into_iter().map(line).collect()
}

/// One line of numbers; what is zero is left out.
fn summary(imports: &Imports) -> String {
    let counts = &imports.counts;
    let accepted = imports.missing.iter().filter(|missing| missing.accepted.is_some()).count();
    let mut text = format!("{} of {}", count(counts.checked, "import"), count(counts.modules, "module"));
    for (number, what) in [
        (accepted, "accepted"),
        (imports.dynamic.len(), "dynamic"),
        (counts.compiled, "of compiled modules"),
        (counts.unread, "of files that cannot be parsed"),
        (counts.stack, "of the stack's components"),
        (counts.optional + counts.absent, "optional"),
    ] {
        if number > 0 {
            text += &format!(", {number} {what}");
        }
    }
    let others = imports.other_versions.len();
    if others > 0 {
        let them = count(others, "distribution");
        text += &format!("; of {them} the release has another version than the checked one");
    }
    text
}

/// Returns the part `imports` of the document `rocmrpm/closure/1`.
pub fn imports_json(imports: &Imports) -> Value {
    let missing = |missing: &Missing| {
        json!({
            "file": missing.file,
            "line": missing.line,
            "name": missing.name,
            "distribution": missing.distribution.as_ref().map(|(name, _)| name),
            "version": missing.distribution.as_ref().map(|(_, version)| version.to_string()),
            "partly": missing.partly,
            "accepted": missing.accepted,
        })
    };
    let unchecked = |one: &Unchecked| json!({ "file": one.file, "line": one.line, "name": one.name });
    let counts = &imports.counts;
    json!({
        "module": imports.own,
        "checked": counts.checked,
        "modules": counts.modules,
        "compiled": counts.compiled,
        "of_unread": counts.unread,
        "of_stack": counts.stack,
        "optional": counts.optional,
        "absent": counts.absent,
        "missing": imports.missing.iter().map(missing).collect::<Vec<_>>(),
        "dynamic": imports.dynamic.iter().map(unchecked).collect::<Vec<_>>(),
        "unread": imports.unread.iter().map(|unread| json!({
            "distribution": unread.distribution,
            "reason": unread.reason,
        })).collect::<Vec<_>>(),
        "other_versions": imports.other_versions.iter().map(|other| json!({
            "distribution": other.name,
            "locked": other.locked.to_string(),
            "release": other.release.as_ref().map(ToString::to_string),
        })).collect::<Vec<_>>(),
        "needless": imports.needless,
    })
}
