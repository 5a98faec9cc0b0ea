//! Collects the requirements that apply to the wheels of a view in one environment: those of the
//! wheels themselves, those of extras that the wheels ask of each other, and those of extras that
//! only a user asks for. It does not resolve them.

use std::collections::{BTreeMap, BTreeSet};

use pep508_rs::ExtraName;

use super::listing::{Listed, Listing};
use python_packaging::environment::Environment;
use python_packaging::needs::{Need, Needs};

/// A wheel that an installer in the environment accepts, with its requirements.
#[derive(Debug)]
pub struct Usable<'v> {
    /// The entry of the wheel in the view.
    pub wheel: &'v Listed,
    /// The requirements and extras in its METADATA.
    pub needs: Needs,
}

/// A requirement that applies, with the wheels that have it.
#[derive(Debug)]
pub struct Demand<'u> {
    /// The parsed requirement.
    pub need: &'u Need,
    /// The file names of the wheels.
    pub wheels: Vec<&'u str>,
    /// The extra that a user must ask for, if no wheel in the view does.
    pub optional: Option<&'u ExtraName>,
}

/// The wheels of a view that work with one environment.
#[derive(Debug, Default)]
pub struct UsableWheels<'v> {
    /// The wheels by distribution, sorted by version.
    pub wheels: BTreeMap<&'v str, Vec<Usable<'v>>>,
    /// The number of wheels for other environments.
    pub others: usize,
    /// Wheels with unavailable METADATA, each with the reason.
    pub broken: Vec<(&'v Listed, String)>,
}

impl<'v> UsableWheels<'v> {
    /// Selects the wheels of the view that an installer in the environment accepts, without yanked
    /// ones.
    pub fn of(view: &'v Listing, environment: &Environment) -> Self {
        let mut usables = Self::default();
        for wheel in view.wheels.values().flatten().filter(|wheel| !wheel.listed.yanked) {
            let fits =
                wheel.name.is_sdist() || wheel.name.tags.iter().any(|tag| environment.takes(tag));
            if !fits || !environment.allows(wheel.listed.requires_python.as_deref()) {
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

    /// Returns every requirement that applies, without duplicates.
    pub fn demands(&self, environment: &Environment) -> Vec<Demand<'_>> {
        let markers = environment.markers();
        let asked = self.asked_extras(environment);
        let none = BTreeSet::new();
        let mut alike: BTreeMap<(&str, Option<&ExtraName>), Demand<'_>> = BTreeMap::new();
        for (name, usables) in &self.wheels {
            let asked: Vec<ExtraName> = asked.get(*name).unwrap_or(&none).iter().cloned().collect();
            for Usable { wheel, needs } in usables {
                for need in &needs.requires {
                    let extra =
                        || needs.extras.iter().find(|e| need.holds(markers, &[(*e).clone()]));
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
        // Requirements of a distribution can change when another wheel asks for one of its extras.
        let mut open: Vec<&str> = self.wheels.keys().copied().collect();
        while let Some(name) = open.pop() {
            let own: Vec<ExtraName> = asked.get(name).into_iter().flatten().cloned().collect();
            for need in self
                .wheels
                .get(name)
                .into_iter()
                .flatten()
                .flat_map(|usable| &usable.needs.requires)
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
