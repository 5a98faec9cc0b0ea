//! Which requirements hold for the wheels of a view in one environment: those of the
//! wheels themselves, of the extras that they ask of each other, and of extras that only
//! a user asks for. Not what satisfies them.

use std::collections::{BTreeMap, BTreeSet};

use pep508_rs::ExtraName;

use super::listing::{Listed, Listing};
use python_packaging::environment::Environment;
use python_packaging::needs::{Need, Needs};

/// A wheel that an installer in the environment takes, with what it requires.
#[derive(Debug)]
pub struct Usable<'v> {
    /// The wheel.
    pub wheel: &'v Listed,
    /// Its requirements.
    pub needs: Needs,
}

/// A requirement that holds, with the wheels that have it.
#[derive(Debug)]
pub struct Demand<'u> {
    /// The requirement.
    pub need: &'u Need,
    /// The wheels' file names.
    pub wheels: Vec<&'u str>,
    /// The extra that a user must ask for, where nothing in the view does.
    pub optional: Option<&'u ExtraName>,
}

/// The wheels of a view for one environment.
#[derive(Debug, Default)]
pub struct Usables<'v> {
    /// By distribution, sorted by version.
    pub wheels: BTreeMap<&'v str, Vec<Usable<'v>>>,
    /// How many wheels are for other environments.
    pub others: usize,
    /// Wheels whose METADATA cannot be had, and why.
    pub broken: Vec<(&'v Listed, String)>,
}

impl<'v> Usables<'v> {
    /// Takes from the view what an installer in the environment takes; nothing yanked.
    pub fn of(view: &'v Listing, environment: &Environment) -> Self {
        let mut usables = Self::default();
        for wheel in view.wheels.values().flatten().filter(|wheel| !wheel.said.yanked) {
            let fits = wheel.name.tags.iter().any(|tag| environment.takes(tag));
            if !fits || !environment.allows(wheel.said.requires_python.as_deref()) {
                usables.others += 1;
                continue;
            }
            match wheel.metadata() {
                Ok(text) => {
                    let needs = Needs::read(&text);
                    let of = usables.wheels.entry(&wheel.name.distribution).or_default();
                    of.push(Usable { wheel, needs });
                }
                Err(wrong) => usables.broken.push((wheel, wrong)),
            }
        }
        usables
    }

    /// Returns every requirement that holds, those that are alike once.
    pub fn demands(&self, environment: &Environment) -> Vec<Demand<'_>> {
        let markers = environment.markers();
        let asked = self.asked_extras(environment);
        let none = BTreeSet::new();
        let mut alike: BTreeMap<(&str, Option<&ExtraName>), Demand<'_>> = BTreeMap::new();
        for (name, usables) in &self.wheels {
            let asked: Vec<ExtraName> = asked.get(*name).unwrap_or(&none).iter().cloned().collect();
            for Usable { wheel, needs } in usables {
                for need in &needs.requires {
                    let extra = || needs.extras.iter().find(|e| need.holds(markers, &[(*e).clone()]));
                    let optional = match need.holds(markers, &asked) {
                        true => None,
                        false => match extra() {
                            Some(extra) => Some(extra),
                            None => continue,
                        },
                    };
                    let demand = alike.entry((&need.text, optional)).or_insert_with(|| Demand {
                        need,
                        wheels: Vec::new(),
                        optional,
                    });
                    if demand.wheels.last() != Some(&wheel.file.as_str()) {
                        demand.wheels.push(&wheel.file);
                    }
                }
            }
        }
        alike.into_values().collect()
    }

    /// Returns the extras that wheels of the view ask of each other, by distribution.
    fn asked_extras(&self, environment: &Environment) -> BTreeMap<&str, BTreeSet<ExtraName>> {
        let mut asked: BTreeMap<&str, BTreeSet<ExtraName>> = BTreeMap::new();
        // What a distribution asks can change when an extra of its own is asked for.
        let mut open: Vec<&str> = self.wheels.keys().copied().collect();
        while let Some(name) = open.pop() {
            let own: Vec<ExtraName> = asked.get(name).into_iter().flatten().cloned().collect();
            for need in self.wheels.get(name).into_iter().flatten().flat_map(|usable| &usable.needs.requires)
            {
                let Some((required, _)) = self.wheels.get_key_value(need.name()) else { continue };
                if need.parsed.extras.is_empty() || !need.holds(environment.markers(), &own) {
                    continue;
                }
                let extras = asked.entry(required).or_default();
                let before = extras.len();
                extras.extend(need.parsed.extras.iter().cloned());
                if extras.len() > before && !open.contains(required) {
                    open.push(required);
                }
            }
        }
        asked
    }
}
