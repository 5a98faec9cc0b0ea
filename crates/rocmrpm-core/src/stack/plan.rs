//! Plans which components to build and why, by comparing build keys with records of earlier builds.
//! It does not build.

use std::collections::BTreeMap;

use super::key::KeyInputs;
use crate::digest::Sha256;
use crate::names::ComponentName;

/// Prefix of inputs that are keys of dependencies.
pub const REQUIRED: &str = "required component ";

/// Name of the input that is the digest of the spec.
pub const SPEC: &str = "spec";

/// The record of an earlier build of a component.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recorded {
    /// The inputs of the build.
    pub inputs: KeyInputs,
    /// The inputs of the inspection; `None` if it was never inspected.
    pub inspection: Option<KeyInputs>,
    /// A result that is missing or has changed.
    pub damaged: Option<String>,
}

/// The records of earlier builds of a component.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Earlier {
    /// The results that passed inspection.
    pub accepted: Option<Recorded>,
    /// A finished build that failed inspection or was not inspected.
    pub rejected: Option<Recorded>,
    /// The Release of the accepted results and the current one, if the specs have no other
    /// difference.
    pub releases: Option<(String, String)>,
}

/// The current inputs of a component.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Inputs {
    /// Everything that can affect the build.
    pub build: KeyInputs,
    /// Everything that can affect the inspection.
    pub inspection: KeyInputs,
}

/// The plan for one component.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Up to date: the key matches the results on disk.
    Fresh,
    /// The existing build is inspected again for these reasons, without a rebuild.
    Inspect(Vec<String>),
    /// The component is rebuilt, for these reasons.
    Stale(Vec<String>),
}

/// One component of a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlannedComponent {
    /// The name of the component.
    pub component: ComponentName,
    /// The current build key.
    pub key: Sha256,
    /// The inputs of the key.
    pub inputs: KeyInputs,
    /// The inputs of the inspection.
    pub inspection: KeyInputs,
    /// Whether it is built, and why.
    pub verdict: Verdict,
}

/// A plan with one step per component, in build order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Plan {
    /// The steps, in build order.
    pub steps: Vec<PlannedComponent>,
    /// The index of each component's step.
    index: BTreeMap<ComponentName, usize>,
}

impl Plan {
    /// Adds the next component in build order. `now` contains its own inputs; this function adds
    /// the keys of its dependencies.
    pub fn push(
        &mut self,
        component: &ComponentName,
        requires: &[&str],
        now: Inputs,
        earlier: &Earlier,
    ) {
        let Inputs { mut build, inspection } = now;
        for required in requires {
            if let Some(step) = self.step(required) {
                build.add(format!("{REQUIRED}{required}"), step.key);
            }
        }
        let accepted = earlier.accepted.as_ref();
        let mut reasons = match accepted {
            None => vec!["it was never built".to_owned()],
            Some(old) => {
                let changed = build.changed_since(&old.inputs);
                let reason = |name: &String| match &earlier.releases {
                    Some((old, new)) if name == SPEC => {
                        format!("spec changed only in its Release, {old} to {new}")
                    }
                    _ => format!("{name} changed"),
                };
                let mut reasons: Vec<String> = changed.iter().map(reason).collect();
                reasons.extend(old.damaged.clone());
                reasons
            }
        };
        let mut rebuilt = requires
            .iter()
            .filter(|r| self.step(r).is_some_and(PlannedComponent::is_stale))
            .peekable();
        let on_old_ground = rebuilt.peek().is_none();
        for required in rebuilt {
            let reason = format!("required component {required} changed");
            if !reasons.contains(&reason) && accepted.is_some() {
                reasons.push(format!("required component {required} is rebuilt"));
            }
        }
        let rejected = earlier.rejected.as_ref();
        let rejected =
            rejected.filter(|old| old.inputs == build && old.damaged.is_none() && on_old_ground);
        let verdict = match (accepted, rejected) {
            (Some(old), _) if reasons.is_empty() => match old.reasons_to_inspect(&inspection) {
                reasons if reasons.is_empty() => Verdict::Fresh,
                reasons => Verdict::Inspect(reasons),
            },
            (_, Some(old)) => match old.reasons_to_inspect(&inspection) {
                // If the user runs it again with the same rules, something unknown to the key must
                // have changed, such as a package of this machine.
                reasons if reasons.is_empty() => {
                    Verdict::Stale(vec!["it did not pass inspection".to_owned()])
                }
                reasons => Verdict::Inspect(reasons),
            },
            _ => Verdict::Stale(reasons),
        };
        let key = build.key();
        self.index.insert(component.clone(), self.steps.len());
        self.steps.push(PlannedComponent {
            component: component.clone(),
            key,
            inputs: build,
            inspection,
            verdict,
        });
    }

    /// Makes a component stale, if it is not.
    pub fn force(&mut self, component: &str) {
        let step = self.index.get(component).and_then(|&at| self.steps.get_mut(at));
        if let Some(step) = step.filter(|step| !matches!(step.verdict, Verdict::Stale(_))) {
            step.verdict = Verdict::Stale(vec!["it was requested".to_owned()]);
        }
    }

    /// Returns the step of a component.
    pub fn step(&self, component: &str) -> Option<&PlannedComponent> {
        self.steps.get(*self.index.get(component)?)
    }

    /// Returns the number of components to build.
    pub fn stale(&self) -> usize {
        self.steps.iter().filter(|step| step.is_stale()).count()
    }
}

impl PlannedComponent {
    fn is_stale(&self) -> bool {
        matches!(self.verdict, Verdict::Stale(_))
    }
}

