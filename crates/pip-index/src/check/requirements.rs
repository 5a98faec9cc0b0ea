//! Checks that an index and the outside indexes satisfy the requirements of its wheels.

use std::collections::{BTreeMap, BTreeSet};

use super::{CLOSE, CheckFindings, Options, Report, Unchecked};
use crate::demands::{Demand, UsableWheels};
use crate::outside::{self, Answers, Match};
use rocmrpm_base::severity::Severity;
use rocmrpm_fetch::SourceError;

/// Checks that every requirement is satisfied: by the view if it has the distribution, otherwise by
/// an outside index.
pub(super) fn requirements(
    own: &BTreeSet<&str>,
    usables: &UsableWheels<'_>,
    demands: &[Demand<'_>],
    options: &Options<'_>,
    report: &mut Report,
) -> Result<(), SourceError> {
    let (urls, rest): (Vec<&Demand<'_>>, Vec<_>) = demands.iter().partition(|d| d.need.names_url());
    for demand in urls {
        let found =
            "it names a URL instead of versions, and the file at that URL can change".to_owned();
        let help = "patch the component to require versions instead".into();
        report.add(Severity::Warning, "requires-url", of(demand, found, help));
    }
    let (inside, outside): (Vec<&Demand<'_>>, Vec<_>) =
        rest.into_iter().partition(|demand| own.contains(demand.need.name()));
    for demand in inside {
        self::inside(usables, demand, report);
    }
    let names: BTreeSet<&str> = outside.iter().map(|demand| demand.need.name()).collect();
    let answers = match options.offline || options.closed {
        true => BTreeMap::new(),
        false => outside::ask(options.outside, &names)?,
    };
    for demand in outside {
        from_outside(demand, answers.get(demand.need.name()), options, report);
    }
    Ok(())
}

fn inside(usables: &UsableWheels<'_>, demand: &Demand<'_>, report: &mut Report) {
    let need = demand.need;
    let there = usables.wheels.get(need.name()).map_or(&[][..], Vec::as_slice);
    let taken: Vec<_> =
        there.iter().filter(|usable| need.takes(&usable.wheel.name.version)).collect();
    if taken.is_empty() {
        let versions: Vec<String> =
            there.iter().map(|u| u.wheel.name.version.to_string()).collect();
        let found = match versions.is_empty() {
            true => {
                format!("the index has `{}` only as yanked or for other environments", need.name())
            }
            false => format!("the index has only {} {}", need.name(), versions.join(", ")),
        };
        let help = format!(
            "build a version of `{}` that satisfies it, or rebuild the wheels that require it with \
             `rocmrpm build`",
            need.name()
        );
        return unsatisfied(demand, found, help, report);
    }
    for extra in &need.parsed.extras {
        if !taken.iter().any(|usable| usable.needs.extras.contains(extra)) {
            let found = format!("`{}` has no extra `{extra}`; installers ignore it", need.name());
            let help = "patch the component to drop the extra from the requirement";
            report.add(Severity::Warning, "unknown-extra", of(demand, found, help.into()));
        }
    }
}

fn from_outside(
    demand: &Demand<'_>,
    answers: Option<&Answers>,
    options: &Options<'_>,
    report: &mut Report,
) {
    let need = demand.need;
    const ADD: &str =
        "build it as a component, or add an index that has it to `[index] outside` in rocmrpm.toml";
    if options.closed {
        let found = format!("the index has no `{}`", need.name());
        return unsatisfied(demand, found, CLOSE.into(), report);
    }
    if options.outside.is_empty() {
        let found = format!("the index has no `{}`, and no outside index is declared", need.name());
        return unsatisfied(demand, found, ADD.into(), report);
    }
    let mut unchecked = |reason: String, unreachable: bool| {
        report.unchecked.push(Unchecked {
            requirement: need.text.clone(),
            wheels: demand.wheels.iter().map(|wheel| (*wheel).to_owned()).collect(),
            reason,
            unreachable,
        });
    };
    // The lock file omits extras that no requirement asks for.
    let held = options.held.get(need.name()).filter(|_| demand.optional.is_none());
    if let Some(version) = held.filter(|version| !need.takes(version)) {
        let found = format!(
            "the closure's lock file pins {} {version}, which does not satisfy it",
            need.name()
        );
        let help = "run `rocmrpm closure --write --upgrade` to resolve the closure with the current requirements";
        return report.add(Severity::Error, "closure-differs", of(demand, found, help.into()));
    }
    let Some(answers) = answers else {
        return unchecked("no outside index was queried (`--offline`)".into(), false);
    };
    let (mut nothing, mut sdist) = (Vec::new(), None);
    for (index, offers) in &answers.offers {
        match outside::satisfy(need, offers, held, options.environment) {
            Match::Wheel => return,
            Match::Sdist(version) => sdist = Some((index, version)),
            Match::Nothing(what) => nothing.push(format!("{index} {what}")),
        }
    }
    if let Some((index, version)) = sdist {
        let found = format!(
            "{index} has only an sdist of {} {version} for this Python; an installer would build it",
            need.name()
        );
        let help = "build it as a component to add a wheel to the index";
        return report.add(Severity::Warning, "sources-only", of(demand, found, help.into()));
    }
    if !answers.failures.is_empty() {
        return unchecked(answers.failures.join("; "), true);
    }
    let help = match held {
        Some(_) => {
            "add an index that has it to `[index] outside` in rocmrpm.toml, or choose another version with \
             `rocmrpm closure --write --upgrade`"
        }
        None => ADD,
    };
    unsatisfied(demand, nothing.join("; "), help.into(), report);
}

/// Returns what was found about a demand.
fn of<'d>(demand: &'d Demand<'_>, found: String, help: String) -> CheckFindings<'d> {
    CheckFindings { wheels: &demand.wheels, requirement: Some(&demand.need.text), found, help }
}

/// Reports an unsatisfied demand. One that only a user's extra activates is a warning, because the
/// index does not promise to satisfy it.
fn unsatisfied(demand: &Demand<'_>, found: String, help: String, report: &mut Report) {
    match demand.optional {
        Some(extra) => {
            let found = format!("with the extra `{extra}`: {found}");
            report.add(Severity::Warning, "unsatisfied-extra", of(demand, found, help));
        }
        None => report.add(Severity::Error, "unsatisfied", of(demand, found, help)),
    }
}
