//! The plan: for each component, whether it would be built, and why. Compares
//! build keys with what earlier builds recorded; does nothing itself.

use std::collections::BTreeMap;

use super::key::KeyInputs;
use crate::digest::Sha256;
use crate::names::ComponentName;

/// What an earlier build of a component left behind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recorded {
    /// The inputs it was built from.
    pub inputs: KeyInputs,
    /// A result that should be there and is not, or is not what it was.
    pub damaged: Option<String>,
}

/// What a plan says of one component.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing to do: the key is that of the results on disk.
    Fresh,
    /// It would be built, for these reasons.
    Stale(Vec<String>),
}

/// One component of a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// Which component.
    pub component: ComponentName,
    /// Its build key now.
    pub key: Sha256,
    /// The inputs of that key.
    pub inputs: KeyInputs,
    /// Whether it would be built.
    pub verdict: Verdict,
}

/// A plan: one step per component, in build order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Plan {
    /// The steps.
    pub steps: Vec<Step>,
}

impl Plan {
    /// Adds the next component in build order. `inputs` are its own; the keys of
    /// the components that it requires are added here.
    pub fn push(
        &mut self,
        component: &ComponentName,
        requires: &[&str],
        mut inputs: KeyInputs,
        recorded: Option<&Recorded>,
    ) {
        let keys: BTreeMap<&str, &Step> = self.steps.iter().map(|s| (s.component.as_str(), s)).collect();
        for required in requires {
            if let Some(step) = keys.get(required) {
                inputs.add(format!("required component {required}"), step.key);
            }
        }
        let mut reasons = match recorded {
            None => vec!["it was never built".to_owned()],
            Some(old) => {
                let changed = inputs.changed_since(&old.inputs);
                let mut reasons: Vec<String> = changed.iter().map(|name| format!("{name} changed")).collect();
                reasons.extend(old.damaged.clone());
                reasons
            }
        };
        let rebuilt = requires.iter().filter(|r| keys.get(*r).is_some_and(|s| s.verdict != Verdict::Fresh));
        for required in rebuilt {
            let reason = format!("required component {required} changed");
            if !reasons.contains(&reason) && recorded.is_some() {
                reasons.push(format!("required component {required} is built anew"));
            }
        }
        let verdict = if reasons.is_empty() { Verdict::Fresh } else { Verdict::Stale(reasons) };
        let key = inputs.key();
        self.steps.push(Step { component: component.clone(), key, inputs, verdict });
    }

    /// Returns how many components would be built.
    pub fn stale(&self) -> usize {
        self.steps.iter().filter(|step| step.verdict != Verdict::Fresh).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> ComponentName {
        ComponentName::parse(text).unwrap()
    }

    fn inputs(spec: &str) -> KeyInputs {
        let mut inputs = KeyInputs::default();
        inputs.add("spec", spec);
        inputs
    }

    fn recorded(inputs: &KeyInputs) -> Recorded {
        Recorded { inputs: inputs.clone(), damaged: None }
    }

    #[test]
    fn a_change_reaches_everything_above_it() {
        let mut first = Plan::default();
        first.push(&name("a"), &[], inputs("1"), None);
        first.push(&name("b"), &["a"], inputs("1"), None);
        let old: Vec<Recorded> = first.steps.iter().map(|s| recorded(&s.inputs)).collect();
        assert_eq!(first.stale(), 2);

        let mut same = Plan::default();
        same.push(&name("a"), &[], inputs("1"), Some(&old[0]));
        same.push(&name("b"), &["a"], inputs("1"), Some(&old[1]));
        assert_eq!(same.stale(), 0);

        let mut changed = Plan::default();
        changed.push(&name("a"), &[], inputs("2"), Some(&old[0]));
        changed.push(&name("b"), &["a"], inputs("1"), Some(&old[1]));
        let reasons: Vec<_> = changed.steps.iter().map(|s| s.verdict.clone()).collect();
        assert_eq!(
            reasons,
            [
                Verdict::Stale(vec!["spec changed".into()]),
                Verdict::Stale(vec!["required component a changed".into()])
            ]
        );
    }

    #[test]
    fn damage_is_a_reason() {
        let mut plan = Plan::default();
        let old = Recorded { damaged: Some("x.rpm is gone".into()), ..recorded(&inputs("1")) };
        plan.push(&name("a"), &[], inputs("1"), Some(&old));
        let Verdict::Stale(reasons) = &plan.steps[0].verdict else { panic!("fresh") };
        assert_eq!(reasons, &["x.rpm is gone"]);
    }
}