impl Recorded {
    fn reasons_to_inspect(&self, now: &KeyInputs) -> Vec<String> {
        match &self.inspection {
            None => vec!["it was not inspected".to_owned()],
            Some(old) => {
                now.changed_since(old).iter().map(|name| format!("{name} changed")).collect()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> ComponentName {
        ComponentName::parse(text).unwrap()
    }

    fn one(name: &str, value: &str) -> KeyInputs {
        let mut inputs = KeyInputs::default();
        inputs.add(name, value);
        inputs
    }

    fn inputs(spec: &str) -> Inputs {
        Inputs { build: one("spec", spec), inspection: one("waivers", "none") }
    }

    fn recorded(step: &PlannedComponent) -> Recorded {
        Recorded {
            inputs: step.inputs.clone(),
            inspection: Some(step.inspection.clone()),
            damaged: None,
        }
    }

    fn accepted(recorded: Recorded) -> Earlier {
        Earlier { accepted: Some(recorded), ..Earlier::default() }
    }

    fn plan(now: [Inputs; 2], earlier: [Earlier; 2]) -> Vec<Verdict> {
        steps(now, earlier).into_iter().map(|step| step.verdict).collect()
    }

    fn plan_of([a, b]: [Inputs; 2], earlier: [Earlier; 2]) -> Plan {
        let mut plan = Plan::default();
        plan.push(&name("a"), &[], a, &earlier[0]);
        plan.push(&name("b"), &["a"], b, &earlier[1]);
        plan
    }

    fn steps(now: [Inputs; 2], earlier: [Earlier; 2]) -> Vec<PlannedComponent> {
        plan_of(now, earlier).steps
    }

    fn stale(reason: &str) -> Verdict {
        Verdict::Stale(vec![reason.to_owned()])
    }

    #[test]
    fn a_change_reaches_all_dependents() {
        let first = steps([inputs("1"), inputs("1")], Default::default());
        assert_eq!([&first[0].verdict, &first[1].verdict], [&stale("it was never built"); 2]);
        let old = [accepted(recorded(&first[0])), accepted(recorded(&first[1]))];
        assert_eq!(plan([inputs("1"), inputs("1")], old.clone()), [Verdict::Fresh, Verdict::Fresh]);
        assert_eq!(
            plan([inputs("2"), inputs("1")], old),
            [stale("spec changed"), stale("required component a changed")]
        );
    }

    #[test]
    fn counts_only_builds_as_stale() {
        let count = |earlier: [Earlier; 2]| plan_of([inputs("1"), inputs("1")], earlier).stale();
        let first = steps([inputs("1"), inputs("1")], Default::default());
        let old = || first.iter().map(|step| accepted(recorded(step))).collect::<Vec<_>>();
        assert_eq!(count(Default::default()), 2);
        assert_eq!(count(old().try_into().unwrap()), 0);
        let mut judged = old();
        judged[1].accepted.as_mut().unwrap().inspection = None;
        assert_eq!(count(judged.try_into().unwrap()), 0, "an inspection is not a build");
    }

    #[test]
    fn rebuilds_damaged_results() {
        let first = steps([inputs("1"), inputs("1")], Default::default());
        let old = Recorded { damaged: Some("x.rpm is gone".into()), ..recorded(&first[0]) };
        let verdicts =
            plan([inputs("1"), inputs("1")], [accepted(old), accepted(recorded(&first[1]))]);
        assert_eq!(verdicts, [stale("x.rpm is gone"), stale("required component a is rebuilt")]);
    }

    #[test]
    fn changed_judgements_need_no_build() {
        let first = steps([inputs("1"), inputs("1")], Default::default());
        let old = [accepted(recorded(&first[0])), accepted(recorded(&first[1]))];
        let waived = Inputs { inspection: one("waivers", "one"), ..inputs("1") };
        let inspect = Verdict::Inspect(vec!["waivers changed".into()]);
        assert_eq!(
            plan([waived.clone(), inputs("1")], old.clone()),
            [inspect.clone(), Verdict::Fresh]
        );

        // The same for a rejected build while an older one is accepted.
        let rejected = Some(recorded(&steps([inputs("2"), inputs("1")], Default::default())[0]));
        let both = [Earlier { rejected, ..old[0].clone() }, old[1].clone()];
        let waived = Inputs { inspection: one("waivers", "one"), ..inputs("2") };
        let verdicts = plan([waived, inputs("1")], both.clone());
        assert_eq!(verdicts, [inspect, stale("required component a changed")]);
        let verdicts = plan([inputs("2"), inputs("1")], both);
        assert_eq!(verdicts[0], stale("it did not pass inspection"));
    }

    #[test]
    fn keeps_a_build_that_was_not_inspected() {
        let first = steps([inputs("1"), inputs("1")], Default::default());
        let killed = Recorded { inspection: None, ..recorded(&first[0]) };
        let earlier =
            [Earlier { rejected: Some(killed), ..Earlier::default() }, Earlier::default()];
        let verdicts = plan([inputs("1"), inputs("1")], earlier);
        assert_eq!(verdicts[0], Verdict::Inspect(vec!["it was not inspected".into()]));
    }

    #[test]
    fn rebuilds_what_was_rejected_with_other_inputs() {
        let first = steps([inputs("1"), inputs("1")], Default::default());
        let rejected = Recorded { inspection: None, ..recorded(&first[1]) };
        let earlier =
            [Earlier::default(), Earlier { rejected: Some(rejected), ..Earlier::default() }];
        assert_eq!(plan([inputs("1"), inputs("1")], earlier)[1], stale("it was never built"));
    }
}
